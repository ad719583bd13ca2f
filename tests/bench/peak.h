/* peak.h: what is held and not used, at the peak of a trace. */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

#include <stdbool.h>

/* subject: warmpool or warmpool-device; work: of a trace; lag: of events.
 * Prints; false, with a line on standard error, if it is another. */
bool bench_peak(const char *subject, const char *work, unsigned lag);

#endif
