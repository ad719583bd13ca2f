/* work_event.c: what the bench's own events cost, without any library: a use of
 * a stream, a record and a query an operation. Figures of rows with streams
 * hold that much for each event, whoever is measured.
 *
 * events         every thread on a stream of its own
 * events-shared  all threads on one: its count is written by all of them */
#include "tests/bench/bench.h"
#include "tests/bench/event.h"

#include <stdlib.h>
#include <string.h>

typedef struct place {
    bench_stream *stream;
    bench_event *event;
} place;

static void record_loop(void *context, unsigned thread, uint64_t ops)
{
    const place *mine = (const place *)context + thread;

    for (uint64_t i = 0; i < ops; i++) {
        bench_stream_use(mine->stream);
        bench_event_record(mine->event, mine->stream);
        (void)bench_event_done(mine->event);
    }
}

bool bench_work_event(const bench_setup *setup, bench_result *result)
{
    bool shared = strcmp(setup->work, "events-shared") == 0;
    place *places = calloc(setup->threads, sizeof *places);
    bool made = places != NULL;

    bench_event_price(setup->record_ns, setup->query_ns, setup->lag,
                      setup->aging != 0);
    for (unsigned i = 0; made && i < setup->threads; i++) {
        places[i].stream =
            shared && i > 0 ? places[0].stream : bench_stream_new();
        places[i].event = bench_event_new();
        made = places[i].stream != NULL && places[i].event != NULL;
    }
    if (made) {
        bench_measure(setup, record_loop, places, NULL, NULL, result);
    }
    for (unsigned i = 0; places != NULL && i < setup->threads; i++) {
        bench_event_end(places[i].event);
        if (i == 0 || !shared) {
            bench_stream_end(places[i].stream);
        }
    }
    free(places);
    return made;
}
