/* images.c: reads the IDX files of Fashion-MNIST; see images.h.
 *
 * IDX: a big-endian word 0x800 + dimensions, the dimensions, then bytes. */
#include "examples/common/images.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

const char *const class_names[CLASSES] = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot",
};

bool failed(message *why, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    why->out_of_memory = false;
    return false;
}

/* Opens <folder>/<name>.gz or <folder>/<name>; gzread() reads both. */
static gzFile open_file(const char *folder, const char *name, message *why)
{
    char path[1024];
    gzFile file;

    snprintf(path, sizeof path, "%s/%s.gz", folder, name);
    if (access(path, R_OK) != 0) {
        snprintf(path, sizeof path, "%s/%s", folder, name);
    }
    file = gzopen(path, "rb");
    if (file == NULL) {
        failed(why,
               "%s(.gz): %s; install the package dataset-fashion-mnist, or "
               "name the folder that holds the images with --data",
               path, strerrordesc_np(errno));
    }
    return file;
}

static bool read_word(gzFile file, uint32_t *word)
{
    unsigned char b[4];

    if (gzread(file, b, sizeof b) != (int)sizeof b) {
        return false;
    }
    *word = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 |
            b[3];
    return true;
}

/* Reads a header of the given dimensions, the first of which is the count. */
static bool read_header(gzFile file, uint32_t dimensions, uint32_t *count)
{
    uint32_t magic, side;

    if (!read_word(file, &magic) || magic != 0x800 + dimensions ||
        !read_word(file, count) || *count == 0 || *count > 1000000) {
        return false;
    }
    for (uint32_t i = 1; i < dimensions; i++) {
        if (!read_word(file, &side) || side != IMAGE_SIDE) {
            return false;
        }
    }
    return true;
}

/* Reads one file of items of item_bytes each into *bytes, which is owned. */
static bool read_items(const char *folder, const char *name,
                       uint32_t dimensions, size_t item_bytes, int *count,
                       unsigned char **bytes, message *why)
{
    gzFile file = open_file(folder, name, why);
    uint32_t items = 0;
    unsigned char *data = NULL;
    bool whole = false;

    if (file == NULL) {
        return false;
    }
    if (read_header(file, dimensions, &items)) {
        data = malloc(items * item_bytes);
        whole = data != NULL &&
                gzread(file, data, (unsigned)(items * item_bytes)) ==
                    (int)(items * item_bytes);
    }
    gzclose(file);
    if (!whole) {
        free(data);
        return failed(why,
                      "%s/%s is not a whole IDX file of 28x28 images or "
                      "their labels",
                      folder, name);
    }
    *count = (int)items;
    *bytes = data;
    return true;
}

bool images_load(const char *folder, const char *part, image_set *set,
                 message *why)
{
    image_set s = {0, NULL, NULL};
    char name[64];
    int labels = 0;
    bool good;

    snprintf(name, sizeof name, "%s-images-idx3-ubyte", part);
    good = read_items(folder, name, 3, IMAGE_BYTES, &s.count, &s.pixels, why);
    if (good) {
        snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
        good = read_items(folder, name, 1, 1, &labels, &s.labels, why);
    }
    if (good && labels != s.count) {
        good = failed(why, "%s: images: %d, but labels: %d", folder, s.count,
                      labels);
    }
    for (int i = 0; good && i < labels; i++) {
        if (s.labels[i] >= CLASSES) {
            good = failed(why, "%s/%s: label %d of image %d", folder, name,
                          s.labels[i], i);
        }
    }
    if (!good) {
        images_free(&s);
        return false;
    }
    *set = s;
    return true;
}

void images_free(image_set *set)
{
    free(set->pixels);
    free(set->labels);
    *set = (image_set){0, NULL, NULL};
}

void images_normalize(const unsigned char *pixels, size_t count, float *out)
{
    const float mean = 0.286f * 255, deviation = 0.353f * 255;

    for (size_t i = 0; i < count; i++) {
        out[i] = ((float)pixels[i] - mean) / deviation;
    }
}
