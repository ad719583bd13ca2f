/* options.h: options resolved from a struct, WARMPOOL_CONF and defaults. */
#ifndef WM_OPTIONS_H
#define WM_OPTIONS_H

#include "runtime/base/text.h"
#include "warmpool/options.h"

#include <stdbool.h>

enum { WM_OPTION_TEXT_MAX = 256, WM_OPTION_LIST_MAX = 1024 };

/* Numbers that tests set by the list test, as in test:arenas=2:numa_nodes=2,
 * which is not in the table of options: X(name, unit, default, min, max).
 * - arenas: of a node or device; 0: more under contention, up to one a CPU
 * - numa_nodes: 0: the machine's (host device: 1), 1: ignored, more: simulated
 * - pin_threads: touch pages before registration; 0: cores, at most 8
 * - batch_count, batch_bytes, batch_ms: most frees on a stream that share one
 *   event, and how long they wait for it; keep may allow less
 * - magazine_blocks, magazine_bytes: most that a thread caches, of one size and
 *   in all (of devices: for each of eight streams); keep may allow less */
#define WM_TEST_MAP(X)                                                         \
    X(arenas, "arenas", 0, 0, 16)                                              \
    X(numa_nodes, "nodes", 0, 0, 64)                                           \
    X(pin_threads, "threads", 0, 0, 64)                                        \
    X(batch_count, "frees", 64, 1, 4096)                                       \
    X(batch_bytes, "bytes", (uint64_t)12 << 20, 1, (uint64_t)1 << 46)          \
    X(batch_ms, "ms", 10, 1, (uint64_t)1 << 40)                                \
    X(magazine_blocks, "blocks", 32, 1, 1024)                                  \
    X(magazine_bytes, "bytes", (uint64_t)256 << 20, 4096, (uint64_t)1 << 40)

/* Every option with its final value; texts are copies, "" when not given. */
typedef struct wm_options {
#define WM_OPTION_SIZE(name, u, def, lo, hi, h)  uint64_t name;
#define WM_OPTION_ENUM(name, def, choices, help) char name[16];
#define WM_OPTION_SET(name, words, help)         char name[sizeof(words)];
#define WM_OPTION_TEXT(name, help)               char name[WM_OPTION_TEXT_MAX];
#define WM_OPTION_LIST(name, names, help)        char name[WM_OPTION_LIST_MAX];
    WARM_OPTION_MAP(WM_OPTION_SIZE, WM_OPTION_ENUM, WM_OPTION_SET,
                    WM_OPTION_TEXT, WM_OPTION_LIST)
#define WM_OPTION_TEST(name, u, def, lo, hi) uint64_t name;
    WM_TEST_MAP(WM_OPTION_TEST)
    char test[WM_OPTION_LIST_MAX];
    unsigned number; /* of the runtime in its process, from 1; 0: not set */
#undef WM_OPTION_SIZE
#undef WM_OPTION_ENUM
#undef WM_OPTION_SET
#undef WM_OPTION_TEXT
#undef WM_OPTION_LIST
#undef WM_OPTION_TEST
} wm_options;

/* Resolves given (may be null) over conf (the text of WARMPOOL_CONF, may be
 * null) over defaults. *options is written on success only.
 * Status: INVALID_OPTION, INVALID_ARGUMENT (struct size). */
warm_status wm_options_resolve(const warm_options *given, const char *conf,
                               wm_options *options);

/* A watermark as a ratio, which is given as text alone: above every number of
 * bytes that an option allows, and below WARM_OFF. */
#define WM_OPTION_RATIO     ((uint64_t)1 << 62)
#define WM_OPTION_RATIO_ONE 1000000u

static inline bool wm_option_is_ratio(uint64_t value)
{
    return value != WARM_OFF && value >= WM_OPTION_RATIO;
}

static inline double wm_option_ratio(uint64_t value)
{
    return (double)(value - WM_OPTION_RATIO) / WM_OPTION_RATIO_ONE;
}

/* Whether conf (may be null) has an entry for this key, or the entry "help". */
bool wm_options_named(const char *conf, const char *key);

/* Whether the value of a set ("off", or words joined by +) has the word. */
bool wm_options_has(const char *set, const char *word);
/* Whether it has any. */
bool wm_options_any(const char *set);

/* Writes to value what a list, NAME=VALUE joined by ':', has first for name;
 * false if it has nothing. */
bool wm_options_part(const char *list, const char *name, char *value,
                     size_t bytes);

/* Appends every option as "name:value\n". */
void wm_options_put(const wm_options *options, wm_text *text);

#endif
