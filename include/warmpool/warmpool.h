/* warmpool/warmpool.h: the whole interface except the typed handle helpers
 * (warmpool/cublas.h, warmpool/cudnn.h and so on) and what other engines call
 * (warmpool/onnxruntime.h, warmpool/ggml.h): these include their vendor's
 * header.
 */
#ifndef WARMPOOL_WARMPOOL_H
#define WARMPOOL_WARMPOOL_H

#include "warmpool/base.h"
#include "warmpool/adopt.h"
#include "warmpool/options.h"
#include "warmpool/runtime.h"
#include "warmpool/device.h"
#include "warmpool/device_memory.h"
#include "warmpool/handle.h"
#include "warmpool/ipc.h"
#include "warmpool/memory.h"
#include "warmpool/pause.h"
#include "warmpool/pressure.h"
#include "warmpool/private_pool.h"
#include "warmpool/shared.h"
#include "warmpool/snapshot.h"
#include "warmpool/staging.h"
#include "warmpool/stats.h"
#include "warmpool/storage.h"
#include "warmpool/testing.h"

#endif
