/* check_maths.c: every operation of maths.h against plain loops, on whichever
 * driver the tests run, with pooled handles and the naive way. */
#include "examples/common/maths.h"
#include "examples/common/model.h"
#include "tests/wt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 17 }; /* floats of each array */

/* Arrays of the host, and their twins on the device. */
static float a[ROOM], b[ROOM], c[ROOM], expected[ROOM];
static float *device_a, *device_b, *device_c; /* one block */
static warm_runtime *runtime;
static maths m;

static void set_up(bool naive)
{
    uint64_t state = wt_seed();

    runtime = wt_runtime(NULL);
    for (int i = 0; i < ROOM; i++) {
        a[i] = (float)(random_next(&state) >> 48) / 32768 - 1;
        b[i] = (float)(random_next(&state) >> 48) / 32768 - 1;
        c[i] = (float)(random_next(&state) >> 48) / 32768 - 1;
    }
    ck_assert_msg(naive ? maths_begin_naive(&m, runtime, 0)
                        : maths_begin(&m, runtime, 0),
                  "%s", m.why.text);
    device_a = maths_alloc(&m, (size_t)3 * ROOM);
    ck_assert_msg(!m.bad, "%s", m.why.text);
    device_b = device_a + ROOM;
    device_c = device_b + ROOM;
    maths_upload(&m, device_a, a, ROOM);
    maths_upload(&m, device_b, b, ROOM);
    maths_upload(&m, device_c, c, ROOM);
    /* Tests change the arrays, which the copies must not see. */
    ck_assert_msg(maths_finish(&m), "%s", m.why.text);
}

static void set_up_pooled(void)
{
    set_up(false);
}

static void set_up_naive(void)
{
    set_up(true);
}

static void tear_down(void)
{
    maths_free(&m, device_a);
    maths_end(&m);
    wt_runtime_end(runtime);
}

/* Fetches count floats of the device's c; what lies behind is as it was. */
static void compare(int count)
{
    static float got[ROOM];

    maths_download(&m, got, device_c, ROOM);
    ck_assert_msg(maths_finish(&m), "%s", m.why.text);
    for (int i = 0; i < count; i++) {
        wt_require(fabsf(got[i] - expected[i]) <=
                       1e-4f + 1e-4f * fabsf(expected[i]),
                   "%d: %g, not %g", i, (double)got[i], (double)expected[i]);
    }
    ck_assert_mem_eq(got + count, c + count,
                     (size_t)(ROOM - count) * sizeof *got);
}

