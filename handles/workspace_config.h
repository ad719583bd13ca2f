/* workspace_config.h: the text of CUBLAS_WORKSPACE_CONFIG (row A10). Pure
 * functions; in every build. */
#ifndef WM_WORKSPACE_CONFIG_H
#define WM_WORKSPACE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

/* Reads ":KiB:count[:KiB:count …]" and sums KiB × 1024 × count into *bytes.
 * False, and nothing is written, if the text is anything else or the sum is
 * beyond 1 TiB. ":0:0" is a good text and means no workspace. */
bool wm_workspace_config_parse(const char *text, size_t *bytes);

/* What NVIDIA's documentation of cublasSetWorkspace() recommends for the
 * compute capability: 32 MiB on Hopper (9.x) and data-center Blackwell (10.x),
 * 12 MiB on 12.x, 4 MiB on others. */
size_t wm_workspace_recommended(int compute_major);

#endif
