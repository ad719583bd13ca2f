/* wt_json.h: what jansson does not say of the library's JSON. Asserts nothing,
 * so threads may call it. */
#ifndef WT_JSON_H
#define WT_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Null: not JSON, or an object has two members of one name. The value is owned:
 * end it with json_decref(). */
static inline json_t *wt_json_read(const char *text)
{
    return json_loads(text, JSON_REJECT_DUPLICATES, NULL);
}

static inline bool wt_json_is_valid(const char *text)
{
    json_t *json = wt_json_read(text);

    json_decref(json);
    return json != NULL;
}

/* The value at a path of names and indices ("nodes.0.segments"), or null. */
static inline const json_t *wt_json_at(const json_t *json, const char *path)
{
    while (json != NULL && *path != '\0') {
        int length = (int)strcspn(path, ".");
        char name[64];

        snprintf(name, sizeof name, "%.*s", length, path);
        json = json_is_array(json)
                   ? json_array_get(json, strtoul(name, NULL, 10))
                   : json_object_get(json, name);
        path += length;
        path += *path == '.';
    }
    return json;
}

static inline bool wt_json_is(const json_t *value, const char *string)
{
    return json_is_string(value) &&
           strcmp(json_string_value(value), string) == 0;
}

/* The value of a number, or of an address: a string that begins with 0x; 0 for
 * null or a null pointer. */
static inline uint64_t wt_json_number(const json_t *value)
{
    return json_is_string(value) ? strtoull(json_string_value(value), NULL, 16)
                                 : (uint64_t)json_integer_value(value);
}

static inline uint64_t wt_json_get_number(const json_t *object,
                                          const char *name)
{
    return wt_json_number(json_object_get(object, name));
}

#endif
