/* work_trace.c: the two made traces as works: what a subject holds at the
 * peak. A name's last s: every buffer's thread records its own stream on it. */
#include "tests/bench/made.h"
#include "tests/bench/play.h"

bool bench_work_trace(const bench_setup *setup, bench_result *result)
{
    const bench_subject *subject = bench_subject_find(setup->subject);
    bench_play play = {.subject = subject, .own = true};
    bench_trace *trace = bench_trace_of(setup->work);
    bool played = false;

    if (trace != NULL && subject != NULL &&
        (trace->streams == 0 || subject->record != NULL) &&
        subject->open(setup)) {
        play.trace = trace;
        play.steps = setup->ops < trace->steps ? setup->ops : trace->steps;
        played = bench_play_all(&play, result);
    }
    bench_trace_end(trace);
    return played;
}
