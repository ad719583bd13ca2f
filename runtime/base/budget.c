/* budget.c: reads /proc and the files of cgroups. */
#include "runtime/base/budget.h"

#include "runtime/base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = PATH_MAX, TEXT = 8192 };

/* A twentieth of the time in which tasks wait is pressure. */
enum { STALL_PART = 20 };

/* The least time that a part is of: short stalls are usual where pages are read
 * from disks. */
#define SPAN_NS ((uint64_t)1000000000)

/* ---- files ----------------------------------------------------------------
 */

/* The beginning of a file; false if it cannot be read. */
static bool read_text(const char *path, char text[TEXT])
{
    WM_CANCEL_OFF();
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = 0;

    if (file < 0) {
        return false;
    }
    do {
        used += (size_t)got;
        got = used < TEXT - 1 ? read(file, text + used, TEXT - 1 - used) : 0;
    } while (got > 0);
    close(file);
    text[used] = '\0';
    return got == 0 && used > 0;
}

static bool read_in(const char *folder, const char *name, char text[TEXT])
{
    char path[PATH + 64];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);

    return length > 0 && (size_t)length < sizeof path && read_text(path, text);
}

/* The number after a word that begins a line; 0: there is none. */
static uint64_t find_number(const char *text, const char *word)
{
    size_t length = strlen(word);

    while (text != NULL && strncmp(text, word, length) != 0) {
        text = strchr(text, '\n');
        text = text != NULL ? text + 1 : NULL;
    }
    return text != NULL ? strtoull(text + length, NULL, 10) : 0;
}

