/* misuse.h: every public function, with what each of its arguments is; see
 * check_misuse.c. make lint-symbols fails if one has no line here.
 *
 * S: returns a status. T: that, with a stream: its _ptsz variant too. A:
 * returns an answer, where 0 or null means none; Z: and has no argument. V:
 * returns nothing.
 */
#ifndef MISUSE_H
#define MISUSE_H

#define MISUSE_CALLS(S, T, A, Z, V)                                            \
    /* base.h */                                                               \
    Z(warm_version)                                                            \
    A(warm_status_name, STATUS)                                                \
    A(warm_status_text, STATUS)                                                \
    V(warm_last_error, SOME_ERROR)                                             \
    Z(warm_last_error_message)                                                 \
    /* runtime.h */                                                            \
    S(warm_runtime_create, OPTIONS, NEW_RUNTIME)                               \
    S(warm_runtime_destroy, OWN_RUNTIME, REPORT)                               \
    S(warm_runtime_default, DEFAULT)                                           \
    A(warm_runtime_driver, RUNTIME)                                            \
    S(warm_runtime_options, RUNTIME, TEXT, TEXT_BYTES, MAYBE)                  \
    V(warm_log_set, LOG_FN, CONTEXT)                                           \
    /* handle.h */                                                             \
    S(warm_kind_register, RUNTIME, KIND_OPS, OUT)                              \
    A(warm_kind_name, RUNTIME, KIND)                                           \
    S(warm_kind_library, RUNTIME, KIND, TEXT, TEXT_BYTES)                      \
    S(warm_handle_reserve, RUNTIME, KIND, DEVICE, RESERVED)                    \
    T(warm_handle_reserve_on, RUNTIME, KIND, DEVICE, STREAM, RESERVED)         \
    S(warm_stream_reserve, RUNTIME, DEVICE, RESERVED)                          \
    S(warm_thread_release, RUNTIME)                                            \
    S(warm_handle_lease, RUNTIME, KIND, DEVICE, NEW_LEASE, OUT)                \
    T(warm_handle_lease_on, RUNTIME, KIND, DEVICE, STREAM, NEW_LEASE, OUT)     \
    S(warm_handle_return, RUNTIME, LEASE_TAKEN)                                \
    S(warm_handle_find_lease, RUNTIME, KIND, LEASED, OUT)                      \
    T(warm_lease_bind, RUNTIME, LEASE, STREAM)                                 \
    S(warm_handle_prewarm, RUNTIME, KIND, DEVICE, COUNT, PREWARM_FLAGS)        \
    S(warm_handle_prewarm_wait, RUNTIME)                                       \
    S(warm_handle_prewarm_cancel, RUNTIME)                                     \
    S(warm_handle_trim, RUNTIME, KIND, DEVICE, MANY, MANY, MAYBE)              \
    S(warm_handle_get_stats, RUNTIME, KIND, DEVICE, HANDLE_STATS)              \
    /* device.h */                                                             \
    S(warm_device_count, RUNTIME, OUT)                                         \
    S(warm_device_current, RUNTIME, OUT)                                       \
    S(warm_device_get_info, RUNTIME, DEVICE, DEVICE_INFO)                      \
    S(warm_stream_create, RUNTIME, DEVICE, NEW_STREAM)                         \
    S(warm_stream_destroy, RUNTIME, STREAM_TAKEN)                              \
    T(warm_stream_synchronize, RUNTIME, ANY_STREAM)                            \
    T(warm_stream_query, RUNTIME, ANY_STREAM)                                  \
    T(warm_stream_wait_event, RUNTIME, ANY_STREAM, EVENT)                      \
    T(warm_stream_host_func, RUNTIME, ANY_STREAM, HOST_FN, CONTEXT)            \
    S(warm_event_create, RUNTIME, DEVICE, NEW_EVENT)                           \
    S(warm_event_destroy, RUNTIME, EVENT_TAKEN)                                \
    T(warm_event_record, RUNTIME, EVENT, ANY_STREAM)                           \
    S(warm_event_query, RUNTIME, EVENT)                                        \
    S(warm_event_synchronize, RUNTIME, EVENT)                                  \
    T(warm_capture_begin, RUNTIME, TO_CAPTURE)                                 \
    T(warm_capture_end, RUNTIME, CAPTURING, NEW_GRAPH)                         \
    T(warm_capture_announce, RUNTIME, TO_ANNOUNCE)                             \
    T(warm_capture_announce_end, RUNTIME, ANNOUNCED)                           \
    T(warm_graph_launch, RUNTIME, GRAPH, ANY_STREAM)                           \
    S(warm_graph_destroy, RUNTIME, GRAPH_TAKEN)                                \
    S(warm_device_alloc_uncached, RUNTIME, DEVICE, BYTES, NEW_UNCACHED)        \
    S(warm_device_free_uncached, RUNTIME, DEVICE, UNCACHED)                    \
    /* memory.h */                                                             \
    S(warm_pinned_alloc, RUNTIME, BYTES, NEW_BLOCK)                            \
    S(warm_pinned_alloc_on, RUNTIME, BYTES, NODE, PIN_FLAGS, NEW_BLOCK)        \
    S(warm_pinned_alloc_aligned, RUNTIME, BYTES, ALIGNMENT, PIN_FLAGS,         \
      NEW_BLOCK)                                                               \
    S(warm_pinned_alloc_rows, RUNTIME, BYTES, ROW, NEW_BLOCK)                  \
    S(warm_node_count, RUNTIME, OUT)                                           \
    S(warm_free, BLOCK)                                                        \
    S(warm_free, DEVICE_BLOCK)                                                 \
    S(warm_free, BUFFER_TAKEN)                                                 \
    S(warm_free_deferred, BLOCK)                                               \
    S(warm_free_deferred, DEVICE_BLOCK)                                        \
    S(warm_free_deferred, BUFFER_TAKEN)                                        \
    A(warm_owns, INTO)                                                         \
    A(warm_holds, INTO)                                                        \
    T(warm_record_stream, INTO, STREAM)                                        \
    T(warm_record_stream, INTO_DEVICE, STREAM)                                 \
    T(warm_record_stream, BUFFER, STREAM)                                      \
    T(warm_stream_adopt, RUNTIME, TO_ADOPT)                                    \
    T(warm_stream_retire, RUNTIME, TO_RETIRE)                                  \
    T(warm_copy_async, RUNTIME, COPY_TO, COPY_FROM, COPY_BYTES, DIRECTION,     \
      STREAM)                                                                  \
    T(warm_copy_2d_async, RUNTIME, COPY_TO, PITCH, COPY_FROM, PITCH, WIDTH,    \
      HEIGHT, STREAM)                                                          \
    S(warm_poll, RUNTIME)                                                      \
    S(warm_pinned_trim, RUNTIME, MANY, MAYBE)                                  \
    S(warm_pinned_prewarm, RUNTIME, PREWARM_BYTES, NODE, PREWARM_FLAGS)        \
    S(warm_pinned_prewarm_with, RUNTIME, PREWARM_BYTES, NODE, PREWARM_FLAGS,   \
      PREWARM_OPTIONS)                                                         \
    S(warm_pinned_prewarm_wait, RUNTIME)                                       \
    S(warm_pinned_prewarm_cancel, RUNTIME)                                     \
    S(warm_pinned_prewarm_progress, RUNTIME, OUT, OUT)                         \
    S(warm_memory_callback_add, RUNTIME, CALLBACK)                             \
    S(warm_memory_callback_remove, RUNTIME, CALLBACK_NAME)                     \
    S(warm_block_get_info, INTO, BLOCK_INFO)                                   \
    S(warm_block_get_info, INTO_DEVICE, BLOCK_INFO)                            \
    S(warm_block_get_piece, INTO, PIECE, OUT, OUT)                             \
    /* device_memory.h */                                                      \
    T(warm_device_alloc, RUNTIME, DEVICE, STREAM, BYTES, NEW_BLOCK)            \
    T(warm_device_alloc_aligned, RUNTIME, DEVICE, STREAM, BYTES, ALIGNMENT,    \
      NEW_BLOCK)                                                               \
    S(warm_device_base_allocation, INTO_DEVICE, OUT, OUT)                      \
    S(warm_device_cache_info, RUNTIME, DEVICE, DEVICE_CACHE)                   \
    S(warm_device_get_stats, RUNTIME, DEVICE, DEVICE_STATS)                    \
    S(warm_device_get_histograms, RUNTIME, DEVICE, HISTOGRAMS)                 \
    S(warm_device_reset_peaks, RUNTIME, DEVICE)                                \
    S(warm_device_reset_totals, RUNTIME, DEVICE)                               \
    S(warm_device_trim, RUNTIME, DEVICE, MANY, MAYBE)                          \
    /* shared.h */                                                             \
    S(warm_shared_alloc, RUNTIME, DEVICE, BYTES, USAGE, NEW_BLOCK)             \
    S(warm_shared_alloc_scalar, RUNTIME, DEVICE, SCALAR, SCALAR_BYTES,         \
      NEW_BLOCK)                                                               \
    S(warm_shared_get_info, BUFFER, SHARED_INFO)                               \
    S(warm_shared_retain, TO_USE)                                              \
    S(warm_shared_release, USED)                                               \
    S(warm_shared_free_inactive, RUNTIME, DEVICE, MAYBE)                       \
    S(warm_shared_trim, RUNTIME, DEVICE, MANY, MAYBE)                          \
    S(warm_shared_set_shape, BUFFER, EXTENTS, COUNT)                           \
    S(warm_shared_get_shape, SHAPED, EXTENTS, COUNT, OUT)                      \
    T(warm_shared_record, RUNTIME, BUFFERS, COUNT, STREAM, MAYBE)              \
    S(warm_shared_wait, RUNTIME, BUFFERS, COUNT, MAYBE)                        \
    S(warm_shared_get_stats, RUNTIME, DEVICE, USAGE, SPACE_STATS)              \
    S(warm_shared_get_histograms, RUNTIME, DEVICE, USAGE, HISTOGRAMS)          \
    /* private_pool.h, pause.h */                                              \
    S(warm_private_pool_begin, RUNTIME, TO_BEGIN, POOL_FLAGS, FILTER_FN,       \
      CONTEXT)                                                                 \
    S(warm_private_pool_end, RUNTIME, RECORDING)                               \
    S(warm_private_pool_retain, RUNTIME, TO_RETAIN)                            \
    S(warm_private_pool_release, RUNTIME, POOL_TAKEN)                          \
    S(warm_private_pool_get_info, RUNTIME, POOL, POOL_INFO)                    \
    T(warm_thread_set_stream, RUNTIME, NULL_STREAM)                            \
    S(warm_memory_pause, RUNTIME, TO_PAUSE, PAUSE_FLAGS)                       \
    S(warm_memory_resume, RUNTIME, PAUSED)                                     \
    /* pressure.h */                                                           \
    S(warm_watermarks_get, RUNTIME, MEMORY, WATERMARKS)                        \
    S(warm_watermarks_set, RUNTIME, MEMORY, WATERMARK, WATERMARK)              \
    S(warm_watermarks_set_ratio, RUNTIME, MEMORY, RATIO, RATIO)                \
    S(warm_low_watermark_value, RUNTIME, MEMORY, OUT)                          \
    S(warm_memory_get_totals, RUNTIME, MEMORY, TOTALS)                         \
    S(warm_trim, RUNTIME, MANY, TRIM_REPORT)                                   \
    /* stats.h */                                                              \
    S(warm_pinned_get_stats, RUNTIME, SPACE_STATS)                             \
    S(warm_pinned_get_node_stats, RUNTIME, NODE_INDEX, SPACE_STATS)            \
    S(warm_pinned_get_histograms, RUNTIME, HISTOGRAMS)                         \
    Z(warm_pinned_class_count)                                                 \
    S(warm_pinned_get_class_stats, RUNTIME, CLASS, CLASS_STATS)                \
    S(warm_pinned_reset_peaks, RUNTIME)                                        \
    S(warm_pinned_reset_totals, RUNTIME)                                       \
    S(warm_stats_get, RUNTIME, STATS)                                          \
    S(warm_stats_json, RUNTIME, TEXT, TEXT_BYTES, MAYBE)                       \
    S(warm_stats_prometheus, RUNTIME, TEXT, TEXT_BYTES, MAYBE)                 \
    /* snapshot.h */                                                           \
    S(warm_snapshot_write_html, RUNTIME, PATH)                                 \
    Z(warm_snapshot_page)                                                      \
    S(warm_snapshot_viz, RUNTIME, TEXT, TEXT_BYTES, MAYBE)                     \
    S(warm_memory_tag_set, TAG)                                                \
    Z(warm_memory_tag_get)                                                     \
    /* storage.h */                                                            \
    A(warm_memory_name, A_MEMORY)                                              \
    V(warm_data_pointer_free, DATA_TAKEN)                                      \
    S(warm_data_pointer_move_context, DATA, OUT, OUT)                          \
    S(warm_allocator_get, RUNTIME, MEMORY_KIND, DEVICE, OUT)                   \
    S(warm_allocator_register, RUNTIME, NEW_ALLOCATOR, NUMBER)                 \
    S(warm_allocator_unregister, RUNTIME, REGISTERED)                          \
    T(warm_data_pointer_alloc, ALLOCATOR, BYTES, STREAM, NEW_DATA)             \
    T(warm_data_pointer_clone, RUNTIME, ALLOCATOR, COPY_FROM, COPY_BYTES,      \
      STREAM, NEW_DATA)                                                        \
    T(warm_allocator_alloc, ALLOCATOR, BYTES, STREAM, NEW_BLOCK)               \
    S(warm_allocator_free, ALLOCATOR, DEVICE_BLOCK)                            \
    T(warm_storage_create, ALLOCATOR, BYTES, STREAM, NEW_STORAGE)              \
    S(warm_storage_wrap, DATA_TAKEN, COPY_BYTES, ALLOCATOR_OR_NULL,            \
      NEW_STORAGE)                                                             \
    V(warm_storage_retain, TO_REFER)                                           \
    V(warm_storage_release, STORAGE_TAKEN)                                     \
    V(warm_storage_weak_retain, TO_REFER_WEAKLY)                               \
    V(warm_storage_weak_release, STORAGE_WEAK)                                 \
    A(warm_storage_lock, TO_REFER)                                             \
    A(warm_storage_use_count, STORAGE)                                         \
    A(warm_storage_weak_count, STORAGE)                                        \
    S(warm_storage_get_info, STORAGE, STORAGE_INFO)                            \
    A(warm_storage_data, STORAGE)                                              \
    T(warm_storage_record, STORAGE, STREAM)                                    \
    S(warm_storage_exchange, STORAGE, DATA, COPY_BYTES)                        \
    /* staging.h */                                                            \
    S(warm_staging_create, RUNTIME, DEVICE, STAGING_OPTIONS, NEW_RING)         \
    T(warm_staging_copy, RING, COPY_TO, HOST_BYTES, COPY_BYTES, DIRECTION,     \
      STREAM, STAGING_FLAGS)                                                   \
    S(warm_staging_flush, RING)                                                \
    S(warm_staging_finish, RING)                                               \
    S(warm_staging_get_stats, RING, STAGING_STATS)                             \
    S(warm_staging_destroy, RING_TAKEN)                                        \
    /* adopt.h, ipc.h */                                                       \
    S(warm_pinned_adopt, RUNTIME, MAPPED, MAPPED_BYTES, ADOPT_FLAGS)           \
    S(warm_pinned_adopt_end, RUNTIME, ADOPTED, DONE_FN, CONTEXT)               \
    S(warm_ipc_export, INTO_DEVICE, IPC_OUT)                                   \
    S(warm_ipc_open, RUNTIME, IPC_HANDLE, NEW_IMPORT)                          \
    S(warm_ipc_close, RUNTIME, IMPORT)                                         \
    S(warm_ipc_get_stats, RUNTIME, IPC_STATS)                                  \
    /* options.h, testing.h */                                                 \
    A(warm_options_help, TEXT, TEXT_BYTES)                                     \
    S(warm_testing_fail, RUNTIME, CALL_NAME, ZERO, NUMBER)                     \
    S(warm_testing_calls, RUNTIME, CALL_NAME, OUT)                             \
    A(warm_testing_call_name, NUMBER)                                          \
    T(warm_testing_hold, RUNTIME, TO_HOLD)                                     \
    T(warm_testing_step, RUNTIME, HELD, COUNT)                                 \
    T(warm_testing_resume, RUNTIME, HELD)                                      \
    S(warm_testing_check, RUNTIME, NUMBER)                                     \
    V(warm_testing_fail_metadata, ZERO, NUMBER)                                \
    V(warm_testing_metadata, MAYBE, MAYBE)                                     \
    V(warm_testing_set_clock, CLOCK_FN)                                        \
    T(warm_testing_capture_begin, RUNTIME, TO_TEST_CAPTURE)                    \
    T(warm_testing_capture_end, RUNTIME, TEST_CAPTURING, NEW_GRAPH)            \
    T(warm_testing_copy, RUNTIME, COPY_TO, COPY_FROM, PLAIN_BYTES, STREAM)

#endif
