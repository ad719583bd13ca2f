/* options.c: see options.h. */
#include "examples/common/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_help(FILE *file, const char *program, const option_row *rows)
{
    fprintf(file, "usage: %s [options]\n", program);
    for (; rows->name != NULL; rows++) {
        fprintf(file, "  --%-14s %s", rows->name, rows->help);
        if (rows->text != NULL) {
            fprintf(file, " (%s)", *rows->text);
        } else if (rows->number != NULL) {
            fprintf(file, " (%d; %d to %d)", *rows->number, rows->least,
                    rows->most);
        }
        fputc('\n', file);
    }
}

static const option_row *find(const option_row *rows, const char *argument)
{
    if (strncmp(argument, "--", 2) != 0) {
        return NULL;
    }
    for (; rows->name != NULL; rows++) {
        if (strcmp(rows->name, argument + 2) == 0) {
            return rows;
        }
    }
    return NULL;
}

static bool read_number(const option_row *row, const char *value)
{
    char *end;
    long number = strtol(value, &end, 10);

    if (end == value || *end != '\0' || number < row->least ||
        number > row->most) {
        return false;
    }
    *row->number = (int)number;
    return true;
}

static bool set(const option_row *row, const char *value)
{
    if (row->text != NULL) {
        *row->text = value;
        return true;
    }
    return read_number(row, value);
}

int options_read(int argc, char **argv, const option_row *rows)
{
    for (int i = 1; i < argc; i++) {
        const option_row *row = find(rows, argv[i]);

        if (strcmp(argv[i], "--help") == 0) {
            print_help(stdout, argv[0], rows);
            return EXIT_SUCCESS;
        }
        if (row != NULL && row->flag != NULL) {
            *row->flag = true;
        } else if (row == NULL || i + 1 == argc || !set(row, argv[++i])) {
            fprintf(stderr, "%s: %s: not an option, or not its value\n",
                    argv[0], argv[i]);
            print_help(stderr, argv[0], rows);
            return 2;
        }
    }
    return -1;
}
