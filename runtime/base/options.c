/* options.c: one table of options: parsed, checked and printed from here. */
#include "runtime/base/options.h"

#include "runtime/base/sized.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_type { TYPE_SIZE, TYPE_ENUM, TYPE_SET, TYPE_TEXT, TYPE_LIST };

struct option {
    const char *name;
    enum option_type type;
    size_t offset; /* in wm_options */
    size_t given;  /* in warm_options */
    uint64_t size_default, min, max;
    const char *unit; /* of a number */
    const char *text_default, *choices, *help;
    size_t room; /* bytes of a text in wm_options */
};

#define ROW(n, kind, ...)                                                      \
    {.name = #n,                                                               \
     .type = (kind),                                                           \
     .offset = offsetof(wm_options, n),                                        \
     .given = offsetof(warm_options, n),                                       \
     __VA_ARGS__},
#define ROW_SIZE(n, u, def, lo, hi, h)                                         \
    ROW(n, TYPE_SIZE, .unit = (u), .size_default = (def), .min = (lo),         \
        .max = (hi), .help = (h))
#define ROW_CHARS(n, kind, def, c, h)                                          \
    ROW(n, kind, .text_default = (def), .choices = (c), .help = (h),           \
        .room = sizeof((wm_options *)NULL)->n)
#define ROW_ENUM(n, def, c, h) ROW_CHARS(n, TYPE_ENUM, def, c, h)
#define ROW_SET(n, w, h)       ROW_CHARS(n, TYPE_SET, set_off, w, h)
#define ROW_TEXT(n, h)         ROW_CHARS(n, TYPE_TEXT, "", NULL, h)
#define ROW_LIST(n, c, h)      ROW_CHARS(n, TYPE_LIST, "", c, h)
#define ROW_TEST(n, u, def, lo, hi)                                            \
    {.name = #n,                                                               \
     .offset = offsetof(wm_options, n),                                        \
     .unit = (u),                                                              \
     .size_default = (def),                                                    \
     .min = (lo),                                                              \
     .max = (hi)},
#define NAME_TEST(n, ...) "|" #n

/* The entry of WARMPOOL_CONF that has no value. */
static const char help_word[] = "help";
/* The value of a set that has no word. */
static const char set_off[] = "off";

/* Where options are written, for messages. */
static const char in_conf[] = "WARMPOOL_CONF", in_struct[] = "warm_options";

/* A refused text is quoted up to this many characters, so that the message has
 * room for the allowed values. SHOWN is the format, SHOW() its two arguments.
 */
enum { SHOWN_MAX = 48 };
#define SHOWN      "%.48s%s"
#define SHOW(text) (text), (strlen(text) > SHOWN_MAX ? "..." : "")

/* The highest ratio of a watermark (WARM_WATERMARK_MOST). */
enum { RATIO_MOST = 2 };

/* Bytes of the message about an unknown option around the list of names. */
enum { NAMES_ROOM = 160 };

/* The last row is for tests: no text for users has it. */
static const struct option table[] = {
    WARM_OPTION_MAP(ROW_SIZE, ROW_ENUM, ROW_SET, ROW_TEXT, ROW_LIST)
        ROW_LIST(test, &("" WM_TEST_MAP(NAME_TEST))[1], NULL)};
static const struct option numbers[] = {WM_TEST_MAP(ROW_TEST)};
enum {
    ROWS = sizeof table / sizeof table[0],
    OPTIONS = ROWS - 1,
    NUMBERS = sizeof numbers / sizeof numbers[0]
};

/* Options of earlier releases, and what replaces them. */
static const char *const removed[][2] = {
    {"arenas|numa_nodes|pin_threads", "the library chooses"},
    {"magazines", "keep:off is magazines:off"},
    {"magazine_blocks|magazine_bytes", "keep bounds what threads cache"},
    {"batch_count|batch_bytes", "keep bounds what waits for an event"},
    {"batch_ms", "background:on sees to frees that wait"},
    {"memory_events", "warm_memory_callback_add() is enough"},
    {"cudart|cublas|cublaslt|cudnn|cusparse|cusolver",
     "write libraries:NAME=FILE"},
};

