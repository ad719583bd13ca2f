/* builtin.h: the kinds that every runtime has. */
#ifndef WM_BUILTIN_H
#define WM_BUILTIN_H

#include "handles/kind.h"
#include "warmpool/handle.h"

/* The built-in kinds. Each exists in every build and on every driver; where
 * it cannot work its create says why (UNSUPPORTED: left out of this build;
 * UNAVAILABLE: needs CUDA, or the library is missing, named). */
extern const wm_kind_ops wm_kind_stream;
extern const wm_kind_ops wm_kind_cublas;
extern const wm_kind_ops wm_kind_cublaslt;
extern const wm_kind_ops wm_kind_cudnn;
extern const wm_kind_ops wm_kind_cusparse;
extern const wm_kind_ops wm_kind_cusolver;
extern const wm_kind_ops wm_kind_onednn;

/* All of them, by warm_kind. */
extern const wm_kind_ops *const wm_kinds_builtin[WARM_KIND_BUILTIN];

#endif