/* "max", or a number so large that it is no limit. */
static uint64_t parse_limit(const char *text)
{
    uint64_t limit = strtoull(text, NULL, 10);

    return *text < '0' || *text > '9' || limit > (uint64_t)1 << 60 ? UINT64_MAX
                                                                   : limit;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- cgroups ---------------------------------------------------------------
 */

/* The names of a version's files and of the figures of memory.stat. */
struct version {
    const char *mount, *other_mount; /* the second if the first has no files */
    const char *limit, *soft;        /* soft: "", or slows down above it */
    const char *used;
    const char *inactive, *active, *slab; /* slab: "" if not in the figures */
};

static const struct version versions[] = {
    {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "memory.max", "memory.high",
     "memory.current", "inactive_file ", "active_file ", "slab_reclaimable "},
    {"/sys/fs/cgroup/memory", "", "memory.limit_in_bytes", "",
     "memory.usage_in_bytes", "total_inactive_file ", "total_active_file ",
     ""}};

/* What is done with each cgroup above the process, the innermost first. */
typedef void visit_fn(const struct version *version, const char *folder,
                      void *context);

/* Calls visit for the folder mount + path, and for those above it in mount. */
static void visit_up(const struct version *version, const char *root,
                     const char *mount, const char *path, visit_fn *visit,
                     void *context)
{
    char folder[PATH];
    size_t base = strlen(root) + strlen(mount), end = base + strlen(path);

    if (snprintf(folder, sizeof folder, "%s%s%s", root, mount, path) >= PATH) {
        end = base; /* the mount alone */
        folder[end] = '\0';
    }
    while (end > base && folder[end - 1] == '/') {
        folder[--end] = '\0';
    }
    for (;;) {
        visit(version, folder, context);
        if (end <= base) {
            return;
        }
        while (folder[--end] != '/') {
        }
        folder[end] = '\0';
    }
}

/* A line of /proc/self/cgroup is "0::path", or of version 1
 * "number:controller,…:path". */
static const char *find_path(const struct version *version, const char *line)
{
    const char *names = strchr(line, ':');
    const char *path = names != NULL ? strchr(names + 1, ':') : NULL;
    bool second = names != NULL && names[1] == ':';

    if (path == NULL || second != (version == &versions[0])) {
        return NULL;
    }
    while (!second && strncmp(names + 1, "memory", 6) != 0) {
        names = strpbrk(names + 1, ",:");
        if (names == path) {
            return NULL;
        }
    }
    return path + 1;
}

static void visit_cgroups(const char *root, visit_fn *visit, void *context)
{
    char text[TEXT], *next;

    if (!read_in(root, "/proc/self/cgroup", text)) {
        return;
    }
    for (char *line = text; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        for (int i = 0; i < 2; i++) {
            const char *path = find_path(&versions[i], line);

            if (path != NULL) {
                visit_up(&versions[i], root, versions[i].mount, path, visit,
                         context);
            }
            if (path != NULL && *versions[i].other_mount != '\0') {
                visit_up(&versions[i], root, versions[i].other_mount, path,
                         visit, context);
            }
        }
    }
}

/* ---- the budget ------------------------------------------------------------
 */

/* Reads a cgroup's limit, and what is used below it; false: it has none. */
static bool read_limit(const struct version *version, const char *folder,
                       wm_budget_limit *at)
{
    char text[TEXT];
    uint64_t idle;

    at->limit = UINT64_MAX;
    at->file = version->limit;
    if (read_in(folder, version->limit, text)) {
        at->limit = parse_limit(text);
    }
    if (*version->soft != '\0' && read_in(folder, version->soft, text) &&
        parse_limit(text) < at->limit) {
        at->limit = parse_limit(text);
        at->file = version->soft;
    }
    if (at->limit == UINT64_MAX || !read_in(folder, version->used, text)) {
        return false;
    }
    at->used = strtoull(text, NULL, 10);
    if (!read_in(folder, "memory.stat", text)) {
        text[0] = '\0';
    }
    idle = find_number(text, version->inactive) +
           find_number(text, version->active) +
           (*version->slab != '\0' ? find_number(text, version->slab) : 0);
    at->used -= least(idle, at->used);
    return true;
}

static uint64_t room_below(const wm_budget_limit *at)
{
    return at->limit - least(at->used, at->limit);
}

static void note_available(const struct version *version, const char *folder,
                           void *context)
{
    uint64_t *available = context;
    wm_budget_limit at;

    if (read_limit(version, folder, &at)) {
        *available = least(*available, room_below(&at));
    }
}

struct tightest {
    wm_budget_limit *limit;
    bool found;
};

static void note_tightest(const struct version *version, const char *folder,
                          void *context)
{
    struct tightest *tightest = context;
    wm_budget_limit at;

    if (read_limit(version, folder, &at) &&
        (!tightest->found || room_below(&at) < room_below(tightest->limit))) {
        snprintf(at.folder, sizeof at.folder, "%.*s", (int)sizeof at.folder - 1,
                 folder);
        *tightest->limit = at;
        tightest->found = true;
    }
}

bool wm_budget_tightest(const char *root, wm_budget_limit *tightest)
{
    struct tightest found = {tightest, false};
    int before = errno;

    visit_cgroups(root, note_tightest, &found);
    errno = before;
    return found.found;
}

bool wm_budget_figure(const char *root, const char *name, uint64_t *value)
{
    int before = errno;
    char text[TEXT];
    const char *at = NULL;
    char *end;

    if (read_in(root, "/proc/meminfo", text)) {
        at = strstr(text, name);
    }
    if (at != NULL) {
        *value = strtoull(at + strlen(name), &end, 10);
        *value *= strncmp(end, " kB", 3) == 0 ? 1024 : 1;
    }
    errno = before;
    return at != NULL;
}

uint64_t wm_budget_available(const char *root)
{
    uint64_t available = UINT64_MAX;
    int before = errno;
    char text[TEXT];

    if (read_in(root, "/proc/meminfo", text) &&
        strstr(text, "MemAvailable:") != NULL) {
        available = find_number(text, "MemAvailable:") * 1024;
    }
    visit_cgroups(root, note_available, &available);
    errno = before;
    return available;
}

/* ---- pressure --------------------------------------------------------------
 */

struct reading {
    uint64_t events, stall_us;
    bool stalls; /* stall_us was read */
};

/* A line "some avg10=0.00 avg60=0.00 avg300=0.00 total=0"; µs. */
static bool read_stall(const char *folder, const char *name, uint64_t *us)
{
    char text[TEXT];
    const char *total;

    if (!read_in(folder, name, text) ||
        (total = strstr(text, "total=")) == NULL) {
        return false;
    }
    *us = strtoull(total + strlen("total="), NULL, 10);
    return true;
}

static void note_pressure(const struct version *version, const char *folder,
                          void *context)
{
    struct reading *reading = context;
    char text[TEXT];

    if (version == &versions[0] &&
        read_in(folder, "memory.events.local", text)) {
        reading->events += find_number(text, "high ") +
                           find_number(text, "max ") +
                           find_number(text, "oom ");
    }
    if (version == &versions[0] && !reading->stalls) {
        reading->stalls =
            read_stall(folder, "memory.pressure", &reading->stall_us);
    }
}

unsigned wm_budget_look(const char *root, uint64_t now_ns,
                        wm_budget_watch *watch)
{
    struct reading reading = {0, 0, false};
    wm_budget_watch before = *watch;
    int error = errno;
    uint64_t us, span = now_ns - before.ns;
    unsigned signs = 0;

    visit_cgroups(root, note_pressure, &reading);
    if (!reading.stalls) {
        (void)read_stall(root, "/proc/pressure/memory", &reading.stall_us);
    }
    errno = error;
    us = reading.stall_us > before.stall_us ? reading.stall_us - before.stall_us
                                            : 0;
    if (before.ns != 0) {
        signs = (reading.events > before.events ? WM_BUDGET_EVENT : 0u) |
                (us * 1000 * STALL_PART > (span > SPAN_NS ? span : SPAN_NS)
                     ? WM_BUDGET_STALL
                     : 0u);
    }
    if (before.ns == 0 || signs != 0 || span >= SPAN_NS) {
        *watch = (wm_budget_watch){now_ns, reading.events, reading.stall_us};
    }
    return signs;
}
