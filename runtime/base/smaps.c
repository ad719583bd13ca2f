/* smaps.c: reads /proc/self/smaps line by line. */
#include "runtime/base/smaps.h"

#include "runtime/base/lock.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const wm_smaps_range *first = a, *second = b;

    return first->begin < second->begin ? -1 : first->begin > second->begin;
}

void wm_smaps_sort(wm_smaps_range *range, size_t count)
{
    if (count > 0) { /* else range may be null */
        qsort(range, count, sizeof *range, compare);
    }
}

/* A mapping of the file. */
struct mapping {
    uintptr_t begin, end;
    uint64_t huge;
};

/* Bytes of the mapping in the ranges. */
static uint64_t inside(const struct mapping *mapping,
                       const wm_smaps_range *range, size_t count)
{
    size_t low = 0, high = count;
    uint64_t bytes = 0;

    while (low < high) { /* the first range that ends behind its begin */
        size_t middle = low + (high - low) / 2;

        if (range[middle].end <= mapping->begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < count && range[low].begin < mapping->end; low++) {
        uintptr_t begin = range[low].begin > mapping->begin ? range[low].begin
                                                            : mapping->begin;
        uintptr_t end =
            range[low].end < mapping->end ? range[low].end : mapping->end;

        bytes += end - begin;
    }
    return bytes;
}

static uint64_t huge_inside(const struct mapping *mapping,
                            const wm_smaps_range *range, size_t count)
{
    uint64_t bytes =
        mapping->huge > 0 ? inside(mapping, range, count) : mapping->huge;

    return mapping->huge < bytes ? mapping->huge : bytes;
}

/* Whether the line begins a mapping: "begin-end rw-p …"; fields begin with a
 * capital letter. */
static bool begins(const char *line, struct mapping *mapping)
{
    char *end;
    uintptr_t begin = (uintptr_t)strtoull(line, &end, 16);

    if (end == line || *end != '-') {
        return false;
    }
    *mapping =
        (struct mapping){begin, (uintptr_t)strtoull(end + 1, NULL, 16), 0};
    return true;
}

static void add_field(const char *line, struct mapping *mapping)
{
    static const char *const fields[] = {
        "AnonHugePages:", "Shared_Hugetlb:", "Private_Hugetlb:"};

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        size_t length = strlen(fields[i]);

        if (strncmp(line, fields[i], length) == 0) {
            mapping->huge += strtoull(line + length, NULL, 10) * 1024;
        }
    }
}

static uint64_t read_all(FILE *file, const wm_smaps_range *range, size_t count)
{
    struct mapping mapping = {0, 0, 0};
    uint64_t huge = 0;
    bool whole = true; /* the part of a line that was read begins it */
    char line[256];

    while (fgets(line, sizeof line, file) != NULL) {
        struct mapping next;

        if (whole && begins(line, &next)) {
            huge += huge_inside(&mapping, range, count);
            mapping = next;
        } else if (whole) {
            add_field(line, &mapping);
        }
        whole = strchr(line, '\n') != NULL;
    }
    return huge + huge_inside(&mapping, range, count);
}

bool wm_smaps_huge(const char *root, const wm_smaps_range *range, size_t count,
                   uint64_t *huge)
{
    int before = errno;
    char path[PATH_MAX];
    FILE *file;

    WM_CANCEL_OFF();
    snprintf(path, sizeof path, "%s/proc/self/smaps", root);
    file = fopen(path, "re");
    if (file != NULL) {
        *huge = read_all(file, range, count);
        fclose(file);
    }
    errno = before;
    return file != NULL;
}
