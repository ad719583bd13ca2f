/* options.c: see options.h. */
#include "examples/common/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_help(const option_row *rows)
{
    printf("usage: %s [options], each as --name value or --name=value\n",
           program_invocation_short_name);
    for (; rows->name != NULL; rows++) {
        printf("  --%-16s %s", rows->name, rows->help);
        if (rows->text != NULL) {
            printf(" (%s)", *rows->text);
        } else if (rows->number != NULL) {
            printf(" (%d; %d to %d)", *rows->number, rows->least, rows->most);
        }
        putchar('\n');
    }
    puts("  -h, --help         this list");
}

/* The row of --name or --name=value, whose value is set then. */
static const option_row *find(const option_row *rows, const char *argument,
                              const char **value)
{
    size_t length;

    if (strncmp(argument, "--", 2) != 0) {
        return NULL;
    }
    argument += 2;
    length = strcspn(argument, "=");
    *value = argument[length] == '=' ? argument + length + 1 : NULL;
    for (; rows->name != NULL; rows++) {
        if (strlen(rows->name) == length &&
            strncmp(rows->name, argument, length) == 0) {
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
    if (row->flag != NULL) {
        *row->flag = true;
        return value == NULL;
    }
    if (value == NULL || *value == '\0') {
        return false;
    }
    if (row->text != NULL) {
        *row->text = value;
        return true;
    }
    return read_number(row, value);
}

static int refuse(const option_row *row, const char *argument,
                  const char *value)
{
    fprintf(stderr, "%s: ", program_invocation_short_name);
    if (row == NULL) {
        fprintf(stderr, "'%s' is not an option", argument);
    } else {
        fprintf(stderr, "--%s takes ", row->name);
        if (row->number != NULL) {
            fprintf(stderr, "a number from %d to %d", row->least, row->most);
        } else {
            fputs(row->text != NULL ? "a value" : "no value", stderr);
        }
        if (value != NULL && *value != '\0') {
            fprintf(stderr, ", not '%s'", value);
        } else {
            fputs(", which is missing", stderr);
        }
    }
    fputs("; --help lists the options\n", stderr);
    return 2;
}

int options_read(int argc, char **argv, const option_row *rows)
{
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i], *value = NULL;
        const option_row *row = find(rows, argument, &value);

        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            print_help(rows);
            return EXIT_SUCCESS;
        }
        if (row != NULL && row->flag == NULL && value == NULL && i + 1 < argc) {
            value = argv[++i];
        }
        if (row == NULL || !set(row, value)) {
            return refuse(row, argument, value);
        }
    }
    return -1;
}
