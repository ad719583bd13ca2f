/* text_call.h: what every public function that writes a text does, so that one
 * rule holds for all of them (stats.h): a text that is cut is TRUNCATED, unless
 * the call asked for its size alone. */
#ifndef WM_TEXT_CALL_H
#define WM_TEXT_CALL_H

#include "runtime/base/text.h"
#include "runtime/thread/runtime_body.h"

/* Appends a text about the runtime. what: the writer's own. Figures that grow
 * while nothing happens (ages, the time) have a fixed width, so that the size
 * that one call answers is enough for the next. */
typedef warm_status wm_text_writer(warm_runtime *runtime, const void *what,
                                   wm_text *text);

/* The whole of a public call: checks the runtime and text, writes, and sets
 * *needed (may be null) if write succeeds. Status: TRUNCATED; that of write. */
warm_status wm_text_call(warm_runtime *runtime, wm_text_writer *write,
                         const void *what, char *text, size_t bytes,
                         size_t *needed);

/* Writes a text of any length into memory of its own, and again with more room
 * if it grows meanwhile. *text: owned, wm_meta_free() it; null if the call
 * fails. Status: OUT_OF_MEMORY; that of write. */
warm_status wm_text_call_whole(warm_runtime *runtime, wm_text_writer *write,
                               const void *what, char **text);

/* How a number that grows by itself is written: always as wide as the largest
 * one. JSON allows blanks before a number. */
#define WM_TEXT_TIME "%20" PRIu64

#endif
