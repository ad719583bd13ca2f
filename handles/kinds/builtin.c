/* builtin.c: the table of built-in kinds (builtin.h). */
#include "handles/kinds/builtin.h"

const wm_kind_ops *const wm_kinds_builtin[WARM_KIND_BUILTIN] = {
    [WARM_KIND_STREAM] = &wm_kind_stream,
    [WARM_KIND_CUBLAS] = &wm_kind_cublas,
    [WARM_KIND_CUBLASLT] = &wm_kind_cublaslt,
    [WARM_KIND_CUDNN] = &wm_kind_cudnn,
    [WARM_KIND_CUSPARSE] = &wm_kind_cusparse,
    [WARM_KIND_CUSOLVER] = &wm_kind_cusolver,
    [WARM_KIND_ONEDNN] = &wm_kind_onednn,
};
