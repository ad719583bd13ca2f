/* warmpool/per_thread.h: what a null stream means in code that was built with
 * nvcc --default-stream per-thread, or with CUDA_API_PER_THREAD_DEFAULT_STREAM
 * defined. Included by base.h; programs call none of the _ptsz names directly.
 *
 * In such code CUDA's headers map function names to variants for which a null
 * stream is the default stream of the calling thread. This header does the
 * same: every function with a parameter stream, except warm_stream_destroy(),
 * has a variant whose name ends in _ptsz, as CUDA's do. A program may mix code
 * of both sorts. As in CUDA the macro must be defined before the first header,
 * and applies to the code that contains the call: a library that calls warmpool
 * on behalf of such code has to be built with the macro too.
 */
#ifndef WARMPOOL_PER_THREAD_H
#define WARMPOOL_PER_THREAD_H

/* WARM_STREAM_DEFAULT: the stream that null means in the code that uses it. */
#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define WARM_STREAM_DEFAULT WARM_STREAM_LEGACY
#else
#define WARM_STREAM_DEFAULT        WARM_STREAM_PER_THREAD
#define warm_allocator_alloc       warm_allocator_alloc_ptsz
#define warm_capture_announce      warm_capture_announce_ptsz
#define warm_capture_announce_end  warm_capture_announce_end_ptsz
#define warm_capture_begin         warm_capture_begin_ptsz
#define warm_capture_end           warm_capture_end_ptsz
#define warm_copy_async            warm_copy_async_ptsz
#define warm_copy_2d_async         warm_copy_2d_async_ptsz
#define warm_data_pointer_alloc    warm_data_pointer_alloc_ptsz
#define warm_data_pointer_clone    warm_data_pointer_clone_ptsz
#define warm_device_alloc          warm_device_alloc_ptsz
#define warm_device_alloc_aligned  warm_device_alloc_aligned_ptsz
#define warm_event_record          warm_event_record_ptsz
#define warm_graph_launch          warm_graph_launch_ptsz
#define warm_handle_lease_on       warm_handle_lease_on_ptsz
#define warm_handle_reserve_on     warm_handle_reserve_on_ptsz
#define warm_lease_bind            warm_lease_bind_ptsz
#define warm_record_stream         warm_record_stream_ptsz
#define warm_shared_record         warm_shared_record_ptsz
#define warm_staging_copy          warm_staging_copy_ptsz
#define warm_storage_create        warm_storage_create_ptsz
#define warm_storage_record        warm_storage_record_ptsz
#define warm_stream_adopt          warm_stream_adopt_ptsz
#define warm_stream_host_func      warm_stream_host_func_ptsz
#define warm_stream_query          warm_stream_query_ptsz
#define warm_stream_retire         warm_stream_retire_ptsz
#define warm_stream_synchronize    warm_stream_synchronize_ptsz
#define warm_stream_wait_event     warm_stream_wait_event_ptsz
#define warm_testing_capture_begin warm_testing_capture_begin_ptsz
#define warm_testing_capture_end   warm_testing_capture_end_ptsz
#define warm_testing_copy          warm_testing_copy_ptsz
#define warm_testing_hold          warm_testing_hold_ptsz
#define warm_testing_resume        warm_testing_resume_ptsz
#define warm_testing_step          warm_testing_step_ptsz
#define warm_thread_set_stream     warm_thread_set_stream_ptsz
#endif

#endif
