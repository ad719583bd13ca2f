/* options.h: options of the example programs, in one table: --name value or
 * --name=value. */
#ifndef EXAMPLE_OPTIONS_H
#define EXAMPLE_OPTIONS_H

#include <stdbool.h>

typedef struct option_row {
    const char *name;  /* without the dashes */
    const char *help;  /* one line */
    const char **text; /* one of these three is set: any text, */
    int *number;       /* a number from least to most, */
    bool *flag;        /* or no value at all */
    int least, most;
} option_row;

/* Reads the arguments into the rows, whose variables hold the defaults. The
 * table ends with a row without a name. Returns -1 if the program can go on,
 * else the status to exit with: 0 after -h or --help, which print the list, 2
 * after a line on stderr that names the wrong option, value and range. */
int options_read(int argc, char **argv, const option_row *rows);

#endif
