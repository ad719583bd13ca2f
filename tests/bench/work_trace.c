/* work_trace.c: the made traces as works: what a subject holds at the peak.
 * With several streams a thread they are numbered, as in a replay. */
#include "tests/bench/least.h"
#include "tests/bench/made.h"
#include "tests/bench/play.h"

bool bench_work_trace(const bench_setup *setup, bench_result *result)
{
    const bench_subject *subject = bench_subject_find(setup->subject);
    bench_setup numbered = *setup;
    bench_play play = {.subject = subject, .own = setup->made.streams <= 1};
    bench_trace *trace;
    bool played = false;

    numbered.made.threads = setup->threads;
    numbered.made.device = !play.own && subject != NULL && subject->device;
    trace = bench_trace_make(setup->work, &numbered.made);
    if (!play.own && trace != NULL) {
        numbered.work = "replay";
        numbered.size = trace->streams;
    }
    if (trace != NULL && subject != NULL &&
        (trace->streams == 0 || subject->record != NULL) &&
        subject->open(&numbered)) {
        play.trace = trace;
        play.steps = setup->ops < trace->steps ? setup->ops : trace->steps;
        played = bench_play_all(&play, result);
        result->least = (double)bench_least(trace, setup->lag);
    }
    bench_trace_end(trace);
    return played;
}