static void *slot_of(wm_options *options, const struct option *o)
{
    return (char *)options + o->offset;
}

static bool is_bytes(const struct option *o)
{
    return strncmp(o->unit, "bytes", strlen("bytes")) == 0;
}

/* Whether the number may be "off", WARM_OFF. */
static bool is_switched(const struct option *o)
{
    return strstr(o->unit, "or off") != NULL;
}

/* Parses a number, for bytes with an optional suffix: 4096, 64K, 2G. Numbers
 * beyond 64 bits yield UINT64_MAX, which no option allows. */
static bool parse_size(const char *text, bool of_bytes, uint64_t *value)
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
    suffix = of_bytes && *end != '\0' ? strchr(suffixes, *end & ~0x20) : NULL;
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

/* Whether the number may be a ratio, a number with a point in it. */
static bool may_be_ratio(const struct option *o)
{
    return strstr(o->unit, "ratio") != NULL;
}

/* Parses 0.9, whatever the locale's point is; digits beyond millionths are
 * left out. */
static bool parse_ratio(const char *text, uint64_t *value)
{
    uint64_t whole, part = 0, unit = WM_OPTION_RATIO_ONE;
    char *end;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    whole = strtoull(text, &end, 10);
    if (*end != '.' || end[1] == '\0') {
        return false;
    }
    for (end++; *end >= '0' && *end <= '9'; end++) {
        unit /= 10;
        part += (uint64_t)(*end - '0') * unit;
    }
    if (*end != '\0') {
        return false;
    }
    whole = whole < 1000 ? whole : 1000; /* more than any that is allowed */
    *value = whole * WM_OPTION_RATIO_ONE + part;
    return true;
}

/* Whether the first `length` characters of a word, without a separator, stand
 * between separators in text. */
static bool has_word(const char *text, char separator, const char *word,
                     size_t length)
{
    for (const char *c = text; c != NULL; c = strchr(c, separator)) {
        c += *c == separator;
        if (strncmp(c, word, length) == 0 && length > 0 &&
            (c[length] == separator || c[length] == '\0')) {
            return memchr(word, separator, length) == NULL;
        }
    }
    return false;
}

/* Whether value is one of "a|b|c". */
static bool is_choice(const char *choices, const char *value)
{
    return has_word(choices, '|', value, strlen(value));
}

bool wm_options_has(const char *set, const char *word)
{
    return has_word(set, '+', word, strlen(word));
}

bool wm_options_any(const char *set)
{
    return strcmp(set, set_off) != 0;
}

/* Whether value is "off", or words of "a|b|c" joined by +, each once. */
static bool is_set(const char *words, const char *value)
{
    const char *word = value;

    if (strcmp(value, set_off) == 0) {
        return true;
    }
    for (;;) {
        size_t length = strcspn(word, "+");

        if (!has_word(words, '|', word, length) ||
            (word[length] == '+' &&
             has_word(word + length + 1, '+', word, length))) {
            return false;
        }
        if (word[length] == '\0') {
            return true;
        }
        word += length + 1;
    }
}

/* Whether each part of value, between ':', is empty or NAME=… with a name of
 * "a|b|c". */
static bool is_list(const char *names, const char *value)
{
    for (const char *c = value; *c != '\0'; c += strcspn(c, ":")) {
        c += strspn(c, ":");
        if (*c != '\0' && (c[strcspn(c, ":=")] != '=' ||
                           !has_word(names, '|', c, strcspn(c, "=")))) {
            return false;
        }
    }
    return true;
}

bool wm_options_part(const char *list, const char *name, char *value,
                     size_t bytes)
{
    size_t length = strlen(name);

    for (const char *c = list; *c != '\0'; c += strcspn(c, ":")) {
        c += strspn(c, ":");
        if (strncmp(c, name, length) == 0 && c[length] == '=') {
            c += length + 1;
            snprintf(value, bytes, "%.*s", (int)strcspn(c, ":"), c);
            return true;
        }
    }
    return false;
}

