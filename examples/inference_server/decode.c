/* decode.c: see decode.h. */
#include "examples/inference_server/decode.h"

#include <png.h>
#include <string.h>

/* What a 400 says. */
#define EXPECTED                                                               \
    "send 784 bytes (28x28 grey pixels, row by row, 0 is the background), an " \
    "IDX3 file of 1 to 1024 such images, or a PNG of 28x28 pixels"

/* Any PNG of the right size; colours become grey. */
static bool decode_png(const unsigned char *body, size_t bytes,
                       unsigned char pixels[IMAGE_BYTES], message *why)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    bool good = png_image_begin_read_from_memory(&image, body, bytes) != 0;

    if (good && (image.width != IMAGE_SIDE || image.height != IMAGE_SIDE)) {
        failed(why, "the PNG has %ux%u pixels; " EXPECTED, image.width,
               image.height);
        png_image_free(&image);
        return false;
    }
    if (good) {
        image.format = PNG_FORMAT_GRAY;
        good = png_image_finish_read(&image, &(png_color){0, 0, 0}, pixels, 0,
                                     NULL) != 0;
    }
    png_image_free(&image);
    return good ||
           failed(why, "the PNG cannot be read (%s); " EXPECTED, image.message);
}

static unsigned word(const unsigned char *at)
{
    return (unsigned)at[0] << 24 | (unsigned)at[1] << 16 |
           (unsigned)at[2] << 8 | at[3];
}

static bool decode_idx(const unsigned char *body, size_t bytes, int *count,
                       message *why)
{
    unsigned images = bytes >= 16 ? word(body + 4) : 0;

    if (images < 1 || images > MAX_IMAGES || word(body + 8) != IMAGE_SIDE ||
        word(body + 12) != IMAGE_SIDE ||
        bytes != 16 + (size_t)images * IMAGE_BYTES) {
        return failed(why, "the IDX3 file does not hold 1 to 1024 whole images "
                           "of 28x28; " EXPECTED);
    }
    *count = (int)images;
    return true;
}

bool decode_images(const unsigned char *body, size_t bytes,
                   unsigned char png[IMAGE_BYTES], const unsigned char **pixels,
                   int *count, message *why)
{
    static const unsigned char png_head[8] = {0x89, 'P',  'N',  'G',
                                              '\r', '\n', 0x1a, '\n'};
    static const unsigned char idx_head[4] = {0, 0, 8, 3};

    *count = 1;
    if (bytes >= sizeof png_head &&
        memcmp(body, png_head, sizeof png_head) == 0) {
        *pixels = png;
        return decode_png(body, bytes, png, why);
    }
    if (bytes == IMAGE_BYTES) {
        *pixels = body;
        return true;
    }
    if (bytes >= sizeof idx_head &&
        memcmp(body, idx_head, sizeof idx_head) == 0) {
        *pixels = body + 16;
        return decode_idx(body, bytes, count, why);
    }
    return failed(why, "the body is of no known kind (bytes: %zu); " EXPECTED,
                  bytes);
}
