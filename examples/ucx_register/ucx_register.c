/* ucx_register.c: memory of warmpool that UCX may send from and receive into,
 * registered once for each segment and not once for each buffer.
 *
 * A NIC reads and writes registered memory only, and to register a buffer takes
 * a system call that locks its pages: too slow for each message. A memory
 * callback registers each segment once it is obtained, before any buffer of it
 * is handed out, and unregisters it before it is returned. A transfer finds the
 * registration by the segment of its buffer.
 *
 *   ucx_register [--buffers N]
 *
 * copies N buffers to others in this process by way of UCX, checks what
 * arrived, and prints how many registrations there were.
 */
#include <ucp/api/ucp.h>

#include <warmpool/warmpool.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- registrations ------------------------------------------------------- */

/* What UCX knows of a segment. */
struct registration {
    struct registration *next;
    uint64_t id; /* of the segment */
    ucp_mem_h memory;
    ucp_rkey_h key; /* with it the other side may write to the segment */
};

static struct nic {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h endpoint; /* to this process itself */
    struct registration *first;
    unsigned made, ended, failed;
} nic;

static bool ok(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
    }
    return status == UCS_OK;
}

static bool map(void *base, size_t bytes, ucp_mem_h *memory)
{
    const ucp_mem_map_params_t params = {.field_mask =
                                             UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                             UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                         .address = base,
                                         .length = bytes};

    return ok(ucp_mem_map(nic.context, &params, memory), "ucp_mem_map");
}

/* The key, as the other side would unpack it. */
static bool make_key(ucp_mem_h memory, ucp_rkey_h *key)
{
    void *packed = NULL;
    size_t bytes = 0;
    bool good = ok(ucp_rkey_pack(nic.context, memory, &packed, &bytes),
                   "ucp_rkey_pack");

    if (good) {
        good = ok(ucp_ep_rkey_unpack(nic.endpoint, packed, key),
                  "ucp_ep_rkey_unpack");
        ucp_rkey_buffer_release(packed);
    }
    return good;
}

static bool register_segment(const warm_segment *segment)
{
    struct registration *made = calloc(1, sizeof *made);

    if (made == NULL || !map(segment->base, segment->bytes, &made->memory)) {
        free(made);
        return false;
    }
    if (!make_key(made->memory, &made->key)) {
        ucp_mem_unmap(nic.context, made->memory);
        free(made);
        return false;
    }
    made->id = segment->id;
    made->next = nic.first;
    nic.first = made;
    nic.made++;
    return true;
}

/* Where the pointer to the segment's registration is, or null at the end. */
static struct registration **find(uint64_t id)
{
    struct registration **link = &nic.first;

    while (*link != NULL && (*link)->id != id) {
        link = &(*link)->next;
    }
    return link;
}

static void unregister_segment(const warm_segment *segment)
{
    struct registration **link = find(segment->id), *r = *link;

    if (r == NULL) {
        return; /* obtained before the callback was added, or refused by UCX */
    }
    *link = r->next;
    ucp_rkey_destroy(r->key);
    ucp_mem_unmap(nic.context, r->memory);
    free(r);
    nic.ended++;
}

/* One thread allocates here. With several the list needs a lock of its own,
 * under which no thread may call warmpool. */
static void on_segment(void *context, warm_memory_event event,
                       const warm_segment *segment)
{
    (void)context;
    if (segment->device >= 0) {
        return; /* a device's memory: for UCX with CUDA support */
    }
    if (event == WARM_MEMORY_RETURNING) {
        unregister_segment(segment);
    } else if (!register_segment(segment)) {
        nic.failed++;
    }
}

/* ---- UCX ----------------------------------------------------------------- */

static bool open_worker(void)
{
    const ucp_worker_params_t params = {.field_mask =
                                            UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SINGLE};

    return ok(ucp_worker_create(nic.context, &params, &nic.worker),
              "ucp_worker_create");
}

static bool connect_to_self(void)
{
    ucp_address_t *address = NULL;
    size_t bytes = 0;
    bool good = ok(ucp_worker_get_address(nic.worker, &address, &bytes),
                   "ucp_worker_get_address");

    if (good) {
        const ucp_ep_params_t params = {.field_mask =
                                            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                        .address = address};

        good = ok(ucp_ep_create(nic.worker, &params, &nic.endpoint),
                  "ucp_ep_create");
        ucp_worker_release_address(nic.worker, address);
    }
    return good;
}

static bool open_ucx(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA};
    ucp_config_t *config = NULL;
    bool good = ok(ucp_config_read(NULL, NULL, &config), "ucp_config_read");

    if (good) {
        good = ok(ucp_init(&params, config, &nic.context), "ucp_init");
        ucp_config_release(config);
    }
    return good && open_worker() && connect_to_self();
}

/* Waits for what was begun; a null request is done already. */
static bool finish(ucs_status_ptr_t request, const char *what)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (UCS_PTR_IS_PTR(request)) {
        do {
            ucp_worker_progress(nic.worker);
            status = ucp_request_check_status(request);
        } while (status == UCS_INPROGRESS);
        ucp_request_free(request);
    }
    return ok(status, what);
}