/* A value as users write it: bytes with the largest exact suffix. */
typedef struct amount {
    char text[24];
} amount;

static amount amount_of(const struct option *o, uint64_t value)
{
    static const char suffixes[][2] = {"", "K", "M", "G", "T"};
    unsigned i = 0;
    amount out;

    while (is_bytes(o) && value > 0 && value % 1024 == 0 && i < 4) {
        value /= 1024;
        i++;
    }
    snprintf(out.text, sizeof out.text, "%" PRIu64 "%s", value, suffixes[i]);
    return out;
}

/* what: what is wrong with the number. */
static warm_status bad_number(const struct option *o, const char *where,
                              const char *text, const char *what)
{
    return wm_fail(WARM_INVALID_OPTION,
                   "%s: option %s: '" SHOWN "' %s; allowed is %s to %s %s%s",
                   where, o->name, SHOW(text), what, amount_of(o, o->min).text,
                   amount_of(o, o->max).text, o->unit,
                   is_bytes(o) ? " (suffix K, M, G or T: powers of 1024)" : "");
}

static warm_status set_size(wm_options *options, const struct option *o,
                            const char *where, uint64_t value, const char *text)
{
    bool off = value == WARM_OFF && is_switched(o);

    if (!off && (value < o->min || value > o->max)) {
        return bad_number(o, where, text, "is out of range");
    }
    *(uint64_t *)slot_of(options, o) = value;
    return WARM_OK;
}

static warm_status set_ratio(wm_options *options, const struct option *o,
                             uint64_t ratio, const char *text)
{
    if (ratio > RATIO_MOST * (uint64_t)WM_OPTION_RATIO_ONE) {
        return wm_fail(WARM_INVALID_OPTION,
                       "%s: option %s: '" SHOWN "' is out of range; allowed is "
                       "a ratio of 0.0 to %d.0, or bytes",
                       in_conf, o->name, SHOW(text), RATIO_MOST);
    }
    *(uint64_t *)slot_of(options, o) =
        ratio == 0 ? WARM_OFF : WM_OPTION_RATIO + ratio;
    return WARM_OK;
}

static warm_status set_text(wm_options *options, const struct option *o,
                            const char *where, const char *text)
{
    if (o->type == TYPE_ENUM && !is_choice(o->choices, text)) {
        return wm_fail(WARM_INVALID_OPTION,
                       "%s: option %s: '" SHOWN
                       "' is not allowed; allowed is %s",
                       where, o->name, SHOW(text), o->choices);
    }
    if (o->type == TYPE_SET && !is_set(o->choices, text)) {
        return wm_fail(WARM_INVALID_OPTION,
                       "%s: option %s: '" SHOWN
                       "' is not allowed; allowed is off, or words of %s, each "
                       "once, joined by +",
                       where, o->name, SHOW(text), o->choices);
    }
    if (o->type == TYPE_LIST && !is_list(o->choices, text)) {
        return wm_fail(WARM_INVALID_OPTION,
                       "%s: option %s: '" SHOWN
                       "' is not allowed; allowed is NAME=VALUE, joined by "
                       "':', with a NAME of %s",
                       where, o->name, SHOW(text), o->choices);
    }
    /* It would end the line in every text that has it. */
    if (strpbrk(text, "\n\r") != NULL) {
        return wm_fail(WARM_INVALID_OPTION,
                       "%s: option %s: '" SHOWN "' has the end of a line in it",
                       where, o->name, SHOW(text));
    }
    if (strlen(text) >= o->room) {
        return wm_fail(WARM_INVALID_OPTION,
                       "%s: option %s: '" SHOWN
                       "' is too long; allowed are %zu characters",
                       where, o->name, SHOW(text), o->room - 1);
    }
    strcpy(slot_of(options, o), text);
    return WARM_OK;
}

