/* cpp_program.cpp: a program of C++ over warmpool.hpp, for test_cpp.sh. Runs
 * the case that its argument names; ends with 1, and says where, if it fails.
 */
#include <warmpool/warmpool.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#define EXPECT(what)                                                           \
    do {                                                                       \
        if (!(what)) {                                                         \
            std::printf("line %d: %s\n", __LINE__, #what);                     \
            std::exit(1);                                                      \
        }                                                                      \
    } while (0)

namespace
{

warm_options host_options()
{
    warm_options options = WARM_INIT(warm_options);

    options.device = "host";
    return options;
}

std::uint64_t live(warm_runtime *runtime)
{
    warm_space_stats stats = WARM_INIT(warm_space_stats);

    EXPECT(warm_pinned_get_stats(runtime, &stats) == WARM_OK);
    return stats.live.current;
}

std::uint64_t leased(warm_runtime *runtime)
{
    warm_handle_stats stats = WARM_INIT(warm_handle_stats);

    EXPECT(warm_handle_get_stats(runtime, WARM_KIND_STREAM, 0, &stats) ==
           WARM_OK);
    return stats.leased;
}

/* ---- owners -------------------------------------------------------------- */

void runtimes()
{
    warm_runtime *old;
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    int count = 0;

    {
        warmpool::runtime first(host_options());
        warmpool::runtime second(std::move(first));

        old = second;
        // cppcheck-suppress accessMoved
        EXPECT(static_cast<warm_runtime *>(first) == nullptr);
        first = std::move(second);
        EXPECT(warm_device_count(first, &count) == WARM_OK && count == 1);
    }
    EXPECT(warm_device_count(old, &count) == WARM_RUNTIME_GONE);

    warmpool::runtime third(host_options());
    void *block = nullptr;

    EXPECT(warm_pinned_alloc(third, 10, &block) == WARM_OK);
    EXPECT(third.destroy(&report) == WARM_OK && report.live == 1);
    EXPECT(static_cast<warm_runtime *>(third) == nullptr);

    warmpool::runtime fourth(warmpool::runtime(host_options()).release());

    EXPECT(warm_device_count(fourth, &count) == WARM_OK);
}

void buffers()
{
    warmpool::runtime runtime(host_options());
    warmpool::stream stream(runtime, 0);

    {
        auto host = warmpool::pinned<float>(runtime, 1000);
        auto device = warmpool::device<float>(runtime, 0, stream, 1000);
        auto back = warmpool::try_pinned<float>(runtime, 1000);

        EXPECT(host.size() == 1000 && host.size_bytes() == 4000 && back);
        for (float &value : host) {
            value = 7;
        }
        EXPECT(warm_copy_async(runtime, device.data(), host.data(),
                               host.size_bytes(), WARM_COPY_TO_DEVICE,
                               stream) == WARM_OK);
        EXPECT(warm_copy_async(runtime, back.value().data(), device.data(),
                               device.size_bytes(), WARM_COPY_TO_HOST,
                               stream) == WARM_OK);
        device.record(stream);
        stream.synchronize();
        EXPECT(back.value()[999] == 7);
        EXPECT(live(runtime) == 2);

        auto moved = std::move(host);

        EXPECT(host.data() == nullptr && host.size() == 0);
        moved = std::move(back).value();
        EXPECT(live(runtime) == 1 && moved[0] == 7);
        auto &itself = moved;

        moved = std::move(itself);
        EXPECT(moved[0] == 7);

        float *taken = moved.release();

        EXPECT(warm_free(taken) == WARM_OK);
    }
    EXPECT(live(runtime) == 0);
}

void leases()
{
    warmpool::runtime runtime(host_options());
    warmpool::stream stream(runtime, 0);

    {
        warmpool::lease<warm_stream> one(runtime, WARM_KIND_STREAM, 0);
        warmpool::lease<warm_stream> two;

        EXPECT(one.get() != nullptr && two.get() == nullptr);
        two = std::move(one);
        EXPECT(one.get() == nullptr && leased(runtime) == 1);
        one = warmpool::lease<warm_stream>(runtime, WARM_KIND_STREAM, 0);
        EXPECT(leased(runtime) == 2 && one.get() != two.get());
        two = std::move(one);
        EXPECT(leased(runtime) == 1);
    }
    EXPECT(leased(runtime) == 0);
    EXPECT(warmpool::reserve(runtime, WARM_KIND_STREAM, 0) ==
           warmpool::reserve<warm_stream>(runtime, WARM_KIND_STREAM, 0));
    /* This kind takes no stream. */
    auto refused =
        warmpool::lease<>::make(runtime, WARM_KIND_STREAM, 0, stream);

    EXPECT(!refused && refused.error().status == WARM_UNSUPPORTED);
    EXPECT(leased(runtime) == 0);
}

/* A kind whose handle is the stream that it is bound to. */
void binds()
{
    warmpool::runtime runtime(host_options());
    warmpool::stream one(runtime, 0), two(runtime, 0);
    static warm_stream bound;
    warm_kind_ops ops = WARM_INIT(warm_kind_ops);
    warm_kind kind = -1;

    ops.name = "bound";
    ops.create = [](void *, int, void **handle) {
        *handle = &bound;
        return 0;
    };
    ops.destroy = [](void *, int, void *) { return 0; };
    ops.bind_stream = [](void *, int, void *handle, warm_stream stream) {
        *static_cast<warm_stream *>(handle) = stream;
        return 0;
    };
    EXPECT(warm_kind_register(runtime, &ops, &kind) == WARM_OK);
    {
        warmpool::lease<warm_stream *> lease(runtime, kind, 0, one);

        EXPECT(*lease.get() == one);
        lease.bind(two);
        EXPECT(*lease.get() == two);
    }
}

bool captures(warm_runtime *runtime, warm_stream stream)
{
    return warm_capture_announce(runtime, stream) == WARM_CAPTURE_ERROR ||
           warm_capture_announce_end(runtime, stream) != WARM_OK;
}

void graphs()
{
    warmpool::runtime runtime(host_options());
    warmpool::stream stream(runtime, 0);
    warmpool::private_pool pool(runtime);
    auto host = warmpool::pinned<int>(runtime, 1);
    auto back = warmpool::pinned<int>(runtime, 1);
    warmpool::graph graph;

    {
        warmpool::capture capture(runtime, stream);
        auto device = warmpool::device<int>(runtime, 0, stream, 1);

        EXPECT(warm_copy_async(runtime, device.data(), host.data(), 4,
                               WARM_COPY_TO_DEVICE, stream) == WARM_OK);
        EXPECT(warm_copy_async(runtime, back.data(), device.data(), 4,
                               WARM_COPY_TO_HOST, stream) == WARM_OK);
        EXPECT(captures(runtime, stream));
        graph = capture.end();
    }
    pool.end();
    host[0] = 42;
    graph.launch(stream);
    stream.synchronize();
    EXPECT(back[0] == 42);
    {
        warmpool::capture abandoned(runtime, stream);
    }
    EXPECT(!captures(runtime, stream));
}

/* ---- errors -------------------------------------------------------------- */

void values()
{
    auto wrong = warmpool::try_pinned<char>(nullptr, 10);
    auto runtime = warmpool::runtime::make(host_options());
    warm_options options = host_options();

    EXPECT(!wrong && wrong.error().status == WARM_INVALID_ARGUMENT);
    EXPECT(std::strstr(wrong.error().message, "runtime") != nullptr);
    EXPECT(static_cast<bool>(runtime));
    options.device = "abacus";
    EXPECT(!warmpool::runtime::make(options));
    /* More bytes than a size_t counts. */
    auto many = warmpool::try_pinned<double>(runtime.value(), SIZE_MAX / 4);

    EXPECT(!many && many.error().status == WARM_OUT_OF_MEMORY);
    EXPECT(live(runtime.value()) == 0);
}

#ifdef __cpp_exceptions
template <class E, class F> bool throws(warm_status status, F what)
{
    try {
        what();
    } catch (const E &caught) {
        return caught.details().status == status &&
               std::strcmp(caught.what(), caught.details().message) == 0;
    }
    return false;
}

void exceptions()
{
    warmpool::runtime runtime(host_options());
    warm_options options = host_options();

    options.device = "abacus";
    EXPECT(throws<warmpool::error>(
        WARM_INVALID_OPTION, [&] { warmpool::runtime refused(options); }));
    EXPECT(throws<warmpool::error>(
        WARM_INVALID_ARGUMENT, [&] { warmpool::stream refused(runtime, 7); }));
    EXPECT(throws<warmpool::out_of_memory>(WARM_OUT_OF_MEMORY, [&] {
        auto refused = warmpool::pinned<char>(runtime, SIZE_MAX / 2);
    }));
    EXPECT(throws<warmpool::error>(WARM_INVALID_ARGUMENT, [&] {
        (void)warmpool::reserve(runtime, 31, 0);
    }));
    EXPECT(throws<warmpool::error>(WARM_INVALID_ARGUMENT, [&] {
        warmpool::pinned_resource resource(runtime);

        (void)resource.allocate(1, 2 * WARM_ALIGNMENT_MAX);
    }));
    bool bad = false;

    try {
        std::vector<char, warmpool::pinned_allocator<char>> v(
            SIZE_MAX / 4, warmpool::pinned_allocator<char>(runtime));
    } catch (const std::bad_alloc &) {
        bad = true;
    }
    EXPECT(bad && live(runtime) == 0);
}
#endif

/* ---- memory resources ---------------------------------------------------- */

void containers()
{
    warmpool::runtime runtime(host_options()), other(host_options());
    warmpool::pinned_resource resource(runtime), same(runtime), away(other);

    EXPECT(resource == same && resource != away);
    EXPECT(resource.is_equal(same) && !resource.is_equal(away));
    EXPECT(!resource.is_equal(*std::pmr::new_delete_resource()));
    {
        std::pmr::vector<int> v(&resource);
        std::pmr::unsynchronized_pool_resource pool(&resource);
        std::pmr::map<int, std::pmr::string> m(&pool);

        for (int i = 0; i < 10000; i++) {
            v.push_back(i);
            m[i] = "a string that is too long for its own buffer";
        }
        EXPECT(v[9999] == 9999 && m.size() == 10000 && live(runtime) > 1);
    }
    EXPECT(live(runtime) == 0);
    for (std::size_t align = 1; align <= WARM_ALIGNMENT_MAX; align *= 2) {
        void *one = resource.allocate(100, align);
        void *two = resource.allocate(0, align);
        warm_block_info info = WARM_INIT(warm_block_info);

        EXPECT(warm_block_get_info(one, &info) == WARM_OK && info.base == one &&
               info.requested == 100);
        EXPECT(reinterpret_cast<std::uintptr_t>(one) % align == 0);
        EXPECT(reinterpret_cast<std::uintptr_t>(two) % align == 0);
        EXPECT(one != two && two != nullptr);
        resource.deallocate(one, 100, align);
        resource.deallocate(two, 0, align);
    }
    EXPECT(live(runtime) == 0);
}

void allocators()
{
    warmpool::runtime runtime(host_options()), other(host_options());
    warmpool::pinned_allocator<int> here(runtime), there(other);
    using vector = std::vector<int, warmpool::pinned_allocator<int>>;

    {
        vector v(1000, 3, here), w(there);
        std::list<int, warmpool::pinned_allocator<int>> l(here);

        l.push_back(1);
        EXPECT(live(runtime) == 2 && live(other) == 0);
        w = v; /* copied into its own memory */
        EXPECT(live(other) == 1 && w.get_allocator() == there && w[999] == 3);
        w = std::move(v); /* moved, with the memory */
        EXPECT(live(other) == 0 && w.get_allocator() == here && w[999] == 3);
        swap(v, w);
        EXPECT(v.size() == 1000 && here != there);
    }
    EXPECT(live(runtime) == 0 && live(other) == 0);
    {
        struct alignas(8192) wide {
            char text[8192];
        };
        std::vector<wide, warmpool::pinned_allocator<wide>> v(
            3, warmpool::pinned_allocator<wide>(runtime));

        EXPECT(reinterpret_cast<std::uintptr_t>(v.data()) % 8192 == 0);
    }
    EXPECT(live(runtime) == 0);
}

/* An object as cuda::stream_ref is. */
struct stream_ref {
    warm_stream stream;
    warm_stream get() const
    {
        return stream;
    }
};

template <class R> void use(R &resource, warm_stream stream)
{
    const stream_ref by_ref{stream};
    void *one = resource.allocate_sync(1000, 256);
    void *two = resource.allocate(stream, 1000, 256);
    void *three = resource.allocate(by_ref, 1000);
    void *four = resource.allocate_async(1000, 1 << 20, by_ref);
    void *five = resource.allocate_async(1000, stream);
    void *six = resource.allocate(1000, 16); /* two numbers: no stream */

    EXPECT(reinterpret_cast<std::uintptr_t>(four) % (1 << 20) == 0);
    resource.deallocate(by_ref, two, 1000, 256);
    resource.deallocate(stream, three, 1000);
    resource.deallocate_async(four, 1000, 1 << 20, stream);
    resource.deallocate_async(five, 1000, by_ref);
    resource.deallocate_sync(one, 1000, 256);
    resource.deallocate(six, 1000, 16);
}

void in_order()
{
    warmpool::runtime runtime(host_options());
    warmpool::stream stream(runtime, 0);
    warmpool::pinned_resource pinned(runtime);
    warmpool::device_resource device(runtime, 0), again(runtime, 0);
    warm_device_stats stats = WARM_INIT(warm_device_stats);

    use(pinned, stream);
    use(device, stream);
    EXPECT(device == again && !(device != again));
    EXPECT(live(runtime) == 0);
    EXPECT(warm_device_get_stats(runtime, 0, &stats) == WARM_OK);
    EXPECT(stats.all.live.current == 0);
}

/* A free in the order of a stream is used again once the stream is there. */
void frees_wait()
{
    warmpool::runtime runtime(host_options());
    warmpool::stream stream(runtime, 0);
    warmpool::pinned_resource pinned(runtime);
    warm_space_stats stats = WARM_INIT(warm_space_stats);
    std::atomic<bool> go{false};
    void *block = pinned.allocate(stream, 100000);

    EXPECT(warm_stream_host_func(
               runtime, stream,
               [](void *wait) {
                   while (!*static_cast<std::atomic<bool> *>(wait)) {
                   }
               },
               &go) == WARM_OK);
    pinned.deallocate(stream, block, 100000);
    EXPECT(warm_pinned_get_stats(runtime, &stats) == WARM_OK);
    EXPECT(stats.pending.current == 1);

    void *other = pinned.allocate(stream, 100000);

    EXPECT(other != block);
    go = true;
    stream.synchronize();
    pinned.deallocate(other, 100000);
    EXPECT(warm_poll(runtime) == WARM_OK);
    EXPECT(warm_pinned_get_stats(runtime, &stats) == WARM_OK);
    EXPECT(stats.pending.current == 0);
}

/* An allocation without a stream waits for no work of others, and gets none of
 * their memory. */
void waits_for_nobody()
{
    warmpool::runtime runtime(host_options());
    warmpool::device_resource device(runtime, 0);
    struct {
        std::atomic<bool> go{false}, late{false};
    } gate;
    void *old = nullptr;

    EXPECT(warm_device_alloc(runtime, 0, WARM_STREAM_LEGACY, 100000, &old) ==
           WARM_OK);
    EXPECT(warm_stream_host_func(
               runtime, WARM_STREAM_LEGACY,
               [](void *argument) {
                   auto *held = static_cast<decltype(gate) *>(argument);
                   const auto end = std::chrono::steady_clock::now() +
                                    std::chrono::seconds(10);

                   while (!held->go && !held->late) {
                       held->late = std::chrono::steady_clock::now() > end;
                   }
               },
               &gate) == WARM_OK);
    EXPECT(warm_free(old) == WARM_OK);

    void *block = device.allocate_sync(100000);

    EXPECT(!gate.late && block != old);
    gate.go = true;
    EXPECT(warm_stream_synchronize(runtime, WARM_STREAM_LEGACY) == WARM_OK);
    device.deallocate_sync(block, 100000);
}

#ifdef WARMPOOL_CUDA_MR
#if CCCL_VERSION >= 3001000
static_assert(cuda::mr::resource_with<warmpool::device_resource,
                                      cuda::mr::device_accessible>);
static_assert(cuda::mr::resource_with<warmpool::pinned_resource,
                                      cuda::mr::host_accessible,
                                      cuda::mr::device_accessible>);
#else
static_assert(cuda::mr::async_resource_with<warmpool::device_resource,
                                            cuda::mr::device_accessible>);
static_assert(cuda::mr::async_resource_with<warmpool::pinned_resource,
                                            cuda::mr::host_accessible,
                                            cuda::mr::device_accessible>);
#endif

void cuda_resources()
{
    warmpool::runtime runtime(host_options());
    warmpool::pinned_resource pinned(runtime);
    warmpool::device_resource device(runtime, 0);
    cuda::mr::resource_ref<cuda::mr::host_accessible,
                           cuda::mr::device_accessible>
        host(pinned);
    cuda::mr::resource_ref<cuda::mr::device_accessible> any(device);
    void *one = host.allocate(1000, 64), *two = any.allocate(1000, 64);

    EXPECT(live(runtime) == 1);
    host.deallocate(one, 1000, 64);
    any.deallocate(two, 1000, 64);
    EXPECT(live(runtime) == 0);
}
#endif

/* ---- below main ---------------------------------------------------------- */

/* A buffer of a runtime that nobody ends, in an object that ends late. */
struct late_owner {
    std::optional<warmpool::buffer<float>> buffer;
};

late_owner global_owner;
thread_local late_owner thread_owner;

struct own_runtime {
    warmpool::runtime runtime;
    warmpool::buffer<int> buffer;

    own_runtime()
        : runtime(host_options()), buffer(warmpool::pinned<int>(runtime, 1000))
    {
    }
};

std::optional<own_runtime> global_runtime;

/* Each ends after main, or with its thread; that must not crash the program,
 * which ends with 0. */
void late()
{
    static auto *leaked = new warmpool::runtime(host_options());

    global_runtime.emplace();
    global_owner.buffer = warmpool::pinned<float>(*leaked, 5000);
    thread_owner.buffer = warmpool::pinned<float>(*leaked, 5000);
    std::thread([] {
        thread_owner.buffer = warmpool::pinned<float>(*leaked, 70000);
    }).join();
    EXPECT(live(*leaked) == 2);
}

const struct {
    const char *name;
    void (*run)();
} cases[] = {{"runtimes", runtimes},
             {"late", late},
             {"buffers", buffers},
             {"leases", leases},
             {"graphs", graphs},
             {"values", values},
#ifdef __cpp_exceptions
             {"exceptions", exceptions},
#endif
#ifdef WARMPOOL_CUDA_MR
             {"cuda_resources", cuda_resources},
#endif
             {"containers", containers},
             {"allocators", allocators},
             {"in_order", in_order},
             {"frees_wait", frees_wait},
             {"waits_for_nobody", waits_for_nobody},
             {"binds", binds}};

} // namespace

int main(int argc, char **argv)
{
    for (const auto &one : cases) {
        if (argc == 2 && std::string_view(argv[1]) == one.name) {
            one.run();
            return 0;
        }
    }
    std::printf("no such case\n");
    return 1;
}