static const int sizes[][3] = {{1, 1, 1},     {3, 5, 7},     {2, 10, 128},
                               {64, 128, 84}, {128, 10, 60}, {1, 128, 784}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void multiply(const maths_product *p)
{
    for (int r = 0; r < p->rows; r++) {
        for (int n = 0; n < p->columns; n++) {
            double sum = 0;

            for (int k = 0; k < p->inner; k++) {
                int at_a = p->a_transposed ? k * p->rows + r : r * p->inner + k;
                int at_b =
                    p->b_transposed ? n * p->inner + k : k * p->columns + n;

                sum += (double)a[at_a] * (double)b[at_b];
            }
            expected[r * p->columns + n] =
                p->alpha * (float)sum + p->beta * c[r * p->columns + n];
        }
    }
}

WT_CASE("maths", .setup = set_up_pooled, .also = {set_up_naive},
        .teardown = tear_down);

/* _i: two bits for what is transposed, one for alpha and beta, then a size. */
WT_LOOP_TEST(test_gemm_as_plain_loops, 8 * SIZES)
{
    const int *size = sizes[_i / 8];
    maths_product p = {.rows = size[0],
                       .columns = size[1],
                       .inner = size[2],
                       .a_transposed = (_i & 1) != 0,
                       .b_transposed = (_i & 2) != 0,
                       .alpha = (_i & 4) != 0 ? 0.5f : 1.0f,
                       .beta = (_i & 4) != 0 ? 2.0f : 0.0f};

    multiply(&p);
    maths_gemm(&m, &p, device_a, device_b, device_c);
    compare(p.rows * p.columns);
}

WT_LOOP_TEST(test_rows_and_columns_as_plain_loops, SIZES)
{
    int rows = sizes[_i][0], columns = sizes[_i][1];

    for (int i = 0; i < rows * columns; i++) {
        expected[i] = c[i] + a[i % columns];
    }
    maths_add_row(&m, rows, columns, device_a, device_c);
    compare(rows * columns);
}

WT_LOOP_TEST(test_column_sums_as_plain_loops, SIZES)
{
    static float ones[ROOM];
    int rows = sizes[_i][0], columns = sizes[_i][1];

    for (int i = 0; i < ROOM; i++) {
        ones[i] = 1;
        expected[i] = 0;
    }
    for (int i = 0; i < rows * columns; i++) {
        expected[i % columns] += a[i];
    }
    maths_upload(&m, device_b, ones, ROOM);
    maths_column_sums(&m, rows, columns, device_b, device_a, device_c);
    compare(columns);
}

WT_LOOP_TEST(test_relu_and_back_as_plain_loops, SIZES)
{
    int rows = sizes[_i][0], columns = sizes[_i][1];

    for (int i = 0; i < rows * columns; i++) {
        expected[i] = a[i] > 0 && c[i] > 0 ? c[i] : 0;
    }
    maths_relu(&m, rows, columns, device_a);
    maths_relu_back(&m, rows, columns, device_a, device_c);
    maths_relu(&m, rows, columns, device_c);
    compare(rows * columns);
}

WT_TEST(test_relu_back_keeps_negative_gradients)
{
    for (int i = 0; i < 70; i++) {
        expected[i] = a[i] > 0 ? c[i] : 0;
    }
    maths_relu(&m, 7, 10, device_a);
    maths_relu_back(&m, 7, 10, device_a, device_c);
    compare(70);
}

WT_LOOP_TEST(test_softmax_makes_distributions, SIZES)
{
    int rows = sizes[_i][0], columns = sizes[_i][1];

    /* Large ones, that overflow if the largest is not taken off. */
    for (int i = 0; i < rows * columns; i++) {
        c[i] *= 200;
    }
    for (int r = 0; r < rows; r++) {
        double sum = 0, most = -INFINITY;

        for (int n = 0; n < columns; n++) {
            most = fmax(most, (double)c[r * columns + n]);
        }
        for (int n = 0; n < columns; n++) {
            sum += exp((double)c[r * columns + n] - most);
        }
        for (int n = 0; n < columns; n++) {
            expected[r * columns + n] =
                (float)(exp((double)c[r * columns + n] - most) / sum);
        }
    }
    maths_upload(&m, device_c, c, ROOM);
    maths_softmax(&m, rows, columns, device_c);
    compare(rows * columns);
}

WT_TEST(test_axpy_and_scale_as_plain_loops)
{
    const int count = 101770;

    for (int i = 0; i < count; i++) {
        expected[i] = 0.9f * c[i] - 0.25f * a[i];
    }
    maths_scale(&m, count, 0.9f, device_c);
    maths_axpy(&m, count, -0.25f, device_a, device_c);
    compare(count);
}

/* The network as one, in the order that operations were queued. */
WT_TEST(test_forward_as_plain_loops)
{
    enum { ROWS = 5 };
    static float hidden[ROWS][HIDDEN];
    model_room room;

    model_room_init(&room, &m, ROWS);
    for (int i = 0; i < MODEL_FLOATS; i++) {
        b[i] *= 0.1f;
    }
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;

        for (int h = 0; h < HIDDEN; h++) {
            double x = (double)b[MODEL_B1 + h];

            for (int k = 0; k < IMAGE_BYTES; k++) {
                x += (double)a[r * IMAGE_BYTES + k] * (double)b[k * HIDDEN + h];
            }
            hidden[r][h] = x > 0 ? (float)x : 0;
        }
        for (int n = 0; n < CLASSES; n++) {
            double x = (double)b[MODEL_B2 + n];

            for (int h = 0; h < HIDDEN; h++) {
                x += (double)hidden[r][h] *
                     (double)b[MODEL_W2 + h * CLASSES + n];
            }
            expected[r * CLASSES + n] = (float)exp(x);
            sum += exp(x);
        }
        for (int n = 0; n < CLASSES; n++) {
            expected[r * CLASSES + n] /= (float)sum;
        }
    }
    maths_upload(&m, device_b, b, MODEL_FLOATS);
    maths_upload(&m, room.x, a, ROWS * IMAGE_BYTES);
    model_forward(&m, device_b, &room, ROWS);
    maths_download(&m, c, room.p, ROWS * CLASSES);
    model_room_fini(&room, &m);
    ck_assert_msg(maths_finish(&m), "%s", m.why.text);
    maths_upload(&m, device_c, c, ROOM);
    compare(ROWS * CLASSES);
}