static warm_status set_from_text(wm_options *options, const struct option *o,
                                 const char *text)
{
    uint64_t value = 0;

    if (o->type != TYPE_SIZE) {
        return set_text(options, o, in_conf, text);
    }
    if (may_be_ratio(o) && parse_ratio(text, &value)) {
        return set_ratio(options, o, value, text);
    }
    if (is_switched(o) && strcmp(text, "off") == 0) {
        value = WARM_OFF;
    } else if (!parse_size(text, is_bytes(o), &value)) {
        return bad_number(o, in_conf, text, "is not a number");
    } else if (value == UINT64_MAX) {
        return bad_number(o, in_conf, text, "is out of range");
    }
    return set_size(options, o, in_conf, value, text);
}

static warm_status unknown_key(const char *key)
{
    char names[sizeof((warm_error *)NULL)->message - NAMES_ROOM] = "";
    wm_text out = {names, sizeof names, 0};

    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
        if (has_word(removed[i][0], '|', key, strlen(key))) {
            return wm_fail(WARM_INVALID_OPTION,
                           "%s: there is no option %s any more; %s", in_conf,
                           key, removed[i][1]);
        }
    }
    for (int i = 0; i < OPTIONS; i++) {
        wm_text_put(&out, "%s%s", i > 0 ? ", " : "", table[i].name);
    }
    return wm_fail(WARM_INVALID_OPTION,
                   "%s: unknown option '" SHOWN "'; allowed are %s; "
                   "WARMPOOL_CONF=help prints what they do",
                   in_conf, SHOW(key), names);
}

/* text without leading and trailing blanks; cuts it in place. */
static char *trim(char *text)
{
    static const char blanks[] = " \t\n\r\f\v";
    size_t length;

    text += strspn(text, blanks);
    length = strlen(text);
    while (length > 0 && strchr(blanks, text[length - 1]) != NULL) {
        length--;
    }
    text[length] = '\0';
    return text;
}

/* Writes the key of an entry to key (trimmed), the value to *value; false if
 * the entry has no colon. Cuts the entry in place. */
static bool split(char *pair, char **key, char **value)
{
    char *colon = strchr(pair, ':');

    if (colon != NULL) {
        *colon = '\0';
        *value = trim(colon + 1);
    }
    *key = trim(pair);
    return colon != NULL;
}

/* given[i]: option i occurred earlier in the text. */
static warm_status apply_pair(wm_options *options, char *pair, bool *given)
{
    char *key, *value;

    if (!split(pair, &key, &value)) {
        return strcmp(key, help_word) == 0
                   ? WARM_OK
                   : wm_fail(WARM_INVALID_OPTION,
                             "%s: '" SHOWN "' is not of the form key:value",
                             in_conf, SHOW(key));
    }
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(table[i].name, key) == 0) {
            if (given[i]) {
                return wm_fail(WARM_INVALID_OPTION,
                               "%s: option %s is given twice; leave one of "
                               "its values",
                               in_conf, key);
            }
            given[i] = true;
            return set_from_text(options, &table[i], value);
        }
    }
    return unknown_key(key);
}

static warm_status apply_conf(wm_options *options, const char *conf)
{
    bool given[ROWS] = {false};
    char *copy = strdup(conf);
    char *rest = copy;
    char *pair;
    warm_status status = WARM_OK;

    if (copy == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory to read WARMPOOL_CONF");
    }
    while (status == WARM_OK && (pair = strsep(&rest, ",")) != NULL) {
        pair = trim(pair);
        if (*pair != '\0') {
            status = apply_pair(options, pair, given);
        }
    }
    free(copy);
    return status;
}

/* Without memory: false. */
bool wm_options_named(const char *conf, const char *key)
{
    char *copy = conf != NULL ? strdup(conf) : NULL;
    char *rest = copy;
    char *pair, *name, *value;
    bool named = false;

    while (!named && (pair = strsep(&rest, ",")) != NULL) {
        bool whole = split(pair, &name, &value);

        named =
            strcmp(name, key) == 0 && whole == (strcmp(key, help_word) != 0);
    }
    free(copy);
    return named;
}