static bool flush(void)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};

    return finish(ucp_ep_flush_nbx(nic.endpoint, &none), "ucp_ep_flush_nbx");
}

static void close_ucx(void)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};

    (void)finish(ucp_ep_close_nbx(nic.endpoint, &none), "ucp_ep_close_nbx");
    ucp_worker_destroy(nic.worker);
    ucp_cleanup(nic.context);
}

/* Puts a buffer into another one of warmpool, with the key of its segment. */
static bool put(const void *from, void *to, size_t bytes)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};
    warm_block_info info = WARM_INIT(warm_block_info);
    struct registration *r;

    if (warm_block_get_info(to, &info) != WARM_OK ||
        (r = *find(info.segment_id)) == NULL) {
        fprintf(stderr, "%p is not registered\n", to);
        return false;
    }
    return finish(ucp_put_nbx(nic.endpoint, from, bytes,
                              (uint64_t)(uintptr_t)to, r->key, &none),
                  "ucp_put_nbx");
}

/* ---- the program --------------------------------------------------------- */

enum { LEAST = 4 << 10, MOST = 256 << 10, MOST_BUFFERS = 10000 };

struct buffers {
    unsigned count;
    size_t *bytes;
    char **from, **to;
};

static bool fill(warm_runtime *runtime, struct buffers *b)
{
    for (unsigned i = 0; i < b->count; i++) {
        b->bytes[i] = LEAST + i * (size_t)977 * 1024 % (MOST - LEAST);
        if (warm_pinned_alloc(runtime, b->bytes[i], (void **)&b->from[i]) !=
                WARM_OK ||
            warm_pinned_alloc(runtime, b->bytes[i], (void **)&b->to[i]) !=
                WARM_OK) {
            fprintf(stderr, "%s\n", warm_last_error_message());
            return false;
        }
        memset(b->from[i], (int)(i % 251 + 1), b->bytes[i]);
        memset(b->to[i], 0, b->bytes[i]);
    }
    return true;
}

static bool send_all(const struct buffers *b)
{
    for (unsigned i = 0; i < b->count; i++) {
        if (!put(b->from[i], b->to[i], b->bytes[i])) {
            return false;
        }
    }
    return flush();
}

static unsigned count_wrong(const struct buffers *b)
{
    unsigned wrong = 0;

    for (unsigned i = 0; i < b->count; i++) {
        wrong += memcmp(b->from[i], b->to[i], b->bytes[i]) != 0;
    }
    return wrong;
}

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* As a program does that knows nothing of segments: a registration for each
 * buffer. */
static double register_each(const struct buffers *b)
{
    double start = now_ms();

    for (unsigned i = 0; i < 2 * b->count; i++) {
        char *base = i < b->count ? b->from[i] : b->to[i - b->count];
        ucp_mem_h memory;

        if (!map(base, b->bytes[i % b->count], &memory)) {
            return -1;
        }
        ucp_mem_unmap(nic.context, memory);
    }
    return now_ms() - start;
}

static void free_all(const struct buffers *b)
{
    for (unsigned i = 0; i < b->count; i++) {
        (void)warm_free(b->from[i]);
        (void)warm_free(b->to[i]);
    }
}

static int run(warm_runtime *runtime, struct buffers *b)
{
    bool sent = fill(runtime, b) && nic.failed == 0 && send_all(b);
    unsigned wrong = sent ? count_wrong(b) : 0;
    double each = sent ? register_each(b) : -1;

    free_all(b);
    if (!sent || each < 0) {
        return 1;
    }
    printf("buffers: %u, wrong: %u\n", 2 * b->count, wrong);
    printf("registrations: %u, one for each segment; %u, one for each buffer, "
           "take %.1f ms\n",
           nic.made, 2 * b->count, each);
    return wrong == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    unsigned count = argc == 3 && strcmp(argv[1], "--buffers") == 0
                         ? (unsigned)strtoul(argv[2], NULL, 10)
                         : 500;
    static size_t sizes[MOST_BUFFERS];
    static char *from[MOST_BUFFERS], *to[MOST_BUFFERS];
    struct buffers b = {.count = count, .bytes = sizes, .from = from, .to = to};
    const warm_memory_callback callback = {.size = sizeof callback,
                                           .name = "ucx",
                                           .segment = on_segment,
                                           .events = WARM_MEMORY_OBTAINED |
                                                     WARM_MEMORY_RETURNING};
    warm_runtime *runtime = NULL;
    int result = 1;

    if (count == 0 || count > MOST_BUFFERS || !open_ucx()) {
        fprintf(stderr, "usage: ucx_register [--buffers N], N up to %d\n",
                MOST_BUFFERS);
        return 1;
    }
    if (warm_runtime_create(NULL, &runtime) == WARM_OK &&
        warm_memory_callback_add(runtime, &callback) == WARM_OK) {
        result = run(runtime, &b);
    } else {
        fprintf(stderr, "%s\n", warm_last_error_message());
    }
    /* Returns the segments, each of which is unregistered before. */
    (void)warm_runtime_destroy(runtime, NULL);
    printf("unregistered: %u of %u\n", nic.ended, nic.made);
    close_ucx();
    return result != 0 || nic.ended != nic.made || nic.first != NULL;
}
