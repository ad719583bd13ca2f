/* builtin.h: the kinds of every runtime. */
#ifndef WM_BUILTIN_H
#define WM_BUILTIN_H

#include "handles/kind.h"
#include "warmpool/handle.h"

/* The built-in kinds. Each exists in every build and on every driver; where it
 * cannot work, its create fails: UNSUPPORTED (built without it), UNAVAILABLE
 * (no CUDA, or the named library is missing). */
extern const wm_kind_ops wm_kind_stream;
extern const wm_kind_ops wm_kind_cublas;
extern const wm_kind_ops wm_kind_cublaslt;
extern const wm_kind_ops wm_kind_cudnn;
extern const wm_kind_ops wm_kind_cusparse;
extern const wm_kind_ops wm_kind_cusolver;
extern const wm_kind_ops wm_kind_onednn;

/* Indexed by warm_kind. */
extern const wm_kind_ops *const wm_kinds_builtin[WARM_KIND_BUILTIN];

#endif
