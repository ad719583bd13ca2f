/* local.c: see local.h. */
#include "examples/common/local.h"

#include <stdio.h>

void local_path(CURL *easy, int port, const char *path)
{
    char url[128];

    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", port, path);
    curl_easy_setopt(easy, CURLOPT_URL, url);
}

CURL *local_easy(int port, const char *path)
{
    CURL *easy = curl_easy_init();

    if (easy == NULL) {
        return NULL;
    }
    local_path(easy, port, path);
    /* Whatever http_proxy says. */
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    /* Threads use handles: curl leaves the process's signals alone. */
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, 60L);
    return easy;
}
