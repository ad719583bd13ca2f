/* warmpool/warmpool.h: the whole interface but for the typed handle helpers,
 * which include their vendor's header (warmpool/cublas.h and its neighbours).
 */
#ifndef WARMPOOL_WARMPOOL_H
#define WARMPOOL_WARMPOOL_H

#include "warmpool/base.h"
#include "warmpool/options.h"
#include "warmpool/runtime.h"
#include "warmpool/device.h"
#include "warmpool/device_memory.h"
#include "warmpool/handle.h"
#include "warmpool/ipc.h"
#include "warmpool/memory.h"
#include "warmpool/private_pool.h"
#include "warmpool/snapshot.h"
#include "warmpool/stats.h"
#include "warmpool/storage.h"
#include "warmpool/testing.h"

#endif