/* Nothing runs while it is captured, everything at each replay, with what the
 * buffers hold then. */
WT_TEST(test_captured_operations_run_at_each_replay)
{
    enum { COUNT = 1000 };
    maths_graph graph;
    void *buffer;
    float *x;

    wt_ok(warm_pinned_alloc(runtime, COUNT * sizeof *x, &buffer));
    x = buffer;
    maths_scale(&m, 1, 1, device_c); /* the libraries load what they need */
    maths_axpy(&m, 1, 0, device_b, device_c);
    maths_capture_begin(&m);
    maths_upload(&m, device_a, x, COUNT);
    maths_scale(&m, COUNT, 0.5f, device_c);
    maths_axpy(&m, COUNT, 2, device_a, device_c);
    maths_capture_end(&m, &graph);
    ck_assert_msg(!m.bad, "%s", m.why.text);
    ck_assert_ptr_nonnull(graph.graph);
    memcpy(expected, c, sizeof expected);
    compare(COUNT);
    for (int replay = 0; replay < 3; replay++) {
        for (int i = 0; i < COUNT; i++) {
            x[i] = (float)(replay + 1) * a[i];
            expected[i] = 0.5f * expected[i] + 2 * x[i];
        }
        maths_replay(&m, &graph);
        compare(COUNT);
    }
    maths_graph_destroy(&m, &graph);
    ck_assert_ptr_null(graph.graph);
    ck_assert_ptr_null(graph.kept);
    wt_ok(warm_free(buffer));
}

/* And the stream works as before. */
WT_TEST(test_error_in_a_capture_leaves_no_graph)
{
    maths_graph graph;

    maths_capture_begin(&m);
    maths_scale(&m, 10, 0, device_c);
    maths_failed(&m, "on purpose");
    maths_scale(&m, 10, 0, device_c);
    maths_capture_end(&m, &graph);
    ck_assert_ptr_null(graph.graph);
    ck_assert_ptr_null(graph.kept);
    ck_assert_str_eq(m.why.text, "on purpose");
    ck_assert(!maths_finish(&m));
    m.bad = false;
    memcpy(expected, c, sizeof expected);
    compare(10);
    /* One that could not begin is not ended. */
    maths_failed(&m, "before");
    maths_capture_begin(&m);
    ck_assert(!m.captures);
    maths_capture_end(&m, &graph);
    ck_assert_ptr_null(graph.graph);
    m.bad = false;
    compare(10);
}

/* The first error stays, and what follows it is not queued. */
WT_TEST(test_first_error_stays)
{
    maths_failed(&m, "first");
    maths_failed(&m, "second");
    maths_scale(&m, 10, 0, device_c);
    ck_assert(!maths_finish(&m));
    ck_assert_str_eq(m.why.text, "first");
    m.bad = false;
    memcpy(expected, c, sizeof expected);
    compare(10);
}
