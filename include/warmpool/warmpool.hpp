/* warmpool/warmpool.hpp: warmpool for C++17: owners, guards, allocators.
 *
 * Everything here is inline and calls the C functions, which a program may also
 * call itself: owners convert to the C types. No rule for threads or streams is
 * added; what a function does, and each of its errors, is documented with the C
 * function of that name (make: create; pinned: warm_pinned_alloc_on; device:
 * warm_device_alloc).
 *
 *   warmpool::runtime runtime;
 *   warmpool::stream stream(runtime, 0);
 *   auto host = warmpool::pinned<float>(runtime, 1000);
 *   auto device = warmpool::device<float>(runtime, 0, stream, 1000);
 *
 *   warm_copy_async(runtime, device.data(), host.data(), host.size_bytes(),
 *                   WARM_COPY_TO_DEVICE, stream);
 *   // both may end here: the memory is reused once the copy has completed
 *
 * Errors. A constructor, and a function without try_, throws: out_of_memory (a
 * std::bad_alloc) for WARM_OUT_OF_MEMORY, else error. make() and functions with
 * try_ return a result, with the value or the error, and throw nothing. In a
 * program that is built without exceptions std::terminate() is called instead
 * of a throw.
 *
 * Owners are moved, not copied; one that was moved from is empty. The
 * destructor ends what the owner owns, and throws nothing: where the status
 * matters, end it by a call before. An owner must end before its runtime,
 * except buffers: those of a destroyed runtime stay usable, and are never
 * freed.
 *
 * Libraries. The two resources below are memory resources of CUDA's C++ library
 * (cuda::mr) as well, and so of RMM, under both of its sets of names. Define
 * WARMPOOL_CUDA_MR before this header to give them their properties; that
 * includes <cuda/memory_resource>, which CUDA 13 has (versions of it before 3.1
 * need LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE, too). */
#ifndef WARMPOOL_WARMPOOL_HPP
#define WARMPOOL_WARMPOOL_HPP

#include "warmpool/warmpool.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>
#include <variant>

#ifdef WARMPOOL_CUDA_MR
#include <cuda/memory_resource>
#endif

namespace warmpool
{

/* ---- errors -------------------------------------------------------------- */

/* What a call of the C interface reported. */
class error : public std::exception
{
  public:
    explicit error(const warm_error &details) noexcept : details_(details)
    {
    }
    const char *what() const noexcept override
    {
        return details_.message;
    }
    warm_status status() const noexcept
    {
        return details_.status;
    }
    const warm_error &details() const noexcept
    {
        return details_;
    }

  private:
    warm_error details_;
};

class out_of_memory : public std::bad_alloc
{
  public:
    explicit out_of_memory(const warm_error &details) noexcept
        : details_(details)
    {
    }
    const char *what() const noexcept override
    {
        return details_.message;
    }
    const warm_error &details() const noexcept
    {
        return details_;
    }

  private:
    warm_error details_;
};

/* Throws the error. */
[[noreturn]] inline void raise(const warm_error &details)
{
#ifdef __cpp_exceptions
    if (details.status == WARM_OUT_OF_MEMORY) {
        throw out_of_memory(details);
    }
    throw error(details);
#else
    (void)details;
    std::terminate();
#endif
}

/* The error of this thread's last failed call. */
inline warm_error last_error() noexcept
{
    warm_error details = WARM_INIT(warm_error);

    warm_last_error(&details);
    return details;
}

/* Throws unless a call succeeded: check(warm_poll(runtime)). */
inline void check(warm_status status)
{
    if (status != WARM_OK) {
        raise(last_error());
    }
}

/* A value, or the error instead of it. */
template <class T> class [[nodiscard]] result
{
  public:
    result(T &&value) : is_(std::move(value))
    {
    }
    result(const warm_error &details) : is_(details)
    {
    }

    explicit operator bool() const noexcept
    {
        return is_.index() == 0;
    }
    /* Throws the error if there is no value. */
    T &value() &
    {
        if (is_.index() != 0) {
            raise(*std::get_if<1>(&is_));
        }
        return *std::get_if<0>(&is_);
    }
    T &&value() &&
    {
        return std::move(value());
    }
    /* The error; call it only if there is no value. */
    const warm_error &error() const noexcept
    {
        return *std::get_if<1>(&is_);
    }

  private:
    std::variant<T, warm_error> is_;
};

/* ---- runtimes ------------------------------------------------------------ */

class runtime
{
  public:
    explicit runtime(const warm_options &options = WARM_INIT(warm_options))
        : runtime(make(options).value())
    {
    }
    static result<runtime>
    make(const warm_options &options = WARM_INIT(warm_options))
    {
        runtime made(nullptr);

        if (warm_runtime_create(&options, &made.runtime_) != WARM_OK) {
            return last_error();
        }
        return made;
    }
    /* Owns a runtime of the C interface from now on. */
    explicit runtime(warm_runtime *owned) noexcept : runtime_(owned)
    {
    }

