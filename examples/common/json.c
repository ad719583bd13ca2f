/* json.c: see json.h. Each skip_…() steps over one thing of the grammar (RFC
 * 8259) and returns what follows it, or null if it is not there. */
#include "examples/common/json.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

static const char *skip_value(const char *at, int depth);

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static const char *skip_escape(const char *at)
{
    if (*at == 'u') {
        for (int i = 1; i <= 4; i++) {
            if (!isxdigit((unsigned char)at[i])) {
                return NULL;
            }
        }
        return at + 5;
    }
    return *at != '\0' && strchr("\"\\/bfnrt", *at) != NULL ? at + 1 : NULL;
}

static const char *skip_string(const char *at)
{
    if (*at++ != '"') {
        return NULL;
    }
    while (at != NULL && *at != '"') {
        if ((unsigned char)*at < 0x20) {
            return NULL;
        }
        at = *at == '\\' ? skip_escape(at + 1) : at + 1;
    }
    return at != NULL ? at + 1 : NULL;
}

static const char *skip_digits(const char *at)
{
    size_t digits = strspn(at, "0123456789");

    return digits > 0 ? at + digits : NULL;
}

static const char *skip_number(const char *at)
{
    at += *at == '-';
    at = *at == '0' ? at + 1 : skip_digits(at);
    if (at != NULL && *at == '.') {
        at = skip_digits(at + 1);
    }
    if (at != NULL && (*at == 'e' || *at == 'E')) {
        at++;
        at = skip_digits(at + (*at == '+' || *at == '-'));
    }
    return at;
}

/* Over the name of a member and its colon. */
static const char *skip_name(const char *at)
{
    at = skip_string(skip_space(at));
    if (at == NULL) {
        return NULL;
    }
    at = skip_space(at);
    return *at == ':' ? at + 1 : NULL;
}

static const char *skip_list(const char *at, char close, int depth)
{
    at = skip_space(at);
    if (*at == close) {
        return at + 1;
    }
    for (;;) {
        at = close == '}' ? skip_name(at) : at;
        at = at != NULL ? skip_value(at, depth) : NULL;
        if (at == NULL || (*at != ',' && *at != close)) {
            return NULL;
        }
        if (*at++ == close) {
            return at;
        }
    }
}

static const char *skip_word(const char *at, const char *word)
{
    return strncmp(at, word, strlen(word)) == 0 ? at + strlen(word) : NULL;
}

/* Over a value and the space around it. */
static const char *skip_value(const char *at, int depth)
{
    at = skip_space(at);
    if (depth == MAX_DEPTH) {
        return NULL;
    }
    switch (*at) {
    case '{':
        at = skip_list(at + 1, '}', depth + 1);
        break;
    case '[':
        at = skip_list(at + 1, ']', depth + 1);
        break;
    case '"':
        at = skip_string(at);
        break;
    case 't':
        at = skip_word(at, "true");
        break;
    case 'f':
        at = skip_word(at, "false");
        break;
    case 'n':
        at = skip_word(at, "null");
        break;
    default:
        at = skip_number(at);
    }
    return at != NULL ? skip_space(at) : NULL;
}

bool json_valid(const char *text)
{
    const char *end = skip_value(text, 0);

    return end != NULL && *end == '\0';
}

/* The value of a member of the object at at, which is valid. */
static const char *find_member(const char *at, const char *name, size_t length)
{
    at = skip_space(at + 1);
    while (at != NULL && *at == '"') {
        const char *value = skip_name(at);

        if (value == NULL ||
            (strncmp(at + 1, name, length) == 0 && at[length + 1] == '"')) {
            return value != NULL ? skip_space(value) : NULL;
        }
        at = skip_value(value, 0);
        at = at != NULL && *at == ',' ? skip_space(at + 1) : NULL;
    }
    return NULL;
}

static const char *find_item(const char *at, unsigned long index)
{
    at = skip_space(at + 1);
    while (at != NULL && *at != ']') {
        if (index-- == 0) {
            return at;
        }
        at = skip_value(at, 0);
        at = at != NULL && *at == ',' ? skip_space(at + 1) : at;
    }
    return NULL;
}

const char *json_find(const char *text, const char *path)
{
    const char *at = skip_space(text);

    while (at != NULL && *path != '\0') {
        size_t length = strcspn(path, ".");

        if (*at == '{') {
            at = find_member(at, path, length);
        } else if (*at == '[') {
            at = find_item(at, strtoul(path, NULL, 10));
        } else {
            at = NULL;
        }
        path += length;
        path += *path == '.';
    }
    return at;
}

double json_number(const char *text, const char *path, double otherwise)
{
    const char *at = json_find(text, path);

    return at != NULL && skip_number(at) != NULL ? strtod(at, NULL) : otherwise;
}

const char *json_string(const char *text, const char *path, char *out,
                        unsigned bytes)
{
    const char *at = json_find(text, path);
    size_t length = 0;

    if (at != NULL && *at == '"') {
        length = (size_t)(skip_string(at) - at) - 2;
        length = length < bytes - 1 ? length : bytes - 1;
        memcpy(out, at + 1, length);
    }
    out[length] = '\0';
    return out;
}
