/* classify.h: images in, classes out, on the device. Any thread. */
#ifndef EXAMPLE_CLASSIFY_H
#define EXAMPLE_CLASSIFY_H

#include "examples/common/model.h"

typedef struct classifier classifier;

typedef struct classifier_options {
    const char *weights; /* file */
    const char *driver;  /* "auto", "cuda" or "host" */
    int device;
    int rooms;  /* how many threads classify at once */
    bool naive; /* make and destroy everything for every request */
} classifier_options;

typedef struct answer {
    int class;
    float probability;
} answer;

bool classifier_open(const classifier_options *options, classifier **c,
                     message *why);
void classifier_close(classifier *c);

/* Classifies count images of IMAGE_BYTES each; answers: room for count. */
bool classify(classifier *c, const unsigned char *pixels, int count,
              answer *answers, message *why);

/* Handles and page-locked buffers so far (live: with their callers), made by
 * warmpool or, the naive way,
 * by the classifier. */
typedef struct classifier_stats {
    unsigned long long handles_created, pinned, pinned_reused, pinned_live;
    const char *driver;
    char device[128];
} classifier_stats;
void classifier_get_stats(classifier *c, classifier_stats *stats);

/* The statistics of warmpool as JSON; owned, free() it. Null: out of memory. */
char *classifier_json(classifier *c);

#endif