    runtime(runtime &&other) noexcept : runtime_(other.release())
    {
    }
    runtime &operator=(runtime &&other) noexcept
    {
        runtime moved(std::move(other));

        std::swap(runtime_, moved.runtime_);
        return *this;
    }
    ~runtime()
    {
        (void)warm_runtime_destroy(runtime_, nullptr);
    }

    operator warm_runtime *() const noexcept
    {
        return runtime_;
    }
    /* The caller owns it afterwards. */
    warm_runtime *release() noexcept
    {
        return std::exchange(runtime_, nullptr);
    }
    /* warm_runtime_destroy(); if that fails the runtime lives on. */
    warm_status destroy(warm_destroy_report *report = nullptr) noexcept
    {
        warm_status status = warm_runtime_destroy(runtime_, report);

        if (status == WARM_OK) {
            runtime_ = nullptr;
        }
        return status;
    }

  private:
    warm_runtime *runtime_;
};

/* ---- what a runtime made ------------------------------------------------- */

namespace detail
{
/* Owns a T of a runtime, which end() ends; T() is none. */
template <class T, warm_status (*end)(warm_runtime *, T)> class owner
{
  public:
    owner() noexcept = default;
    owner(warm_runtime *runtime, T owned) noexcept
        : runtime_(runtime), owned_(owned)
    {
    }
    owner(owner &&other) noexcept
        : runtime_(other.runtime_), owned_(other.release())
    {
    }
    owner &operator=(owner &&other) noexcept
    {
        owner moved(std::move(other));

        std::swap(runtime_, moved.runtime_);
        std::swap(owned_, moved.owned_);
        return *this;
    }
    ~owner()
    {
        if (owned_ != T()) {
            (void)end(runtime_, owned_);
        }
    }

    T get() const noexcept
    {
        return owned_;
    }
    operator T() const noexcept
    {
        return owned_;
    }
    /* The caller owns it afterwards. */
    T release() noexcept
    {
        return std::exchange(owned_, T());
    }

  protected:
    warm_runtime *runtime_ = nullptr;
    T owned_ = T();
};
} // namespace detail

class stream : public detail::owner<warm_stream, warm_stream_destroy>
{
  public:
    stream() noexcept = default;
    stream(warm_runtime *runtime, int device)
        : stream(make(runtime, device).value())
    {
    }
    /* Owns a stream of warm_stream_create(). */
    stream(warm_runtime *runtime, warm_stream owned) noexcept
        : owner(runtime, owned)
    {
    }
    static result<stream> make(warm_runtime *runtime, int device)
    {
        warm_stream made = nullptr;

        if (warm_stream_create(runtime, device, &made) != WARM_OK) {
            return last_error();
        }
        return stream(runtime, made);
    }
    void synchronize() const
    {
        check(warm_stream_synchronize(runtime_, owned_));
    }
};

class graph : public detail::owner<warm_graph, warm_graph_destroy>
{
  public:
    using owner::owner;

    void launch(warm_stream on) const
    {
        check(warm_graph_launch(runtime_, owned_, on));
    }
};

/* A capture of a stream, from the constructor to end(). */
class capture
{
  public:
    capture(warm_runtime *runtime, warm_stream stream)
        : runtime_(runtime), stream_(stream)
    {
        check(warm_capture_begin(runtime, stream));
    }
    capture(const capture &) = delete;
    capture &operator=(const capture &) = delete;
    /* Ends a capture that was abandoned; there is no graph of it. */
    ~capture()
    {
        if (!ended_) {
            (void)try_end();
        }
    }
    /* Ends the capture, also if the call fails. */
    graph end()
    {
        return try_end().value();
    }
    result<graph> try_end()
    {
        warm_graph made = nullptr;

        ended_ = true;
        if (warm_capture_end(runtime_, stream_, &made) != WARM_OK) {
            return last_error();
        }
        return graph(runtime_, made);
    }

