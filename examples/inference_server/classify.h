/* classify.h: images in, classes out, on the device. Any thread. */
#ifndef EXAMPLE_CLASSIFY_H
#define EXAMPLE_CLASSIFY_H

#include "examples/common/model.h"
#include "examples/common/usage.h"

enum { TURN_IMAGES = 64 }; /* larger requests go in several turns */

typedef struct classifier classifier;

typedef struct classifier_options {
    const char *weights; /* file */
    const char *driver;  /* "auto", "cuda" or "host" */
    int device;
    /* at most one of them */
    bool naive; /* make and destroy everything for every request */
    bool graph; /* capture the way through the network, and replay it */
} classifier_options;

typedef struct answer {
    int class;
    float probability;
} answer;

bool classifier_open(const classifier_options *options, classifier **c,
                     message *why);
/* Once nobody classifies any more, and those who did have exited. False: some
 * memory was not given back. */
bool classifier_close(classifier *c, message *why);

/* Classifies count images of IMAGE_BYTES each; answers: room for count. */
bool classify(classifier *c, const unsigned char *pixels, int count,
              answer *answers, message *why);

typedef struct classifier_stats {
    usage usage; /* handles, pinned: also those that the naive way made */
    unsigned long long captures, replays;
    const char *driver;
    char device[128];
} classifier_stats;
void classifier_get_stats(classifier *c, classifier_stats *stats);

/* Sets the watermarks of all memory together, in bytes; 0: off. */
bool classifier_set_watermarks(classifier *c, uint64_t high, uint64_t low,
                               message *why);
/* These, and what is held and in use, as a JSON object; owned, free() it. Null:
 * out of memory. */
char *classifier_watermarks(classifier *c);

/* One of warmpool's functions that write a text, as warm_stats_json(). */
typedef warm_status classifier_writer(warm_runtime *runtime, char *text,
                                      size_t bytes, size_t *needed);

/* Its text; owned, free() it. Null: out of memory. */
char *classifier_text(classifier *c, classifier_writer *write);

#endif
