/* images.h: Fashion-MNIST, 28×28 grey images of clothes in ten classes.
 *
 * Functions of the examples answer true, or false with a line for people in
 * the message that the caller gave. */
#ifndef EXAMPLE_IMAGES_H
#define EXAMPLE_IMAGES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct message {
    char text[1024];
    bool out_of_memory; /* that is the reason: it may work again later */
} message;

/* Writes the text, of another reason, and returns false. */
bool failed(message *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

enum { IMAGE_SIDE = 28, IMAGE_BYTES = 28 * 28, CLASSES = 10 };

extern const char *const class_names[CLASSES];

/* Where Debian's package dataset-fashion-mnist puts the files. */
#define IMAGES_FOLDER "/usr/share/datasets/fashion-mnist"

typedef struct image_set {
    int count;
    unsigned char *pixels; /* count × IMAGE_BYTES */
    unsigned char *labels; /* count, each below CLASSES */
} image_set;

/* Reads one part, "train" or "t10k", gzipped or not. *set is owned: end it
 * with images_free(). */
bool images_load(const char *folder, const char *part, image_set *set,
                 message *why);
void images_free(image_set *set);

/* What the network sees of a pixel: mean 0 and variance 1 over the set. */
void images_normalize(const unsigned char *pixels, size_t count, float *out);

#endif