  private:
    warm_runtime *runtime_;
    warm_stream stream_;
    bool ended_ = false;
};

/* A private pool that records from its constructor on, and a reference to it.
 */
class private_pool
{
  public:
    explicit private_pool(warm_runtime *runtime, unsigned flags = 0,
                          warm_pool_filter_fn filter = nullptr,
                          void *context = nullptr)
        : runtime_(runtime)
    {
        check(warm_private_pool_begin(runtime, &pool_, flags, filter, context));
    }
    private_pool(const private_pool &) = delete;
    private_pool &operator=(const private_pool &) = delete;
    ~private_pool()
    {
        if (recording_) {
            (void)warm_private_pool_end(runtime_, pool_);
        }
        (void)warm_private_pool_release(runtime_, pool_);
    }
    /* Routes no allocation to the pool any more. */
    void end()
    {
        check(warm_private_pool_end(runtime_, pool_));
        recording_ = false;
    }
    operator warm_private_pool() const noexcept
    {
        return pool_;
    }

  private:
    warm_runtime *runtime_;
    warm_private_pool pool_ = {0};
    bool recording_ = true;
};

/* ---- handles ------------------------------------------------------------- */

/* The calling thread's handle, as warm_handle_reserve():
 * reserve<cublasHandle_t>(runtime, WARM_KIND_CUBLAS, 0). */
template <class handle = void *>
inline handle reserve(warm_runtime *runtime, warm_kind kind, int device)
{
    void *reserved = nullptr;

    check(warm_handle_reserve(runtime, kind, device, &reserved));
    return static_cast<handle>(reserved);
}

/* Bound to a stream, as warm_handle_reserve_on(). */
template <class handle = void *>
inline handle reserve(warm_runtime *runtime, warm_kind kind, int device,
                      warm_stream stream)
{
    void *reserved = nullptr;

    check(warm_handle_reserve_on(runtime, kind, device, stream, &reserved));
    return static_cast<handle>(reserved);
}

/* A handle for a scope: lease<cublasHandle_t> l(runtime, WARM_KIND_CUBLAS, 0).
 */
template <class handle = void *> class lease
{
  public:
    lease() noexcept = default;
    lease(warm_runtime *runtime, warm_kind kind, int device)
        : lease(make(runtime, kind, device).value())
    {
    }
    lease(warm_runtime *runtime, warm_kind kind, int device, warm_stream stream)
        : lease(make(runtime, kind, device, stream).value())
    {
    }
    static result<lease> make(warm_runtime *runtime, warm_kind kind, int device)
    {
        lease made;

        made.runtime_ = runtime;
        if (warm_handle_lease(runtime, kind, device, &made.lease_,
                              &made.handle_) != WARM_OK) {
            return last_error();
        }
        return made;
    }
    static result<lease> make(warm_runtime *runtime, warm_kind kind, int device,
                              warm_stream stream)
    {
        lease made;

        made.runtime_ = runtime;
        if (warm_handle_lease_on(runtime, kind, device, stream, &made.lease_,
                                 &made.handle_) != WARM_OK) {
            return last_error();
        }
        return made;
    }
    lease(lease &&other) noexcept
    {
        swap(other);
    }
    lease &operator=(lease &&other) noexcept
    {
        lease moved(std::move(other));

        swap(moved);
        return *this;
    }
    ~lease()
    {
        if (lease_.number != 0) {
            (void)warm_handle_return(runtime_, lease_);
        }
    }
    void bind(warm_stream stream) const
    {
        check(warm_lease_bind(runtime_, lease_, stream));
    }
    /* Null: the lease is empty. */
    handle get() const noexcept
    {
        return static_cast<handle>(handle_);
    }
    operator handle() const noexcept
    {
        return get();
    }

  private:
    void swap(lease &other) noexcept
    {
        std::swap(runtime_, other.runtime_);
        std::swap(lease_, other.lease_);
        std::swap(handle_, other.handle_);
    }

    warm_runtime *runtime_ = nullptr;
    warm_lease lease_ = {0};
    void *handle_ = nullptr;
};

/* ---- buffers ------------------------------------------------------------- */

/* A block of size() elements of T, which are not initialized. The elements may
 * be read and written only if the host can access the block. */
template <class T> class buffer
{
    static_assert(std::is_trivially_copyable<T>::value &&
                      std::is_trivially_destructible<T>::value,
                  "a device copies bytes, and no constructor runs");

  public:
    buffer() noexcept = default;
    /* Owns from now on a block of warmpool with room for size elements. */
    buffer(T *owned, std::size_t size) noexcept : data_(owned), size_(size)
    {
    }
    buffer(buffer &&other) noexcept : data_(other.data_), size_(other.size_)
    {
        (void)other.release();
    }
    buffer &operator=(buffer &&other) noexcept
    {
        buffer moved(std::move(other));

        std::swap(data_, moved.data_);
        std::swap(size_, moved.size_);
        return *this;
    }
    ~buffer()
    {
        (void)warm_free(data_);
    }

    T *data() const noexcept
    {
        return data_;
    }
    std::size_t size() const noexcept
    {
        return size_;
    }
    std::size_t size_bytes() const noexcept
    {
        return size_ * sizeof(T);
    }
    T &operator[](std::size_t i) const noexcept
    {
        return data_[i];
    }
    T *begin() const noexcept
    {
        return data_;
    }
    T *end() const noexcept
    {
        return data_ + size_;
    }
    /* warm_record_stream(): work queued on the stream uses the block. */
    void record(warm_stream on) const
    {
        check(warm_record_stream(data_, on));
    }
    /* The caller owns the block afterwards, and frees it by warm_free(). */
    T *release() noexcept
    {
        size_ = 0;
        return std::exchange(data_, nullptr);
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

namespace detail
{
/* Bytes of n elements; if that overflows, the largest number, which no request
 * can have. */
template <class T> constexpr std::size_t bytes_of(std::size_t n) noexcept
{
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();

    return n > most / sizeof(T) ? most : n * sizeof(T);
}
} // namespace detail

/* Page-locked memory for n elements, by warm_pinned_alloc_on(). */
template <class T>
inline result<buffer<T>> try_pinned(warm_runtime *runtime, std::size_t n,
                                    int node = WARM_NODE_ANY,
                                    unsigned flags = 0)
{
    void *block = nullptr;

    if (warm_pinned_alloc_on(runtime, detail::bytes_of<T>(n), node, flags,
                             &block) != WARM_OK) {
        return last_error();
    }
    return buffer<T>(static_cast<T *>(block), n);
}
template <class T>
inline buffer<T> pinned(warm_runtime *runtime, std::size_t n,
                        int node = WARM_NODE_ANY, unsigned flags = 0)
{
    return try_pinned<T>(runtime, n, node, flags).value();
}

/* Memory of a device for n elements, by warm_device_alloc(). */
template <class T>
inline result<buffer<T>> try_device(warm_runtime *runtime, int device,
                                    warm_stream stream, std::size_t n)
{
    void *block = nullptr;

    if (warm_device_alloc(runtime, device, stream, detail::bytes_of<T>(n),
                          &block) != WARM_OK) {
        return last_error();
    }
    return buffer<T>(static_cast<T *>(block), n);
}
template <class T>
inline buffer<T> device(warm_runtime *runtime, int device, warm_stream stream,
                        std::size_t n)
{
    return try_device<T>(runtime, device, stream, n).value();
}

/* ---- memory resources ---------------------------------------------------- */

namespace detail
{
/* Bytes to which every block is aligned by itself. */
constexpr std::size_t alignment = 512;

/* Converts to a stream of the C interface: a warm_stream, a cudaStream_t, or an
 * object with get(), such as cuda::stream_ref. Numbers are not converted. */
template <class S>
inline auto raw(const S &stream) ->
    typename std::enable_if<std::is_convertible<const S &, warm_stream>::value,
                            warm_stream>::type
{
    return stream;
}
template <class S>
inline auto raw(const S &stream) -> typename std::enable_if<
    !std::is_convertible<const S &, warm_stream>::value &&
        std::is_convertible<decltype(stream.get()), warm_stream>::value,
    warm_stream>::type
{
    return stream.get();
}

/* Page-locked memory, of at least one byte. */
inline void *pinned_block(warm_runtime *runtime, std::size_t bytes,
                          std::size_t align)
{
    std::size_t least = bytes > 0 ? bytes : 1;
    void *block = nullptr;

    check(align <= alignment
              ? warm_pinned_alloc(runtime, least, &block)
              : warm_pinned_alloc_aligned(runtime, least, align, 0, &block));
    return block;
}

/* What memory resources do in the order of a stream. R has take(bytes, align,
 * stream), and runtime_. */
template <class R> class in_order
{
  public:
    template <class S>
    void *allocate_async(std::size_t bytes, std::size_t align, const S &stream)
    {
        return self().take(bytes, align, raw(stream));
    }
    template <class S> void *allocate_async(std::size_t bytes, const S &stream)
    {
        return self().take(bytes, alignof(std::max_align_t), raw(stream));
    }
    template <class S>
    void deallocate_async(void *pointer, std::size_t, std::size_t,
                          const S &stream) noexcept
    {
        free_after(pointer, raw(stream));
    }
    template <class S>
    void deallocate_async(void *pointer, std::size_t, const S &stream) noexcept
    {
        free_after(pointer, raw(stream));
    }
    template <class S, class = decltype(raw(std::declval<S>()))>
    void *allocate(const S &stream, std::size_t bytes,
                   std::size_t align = alignof(std::max_align_t))
    {
        return self().take(bytes, align, raw(stream));
    }
    template <class S, class = decltype(raw(std::declval<S>()))>
    void deallocate(const S &stream, void *pointer, std::size_t,
                    std::size_t = alignof(std::max_align_t)) noexcept
    {
        free_after(pointer, raw(stream));
    }

  private:
    R &self() noexcept
    {
        return static_cast<R &>(*this);
    }
    /* Frees the memory once the work queued on the stream so far has completed:
     * the stream is recorded, or, if that fails, waited for. If both fail the
     * memory leaks. */
    void free_after(void *pointer, warm_stream stream) noexcept
    {
        if (warm_record_stream(pointer, stream) == WARM_OK ||
            warm_stream_synchronize(self().runtime_, stream) == WARM_OK) {
            (void)warm_free(pointer);
        }
    }
};
} // namespace detail

/* Page-locked memory of a runtime: a std::pmr::memory_resource, and a resource
 * of cuda::mr, with allocations in the order of a stream. After a free with a
 * stream the memory is reused once the work queued on the stream so far has
 * completed. A free without a stream must come after all work that uses the
 * memory, unless its streams are recorded (warm_record_stream()). An alignment
 * above WARM_ALIGNMENT_MAX throws. Resources of the same runtime are equal. Any
 * thread. */
class pinned_resource : public std::pmr::memory_resource,
                        public detail::in_order<pinned_resource>
{
  public:
    explicit pinned_resource(warm_runtime *runtime) noexcept : runtime_(runtime)
    {
    }

    using detail::in_order<pinned_resource>::allocate;
    using detail::in_order<pinned_resource>::deallocate;
    using std::pmr::memory_resource::allocate;
    using std::pmr::memory_resource::deallocate;
    void *allocate_sync(std::size_t bytes,
                        std::size_t align = alignof(std::max_align_t))
    {
        return do_allocate(bytes, align);
    }
    void deallocate_sync(void *pointer, std::size_t bytes,
                         std::size_t align = alignof(std::max_align_t)) noexcept
    {
        do_deallocate(pointer, bytes, align);
    }
    bool operator==(const pinned_resource &other) const noexcept
    {
        return runtime_ == other.runtime_;
    }
    bool operator!=(const pinned_resource &other) const noexcept
    {
        return !(*this == other);
    }

  private:
    friend class detail::in_order<pinned_resource>;

    void *take(std::size_t bytes, std::size_t align, warm_stream)
    {
        return do_allocate(bytes, align);
    }
    void *do_allocate(std::size_t bytes, std::size_t align) override
    {
        return detail::pinned_block(runtime_, bytes, align);
    }
    void do_deallocate(void *pointer, std::size_t,
                       std::size_t) noexcept override
    {
        (void)warm_free(pointer);
    }
    /* Without RTTI the other's type is unknown: then a resource is equal only
     * to itself. */
    bool
    do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
#ifdef __cpp_rtti
        const auto *same = dynamic_cast<const pinned_resource *>(&other);

        return same != nullptr && *same == *this;
#else
        return this == &other;
#endif
    }

    warm_runtime *runtime_;
};

/* Memory of a device: a resource of cuda::mr. An allocation without a stream is
 * made in the order of the thread's own pooled stream (warm_stream_reserve()),
 * and waits for that one: any stream may use the memory at once. Its free must
 * come after all work that uses it. An alignment above
 * WARM_ALIGNMENT_MAX throws. Resources of the same runtime and device are
 * equal. Any thread. */
class device_resource : public detail::in_order<device_resource>
{
  public:
    device_resource(warm_runtime *runtime, int device) noexcept
        : runtime_(runtime), device_(device)
    {
    }

    void *allocate_sync(std::size_t bytes,
                        std::size_t align = alignof(std::max_align_t))
    {
        warm_stream mine = nullptr;

        check(warm_stream_reserve(runtime_, device_, &mine));

        void *pointer = take(bytes, align, mine);

        if (warm_stream_synchronize(runtime_, mine) != WARM_OK) {
            const warm_error details = last_error();

            (void)warm_free(pointer);
            raise(details);
        }
        return pointer;
    }
    void deallocate_sync(void *pointer, std::size_t,
                         std::size_t = alignof(std::max_align_t)) noexcept
    {
        (void)warm_free(pointer);
    }
    using detail::in_order<device_resource>::allocate;
    using detail::in_order<device_resource>::deallocate;
    void *allocate(std::size_t bytes,
                   std::size_t align = alignof(std::max_align_t))
    {
        return allocate_sync(bytes, align);
    }
    void deallocate(void *pointer, std::size_t bytes,
                    std::size_t align = alignof(std::max_align_t)) noexcept
    {
        deallocate_sync(pointer, bytes, align);
    }
    bool operator==(const device_resource &other) const noexcept
    {
        return runtime_ == other.runtime_ && device_ == other.device_;
    }
    bool operator!=(const device_resource &other) const noexcept
    {
        return !(*this == other);
    }

  private:
    friend class detail::in_order<device_resource>;

    void *take(std::size_t bytes, std::size_t align, warm_stream stream)
    {
        std::size_t least = bytes > 0 ? bytes : 1;
        void *block = nullptr;

        check(align <= detail::alignment
                  ? warm_device_alloc(runtime_, device_, stream, least, &block)
                  : warm_device_alloc_aligned(runtime_, device_, stream, least,
                                              align, &block));
        return block;
    }

    warm_runtime *runtime_;
    int device_;
};

#ifdef WARMPOOL_CUDA_MR
inline void get_property(const pinned_resource &,
                         ::cuda::mr::host_accessible) noexcept
{
}
inline void get_property(const pinned_resource &,
                         ::cuda::mr::device_accessible) noexcept
{
}
inline void get_property(const device_resource &,
                         ::cuda::mr::device_accessible) noexcept
{
}
#endif

/* An allocator of page-locked memory for containers:
 * std::vector<float, pinned_allocator<float>> v(pinned_allocator(runtime)).
 * What holds for pinned_resource holds here. */
template <class T> class pinned_allocator
{
    static_assert(alignof(T) <= WARM_ALIGNMENT_MAX,
                  "blocks are aligned to 64 MiB at most");

  public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;

    explicit pinned_allocator(warm_runtime *runtime) noexcept
        : runtime_(runtime)
    {
    }
    template <class U>
    pinned_allocator(const pinned_allocator<U> &other) noexcept
        : runtime_(other.runtime())
    {
    }

    T *allocate(std::size_t n)
    {
        return static_cast<T *>(
            detail::pinned_block(runtime_, detail::bytes_of<T>(n), alignof(T)));
    }
    void deallocate(T *pointer, std::size_t) noexcept
    {
        (void)warm_free(pointer);
    }
    warm_runtime *runtime() const noexcept
    {
        return runtime_;
    }
    template <class U>
    bool operator==(const pinned_allocator<U> &other) const noexcept
    {
        return runtime_ == other.runtime();
    }
    template <class U>
    bool operator!=(const pinned_allocator<U> &other) const noexcept
    {
        return !(*this == other);
    }

  private:
    warm_runtime *runtime_;
};

} // namespace warmpool

#endif
