/* notes.h: the library's log lines on standard error, in lines of at most 100
 * columns, for programs whose output people read in a terminal. */
#ifndef EXAMPLE_NOTES_H
#define EXAMPLE_NOTES_H

/* To be called before the first runtime is created. */
void notes_to_stderr(void);

#endif
