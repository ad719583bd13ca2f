/* local.c: see local.h. */
#include "examples/common/local.h"

#include <stdio.h>
#include <stdlib.h>

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

json_t *local_json(int port, const char *path, const char *put, message *why)
{
    CURL *easy = local_easy(port, path);
    CURLcode code = CURLE_OUT_OF_MEMORY;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    json_t *answer = NULL;

    if (easy != NULL && out != NULL) {
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, out);
        curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
        if (put != NULL) {
            curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "PUT");
            curl_easy_setopt(easy, CURLOPT_POSTFIELDS, put);
        }
        code = curl_easy_perform(easy);
    }
    if (out != NULL && fclose(out) == 0 && code == CURLE_OK) {
        answer = json_loadb(text, bytes, 0, NULL);
    }
    if (answer == NULL) {
        failed(why, "%s: %s", path,
               code != CURLE_OK ? curl_easy_strerror(code)
                                : "the answer is not JSON");
    }
    free(text);
    curl_easy_cleanup(easy);
    return answer;
}
