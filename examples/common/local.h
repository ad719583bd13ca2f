/* local.h: curl's handles for a server on this machine. */
#ifndef EXAMPLE_LOCAL_H
#define EXAMPLE_LOCAL_H

#include <curl/curl.h>

/* A handle for a path of 127.0.0.1, owned: end it with curl_easy_cleanup().
 * Null: out of memory. A request may take a minute. */
CURL *local_easy(int port, const char *path);
/* The path of the next request. */
void local_path(CURL *easy, int port, const char *path);

#endif
