/* options.c: one table of options: parsed, checked and printed from here. */
#include "runtime/base/options.h"

#include "runtime/base/sized.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_type { TYPE_SIZE, TYPE_ENUM, TYPE_TEXT };

struct option {
    const char *name;
    enum option_type type;
    size_t offset; /* in wm_options */
    size_t given;  /* in warm_options */
    uint64_t size_default, min, max;
    const char *text_default, *choices, *help;
    size_t room; /* bytes of a text in wm_options */
};

#define ROW_SIZE(n, def, lo, hi, h)                                            \
    {.name = #n,                                                               \
     .type = TYPE_SIZE,                                                        \
     .offset = offsetof(wm_options, n),                                        \
     .given = offsetof(warm_options, n),                                       \
     .size_default = (def),                                                    \
     .min = (lo),                                                              \
     .max = (hi),                                                              \
     .help = (h)},
#define ROW_ENUM(n, def, c, h)                                                 \
    {.name = #n,                                                               \
     .type = TYPE_ENUM,                                                        \
     .offset = offsetof(wm_options, n),                                        \
     .given = offsetof(warm_options, n),                                       \
     .text_default = (def),                                                    \
     .choices = (c),                                                           \
     .room = sizeof((wm_options *)NULL)->n,                                    \
     .help = (h)},
#define ROW_TEXT(n, h)                                                         \
    {.name = #n,                                                               \
     .type = TYPE_TEXT,                                                        \
     .offset = offsetof(wm_options, n),                                        \
     .given = offsetof(warm_options, n),                                       \
     .text_default = "",                                                       \
     .room = sizeof((wm_options *)NULL)->n,                                    \
     .help = (h)},

/* Where options are written, for messages. */
static const char in_conf[] = "WARMPOOL_CONF", in_struct[] = "warm_options";

/* Of a text that is not allowed this much is shown, or there would be no room
 * to say what is. */
#define SHOWN "%.48s"

static const struct option table[] = {
    WARM_OPTION_MAP(ROW_SIZE, ROW_ENUM, ROW_TEXT)};
enum { OPTIONS = sizeof table / sizeof table[0] };

static uint64_t *size_slot(wm_options *options, const struct option *o)
{
    return (uint64_t *)(void *)((char *)options + o->offset);
}

static char *text_slot(wm_options *options, const struct option *o)
{
    return (char *)options + o->offset;
}

/* 4096, 64K, 2G … into *value; UINT64_MAX, which no option allows, for what is
 * more than that. */
static bool parse_size(const char *text, uint64_t *value)
{
    static const char suffixes[] = "KMGT";
    const char *suffix;
    char *end;
    unsigned shift = 0;
    uint64_t number;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    number = strtoull(text, &end, 10);
    suffix = *end != '\0' ? strchr(suffixes, *end & ~0x20) : NULL;
    if (suffix != NULL && *suffix != '\0') {
        shift = 10u * (unsigned)(suffix - suffixes + 1);
        end++;
    }
    if (*end != '\0') {
        return false;
    }
    *value = number <= UINT64_MAX >> shift ? number << shift : UINT64_MAX;
    return true;
}

