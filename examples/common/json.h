/* json.h: looks into the JSON that the example server answers with. */
#ifndef EXAMPLE_JSON_H
#define EXAMPLE_JSON_H

#include <stdbool.h>

/* Whether the text is one whole JSON value. */
bool json_valid(const char *text);

/* The start of a value by its path ("server.requests", "predictions.0.class"),
 * or null; the text must be valid. */
const char *json_find(const char *text, const char *path);

/* The number at a path, or otherwise. */
double json_number(const char *text, const char *path, double otherwise);

/* The string at a path, cut to bytes, escapes as they stand; "" if none. */
const char *json_string(const char *text, const char *path, char *out,
                        unsigned bytes);

#endif
