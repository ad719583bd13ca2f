/* wt_json.h: a reader of the JSON that the library writes. Every function takes
 * a pointer to the first character of a value; a text is valid if
 * wt_json_skip() finds its end. Functions of the C library are not called on
 * texts, because sanitizers measure the whole rest of a text at each call. */
#ifndef WT_JSON_H
#define WT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static const char *wt_json_skip(const char *at);

static inline const char *wt_json_skip_string(const char *at)
{
    while (*++at != '"') {
        if (*at == '\0' || (unsigned char)*at < 0x20) {
            return NULL;
        }
        at += *at == '\\';
    }
    return at + 1;
}

static inline const char *wt_json_skip_members(const char *at, char close,
                                               bool named)
{
    if (*++at == close) {
        return at + 1;
    }
    for (;;) {
        if (named && (*at != '"' || (at = wt_json_skip_string(at)) == NULL ||
                      *at++ != ':')) {
            return NULL;
        }
        at = wt_json_skip(at);
        if (at == NULL || (*at != ',' && *at != close)) {
            return NULL;
        }
        if (*at++ == close) {
            return at;
        }
    }
}

/* The character after word if the text begins with word, else null. */
static inline const char *wt_json_behind(const char *at, const char *word)
{
    while (*word != '\0' && *at == *word) {
        at++;
        word++;
    }
    return *word == '\0' ? at : NULL;
}

static inline bool wt_json_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The character after the value, or null if the value is invalid. Numbers are
 * whole and not negative: the library writes no others. */
static inline const char *wt_json_skip(const char *at)
{
    static const char *const words[] = {"true", "false", "null"};

    if (*at == '{') {
        return wt_json_skip_members(at, '}', true);
    }
    if (*at == '[') {
        return wt_json_skip_members(at, ']', false);
    }
    if (*at == '"') {
        return wt_json_skip_string(at);
    }
    for (int i = 0; i < 3; i++) {
        const char *end = wt_json_behind(at, words[i]);

        if (end != NULL) {
            return end;
        }
    }
    if (!wt_json_is_digit(*at)) {
        return NULL;
    }
    while (wt_json_is_digit(*at)) {
        at++;
    }
    return at;
}

static inline bool wt_json_is_whole(const char *text)
{
    const char *end = wt_json_skip(text);

    return end != NULL && *end == '\0';
}

/* wt_json_first: the first element of an array or the first name of an object,
 * or null. wt_json_next: the element or name after a value, or null. */
static inline const char *wt_json_first(const char *at)
{
    return at == NULL || at[1] == ']' || at[1] == '}' ? NULL : at + 1;
}

static inline const char *wt_json_next(const char *at)
{
    at = wt_json_skip(at);
    return at != NULL && *at == ',' ? at + 1 : NULL;
}

static inline size_t wt_json_count(const char *array)
{
    size_t count = 0;

    for (const char *at = wt_json_first(array); at != NULL;
         at = wt_json_next(at)) {
        count++;
    }
    return count;
}

/* The i-th element, or null. */
static inline const char *wt_json_at(const char *array, size_t i)
{
    const char *at = wt_json_first(array);

    while (at != NULL && i-- > 0) {
        at = wt_json_next(at);
    }
    return at;
}

/* Whether the value is this string, which contains no characters to be escaped.
 */
static inline bool wt_json_is(const char *at, const char *string)
{
    const char *end =
        at != NULL && *at == '"' ? wt_json_behind(at + 1, string) : NULL;

    return end != NULL && *end == '"';
}

/* The value of an object's member, or null. */
static inline const char *wt_json_get(const char *object, const char *name)
{
    for (const char *at = wt_json_first(object); at != NULL;) {
        const char *end = wt_json_skip_string(at);

        if (end == NULL || wt_json_is(at, name)) {
            return end != NULL ? end + 1 : NULL;
        }
        at = wt_json_next(end + 1);
    }
    return NULL;
}

/* The value of a number, or of a string with a number (hexadecimal after 0x); 0
 * for null or a null pointer. */
static inline uint64_t wt_json_number(const char *at)
{
    unsigned base = 10;
    uint64_t number = 0;

    if (at == NULL) {
        return 0;
    }
    at += *at == '"';
    if (at[0] == '0' && at[1] == 'x') {
        base = 16;
        at += 2;
    }
    for (;; at++) {
        if (wt_json_is_digit(*at)) {
            number = number * base + (uint64_t)(*at - '0');
        } else if (base == 16 && *at >= 'a' && *at <= 'f') {
            number = number * base + (uint64_t)(*at - 'a' + 10);
        } else {
            return number;
        }
    }
}

static inline uint64_t wt_json_get_number(const char *object, const char *name)
{
    return wt_json_number(wt_json_get(object, name));
}

#endif
