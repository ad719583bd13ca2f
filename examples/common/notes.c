/* notes.c: see notes.h. */
#include "examples/common/notes.h"

#include "warmpool/warmpool.h"

#include <stdio.h>
#include <string.h>

enum { COLUMNS = 100 };

/* Where a line of at most room bytes ends: at a blank, if there is one. */
static size_t line_of(const char *text, size_t room)
{
    size_t end = strlen(text);

    if (end <= room) {
        return end;
    }
    for (end = room; end > 0 && text[end] != ' '; end--) {
    }
    return end > 0 ? end : room;
}

static void print(void *context, warm_log_level level, const char *text)
{
    const char *before =
        level == WARM_LOG_WARNING ? "warmpool: warning: " : "warmpool: ";
    char lines[2048];
    size_t used = 0;

    (void)context;
    /* In one piece: other threads and processes print as well. */
    while (*text != '\0' && used + COLUMNS + 2 < sizeof lines) {
        size_t bytes = line_of(text, COLUMNS - strlen(before));

        used += (size_t)snprintf(lines + used, sizeof lines - used, "%s%.*s\n",
                                 before, (int)bytes, text);
        text += bytes;
        text += strspn(text, " ");
        before = "    ";
    }
    fputs(lines, stderr);
}

void notes_to_stderr(void)
{
    warm_log_set(print, NULL);
}
