/* fuzz_images.c: what the examples' server takes as images: raw bytes, IDX,
 * PNG. A body is refused with a message, or all pixels can be read. */
#include "fuzz/fuzz.h"

#include "examples/inference_server/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    unsigned char png[IMAGE_BYTES];
    const unsigned char *pixels = NULL;
    message why = {.text = ""};
    unsigned sum = 0;
    int count = 0;

    if (bytes > MAX_BODY) {
        return -1; /* the server stops reading there */
    }
    if (!decode_images(data, bytes, png, &pixels, &count, &why)) {
        ck_assert_str_ne(why.text, "");
        return 0;
    }
    ck_assert(count >= 1 && count <= MAX_IMAGES);
    for (size_t i = 0; i < (size_t)count * IMAGE_BYTES; i++) {
        sum += pixels[i];
    }
    ck_assert_uint_le(sum, 255u * (unsigned)count * IMAGE_BYTES);
    return 0;
}