/* Whether value is one of "a|b|c". */
static bool is_choice(const char *choices, const char *value)
{
    size_t length = strcspn(value, "|");

    if (value[length] != '\0') {
        return false;
    }
    for (const char *c = choices; c != NULL; c = strchr(c, '|')) {
        c += *c == '|';
        if (strncmp(c, value, length) == 0 && length > 0 &&
            (c[length] == '|' || c[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static warm_status set_size(wm_options *options, const struct option *o,
                            const char *where, uint64_t value, const char *text)
{
    if (value < o->min || value > o->max) {
        return wm_fail(WARM_INVALID_OPTION,
                       "%s: option %s: " SHOWN
                       " is out of range; allowed is %" PRIu64 " to %" PRIu64
                       ", also with suffix K, M, G or T",
                       where, o->name, text, o->min, o->max);
    }
    *size_slot(options, o) = value;
    return WARM_OK;
}

static warm_status set_text(wm_options *options, const struct option *o,
                            const char *where, const char *text)
{
    if (o->type == TYPE_ENUM && !is_choice(o->choices, text)) {
        return wm_fail(WARM_INVALID_OPTION,
                       "%s: option %s: '" SHOWN
                       "' is not allowed; allowed is %s",
                       where, o->name, text, o->choices);
    }
    if (strlen(text) >= o->room) {
        return wm_fail(WARM_INVALID_OPTION,
                       "%s: option %s: '" SHOWN
                       "...' is too long; allowed are %zu characters",
                       where, o->name, text, o->room - 1);
    }
    strcpy(text_slot(options, o), text);
    return WARM_OK;
}

static warm_status set_from_text(wm_options *options, const struct option *o,
                                 const char *text)
{
    uint64_t value = 0;

    if (o->type != TYPE_SIZE) {
        return set_text(options, o, in_conf, text);
    }
    if (!parse_size(text, &value)) {
        return wm_fail(WARM_INVALID_OPTION,
                       "%s: option %s: '" SHOWN
                       "' is not a number; allowed is %" PRIu64 " to %" PRIu64
                       ", also with suffix K, M, G or T",
                       in_conf, o->name, text, o->min, o->max);
    }
    return set_size(options, o, in_conf, value, text);
}

static warm_status unknown_key(const char *key)
{
    char names[400] = "";
    size_t used = 0;

    for (int i = 0; i < OPTIONS && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                 i > 0 ? ", " : "", table[i].name);
    }
    return wm_fail(WARM_INVALID_OPTION,
                   "%s: unknown option '" SHOWN "'; allowed are %s", in_conf,
                   key, names);
}

static warm_status apply_pair(wm_options *options, char *pair)
{
    char *colon = strchr(pair, ':');

    if (colon == NULL) {
        return wm_fail(WARM_INVALID_OPTION,
                       "%s: '" SHOWN "' is not of the form key:value", in_conf,
                       pair);
    }
    *colon = '\0';
    for (int i = 0; i < OPTIONS; i++) {
        if (strcmp(table[i].name, pair) == 0) {
            return set_from_text(options, &table[i], colon + 1);
        }
    }
    return unknown_key(pair);
}

static warm_status apply_conf(wm_options *options, const char *conf)
{
    char *copy = strdup(conf);
    char *rest = copy;
    char *pair;
    warm_status status = WARM_OK;

    if (copy == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory to read WARMPOOL_CONF");
    }
    while (status == WARM_OK && (pair = strsep(&rest, ",")) != NULL) {
        if (*pair != '\0') {
            status = apply_pair(options, pair);
        }
    }
    free(copy);
    return status;
}

static warm_status apply_given(wm_options *options, const warm_options *given)
{
    warm_options all;
    warm_status status = wm_sized_check(given, sizeof all, "warm_options");

    if (status != WARM_OK) {
        return status;
    }
    wm_sized_in(&all, given, sizeof all);
    for (int i = 0; i < OPTIONS && status == WARM_OK; i++) {
        const struct option *o = &table[i];
        const char *field = (const char *)&all + o->given;

        if (o->type == TYPE_SIZE) {
            uint64_t value = *(const uint64_t *)(const void *)field;
            char text[24];

            snprintf(text, sizeof text, "%" PRIu64, value);
            status = value != 0 ? set_size(options, o, in_struct, value, text)
                                : WARM_OK;
        } else {
            const char *text = *(const char *const *)(const void *)field;

            status =
                text != NULL ? set_text(options, o, in_struct, text) : WARM_OK;
        }
    }
    return status;
}

static void set_defaults(wm_options *options)
{
    memset(options, 0, sizeof *options);
    for (int i = 0; i < OPTIONS; i++) {
        if (table[i].type == TYPE_SIZE) {
            *size_slot(options, &table[i]) = table[i].size_default;
        } else {
            strcpy(text_slot(options, &table[i]), table[i].text_default);
        }
    }
}

warm_status wm_options_resolve(const warm_options *given, const char *conf,
                               wm_options *options)
{
    wm_options resolved;
    warm_status status = WARM_OK;

    set_defaults(&resolved);
    if (conf != NULL) {
        status = apply_conf(&resolved, conf);
    }
    if (status == WARM_OK && given != NULL) {
        status = apply_given(&resolved, given);
    }
    if (status == WARM_OK) {
        *options = resolved;
    }
    return status;
}

size_t wm_options_text(const wm_options *options, char *text, size_t bytes)
{
    size_t used = 0;

    for (int i = 0; i < OPTIONS; i++) {
        const struct option *o = &table[i];
        const char *field = (const char *)options + o->offset;
        char line[WM_OPTION_TEXT_MAX + 32];
        int length;

        if (o->type == TYPE_SIZE) {
            length = snprintf(line, sizeof line, "%s:%" PRIu64 "\n", o->name,
                              *(const uint64_t *)(const void *)field);
        } else {
            length = snprintf(line, sizeof line, "%s:%s\n", o->name, field);
        }
        if (text != NULL && used < bytes) {
            snprintf(text + used, bytes - used, "%s", line);
        }
        used += (size_t)length;
    }
    return used + 1;
}

size_t warm_options_help(char *text, size_t bytes)
{
    size_t used = 0;

    for (int i = 0; i < OPTIONS; i++) {
        const struct option *o = &table[i];
        char range[96];
        char line[384];
        int length;

        if (o->type == TYPE_SIZE) {
            snprintf(range, sizeof range,
                     "%" PRIu64 " (%" PRIu64 " to %" PRIu64 ")",
                     o->size_default, o->min, o->max);
        } else {
            snprintf(range, sizeof range, "%s (%s)",
                     *o->text_default != '\0' ? o->text_default : "none",
                     o->choices != NULL ? o->choices : "text");
        }
        length = snprintf(line, sizeof line, "%-13s %s: %s\n", o->name, range,
                          o->help);
        if (text != NULL && used < bytes) {
            snprintf(text + used, bytes - used, "%s", line);
        }
        used += (size_t)length;
    }
    return used + 1;
}
