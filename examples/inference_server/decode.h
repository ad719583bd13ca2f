/* decode.h: the images in a request's body: raw bytes, IDX or PNG. */
#ifndef EXAMPLE_DECODE_H
#define EXAMPLE_DECODE_H

#include "examples/common/images.h"

enum { MAX_IMAGES = 1024, MAX_BODY = 16 + MAX_IMAGES * IMAGE_BYTES };

/* Finds count images in the body; *pixels points into the body, or to png,
 * which has room for one. False says what was expected. */
bool decode_images(const unsigned char *body, size_t bytes,
                   unsigned char png[IMAGE_BYTES], const unsigned char **pixels,
                   int *count, message *why);

#endif
