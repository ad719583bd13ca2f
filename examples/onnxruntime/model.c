/* model.c: writes the messages of an ONNX file, which are protocol buffers: a
 * key, which names a field and its type, then a number, or a length and that
 * many bytes. The numbers of fields are those of onnx.proto. */
#include "model.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct message {
    unsigned char *at;
    size_t bytes, room;
    bool failed; /* no memory: at is null */
};

static void put(struct message *m, const void *from, size_t bytes)
{
    if (bytes == 0) {
        return;
    }
    if (m->bytes + bytes > m->room) {
        size_t room = 2 * m->room + bytes;
        unsigned char *more = m->failed ? NULL : realloc(m->at, room);

        if (more == NULL) {
            free(m->at);
            *m = (struct message){.failed = true};
            return;
        }
        m->at = more;
        m->room = room;
    }
    memcpy(m->at + m->bytes, from, bytes);
    m->bytes += bytes;
}

/* Seven bits a byte, the lowest first; the top bit says that more follow. */
static void put_varint(struct message *m, uint64_t value)
{
    while (value > 127) {
        put(m, &(unsigned char){(unsigned char)(value | 128)}, 1);
        value >>= 7;
    }
    put(m, &(unsigned char){(unsigned char)value}, 1);
}

static void put_number(struct message *m, unsigned field, uint64_t value)
{
    put_varint(m, field << 3);
    put_varint(m, value);
}

static void put_bytes(struct message *m, unsigned field, const void *from,
                      size_t bytes)
{
    put_varint(m, field << 3 | 2);
    put_varint(m, bytes);
    put(m, from, bytes);
}

static void put_text(struct message *m, unsigned field, const char *text)
{
    put_bytes(m, field, text, strlen(text));
}

/* Ends the inner message. */
static void put_message(struct message *m, unsigned field, struct message inner)
{
    if (inner.failed) {
        free(m->at);
        *m = (struct message){.failed = true};
        return;
    }
    put_bytes(m, field, inner.at, inner.bytes);
    free(inner.at);
}

static struct message node(const char *type, const char *first,
                           const char *second, const char *output)
{
    struct message m = {0};

    put_text(&m, 1, first);
    put_text(&m, 1, second);
    put_text(&m, 2, output);
    put_text(&m, 4, type);
    return m;
}

/* A tensor of floats: rows 0 is one of a single dimension. */
static struct message tensor(const char *name, unsigned rows, unsigned columns,
                             const float *values)
{
    size_t count = (size_t)(rows > 0 ? rows : 1) * columns;
    struct message m = {0};

    if (rows > 0) {
        put_number(&m, 1, rows);
    }
    put_number(&m, 1, columns);
    put_number(&m, 2, 1); /* float */
    put_text(&m, 8, name);
    put_bytes(&m, 9, values, count * sizeof *values);
    return m;
}

/* An input or output: a batch of rows of so many columns. */
static struct message value_info(const char *name, unsigned columns)
{
    struct message m = {0}, type = {0}, of_tensor = {0}, shape = {0},
                   batch = {0}, width = {0};

    put_text(&batch, 2, "batch");
    put_number(&width, 1, columns);
    put_message(&shape, 1, batch);
    put_message(&shape, 1, width);
    put_number(&of_tensor, 1, 1); /* float */
    put_message(&of_tensor, 2, shape);
    put_message(&type, 1, of_tensor);
    put_text(&m, 1, name);
    put_message(&m, 2, type);
    return m;
}

static struct message graph(void)
{
    static float weights[MODEL_INPUTS][MODEL_OUTPUTS], bias[MODEL_OUTPUTS];
    struct message m = {0};

    for (unsigned o = 0; o < MODEL_OUTPUTS; o++) {
        bias[o] = model_bias(o);
        for (unsigned i = 0; i < MODEL_INPUTS; i++) {
            weights[i][o] = model_weight(i, o);
        }
    }
    put_message(&m, 1, node("MatMul", "x", "w", "xw"));
    put_message(&m, 1, node("Add", "xw", "b", "y"));
    put_text(&m, 2, "linear");
    put_message(&m, 5, tensor("w", MODEL_INPUTS, MODEL_OUTPUTS, weights[0]));
    put_message(&m, 5, tensor("b", 0, MODEL_OUTPUTS, bias));
    put_message(&m, 11, value_info("x", MODEL_INPUTS));
    put_message(&m, 12, value_info("y", MODEL_OUTPUTS));
    return m;
}

unsigned char *model_make(size_t *bytes)
{
    struct message m = {0}, opset = {0};

    put_text(&opset, 1, "");
    put_number(&opset, 2, 13);
    put_number(&m, 1, 8); /* version of the format */
    put_message(&m, 8, opset);
    put_message(&m, 7, graph());
    *bytes = m.bytes;
    return m.at;
}