static warm_status apply_given(wm_options *options, const warm_options *given)
{
    warm_options all;
    warm_status status = wm_sized_check(given, sizeof all, "warm_options");

    if (status != WARM_OK) {
        return status;
    }
    wm_sized_in(&all, given, sizeof all);
    for (int i = 0; i < ROWS && status == WARM_OK; i++) {
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
    for (int i = 0; i < ROWS; i++) {
        if (table[i].type == TYPE_SIZE) {
            *(uint64_t *)slot_of(options, &table[i]) = table[i].size_default;
        } else {
            strcpy(slot_of(options, &table[i]), table[i].text_default);
        }
    }
}

/* The numbers of the list for tests. */
static warm_status set_numbers(wm_options *options)
{
    warm_status status = WARM_OK;
    char value[24];

    for (int i = 0; i < NUMBERS && status == WARM_OK; i++) {
        *(uint64_t *)slot_of(options, &numbers[i]) = numbers[i].size_default;
        if (wm_options_part(options->test, numbers[i].name, value,
                            sizeof value)) {
            status = set_from_text(options, &numbers[i], value);
        }
    }
    return status;
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
        status = set_numbers(&resolved);
    }
    if (status == WARM_OK) {
        *options = resolved;
    }
    return status;
}

static void put_ratio(wm_text *text, const struct option *o, uint64_t ratio)
{
    wm_text_put(text, "%s:%" PRIu64 ".%06" PRIu64 "\n", o->name,
                ratio / WM_OPTION_RATIO_ONE, ratio % WM_OPTION_RATIO_ONE);
}

void wm_options_put(const wm_options *options, wm_text *text)
{
    for (int i = 0; i < ROWS; i++) {
        const struct option *o = &table[i];
        const char *field = (const char *)options + o->offset;

        if (o->type == TYPE_SIZE) {
            uint64_t value = *(const uint64_t *)(const void *)field;

            if (value == WARM_OFF && is_switched(o)) {
                wm_text_put(text, "%s:off\n", o->name);
            } else if (wm_option_is_ratio(value)) {
                put_ratio(text, o, value - WM_OPTION_RATIO);
            } else {
                wm_text_put(text, "%s:%" PRIu64 "\n", o->name, value);
            }
        } else {
            wm_text_put(text, "%s:%s\n", o->name, field);
        }
    }
}

/* Help text is wrapped at this column and indented. */
enum { HELP_COLUMNS = 96, HELP_INDENT = 4 };

static void put_wrapped(wm_text *out, const char *help)
{
    while (*help != '\0') {
        size_t length = strlen(help);

        if (length > HELP_COLUMNS - HELP_INDENT) {
            length = HELP_COLUMNS - HELP_INDENT;
            while (length > 1 && help[length] != ' ') {
                length--;
            }
        }
        wm_text_put(out, "%*s%.*s\n", HELP_INDENT, "", (int)length, help);
        help += length + (help[length] == ' ');
    }
}

size_t warm_options_help(char *text, size_t bytes)
{
    wm_text out = {text, text != NULL ? bytes : 0, 0};

    for (int i = 0; i < OPTIONS; i++) {
        const struct option *o = &table[i];

        if (o->type == TYPE_SIZE) {
            wm_text_put(&out, "%s: %s %s (%s to %s)\n", o->name,
                        amount_of(o, o->size_default).text, o->unit,
                        amount_of(o, o->min).text, amount_of(o, o->max).text);
        } else if (o->type == TYPE_ENUM) {
            wm_text_put(&out, "%s: %s (%s)\n", o->name, o->text_default,
                        o->choices);
        } else if (o->type == TYPE_SET) {
            wm_text_put(&out, "%s: %s (or words of %s, joined by +)\n", o->name,
                        o->text_default, o->choices);
        } else if (o->type == TYPE_LIST) {
            wm_text_put(&out, "%s: none (NAME=VALUE of %s, joined by ':')\n",
                        o->name, o->choices);
        } else {
            wm_text_put(&out, "%s: none (text, at most %zu characters)\n",
                        o->name, o->room - 1);
        }
        put_wrapped(&out, o->help);
    }
    return out.used + 1;
}
