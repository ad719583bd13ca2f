/* local.h: curl's handles for a server on this machine. */
#ifndef EXAMPLE_LOCAL_H
#define EXAMPLE_LOCAL_H

#include "examples/common/images.h"

#include <curl/curl.h>
#include <jansson.h>

/* A handle for a path of 127.0.0.1, owned: end it with curl_easy_cleanup().
 * Null: out of memory. A request may take a minute. */
CURL *local_easy(int port, const char *path);
/* The path of the next request. */
void local_path(CURL *easy, int port, const char *path);
/* What a GET of a path answers, or, with a text to put, a PUT of that; owned:
 * end it with json_decref(). Null: not a success, or not JSON. */
json_t *local_json(int port, const char *path, const char *put, message *why);

#endif
