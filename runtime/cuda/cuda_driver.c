/* cuda_driver.c: opens the CUDA driver and describes its devices. */
#include "runtime/cuda/cuda.h"

#include "runtime/base/meta.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <string.h>

#if WM_HAVE_CUDA

/* A device attribute by number: older headers lack its name. */
enum { ATTRIBUTE_HOST_NUMA_ID = 134 };

static int attribute(wm_cuda *c, int device, int which, int otherwise)
{
    int value = otherwise;

    if (c->cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)which, device) !=
        CUDA_SUCCESS) {
        value = otherwise;
    }
    return value;
}

int wm_cuda_compute_major(wm_driver *d, int device)
{
    return attribute(wm_cuda_of(d), device,
                     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
}

/* The node next to a device. If the driver does not know the attribute, the
 * device's PCI address gives the node. Makes no context. */
static int node_near(wm_cuda *c, int device)
{
    int node = attribute(c, device, ATTRIBUTE_HOST_NUMA_ID, WM_NODE_UNKNOWN);
    char bus_id[32] = "";

    if (node == WM_NODE_UNKNOWN &&
        c->cu.cuDeviceGetPCIBusId(bus_id, sizeof bus_id, device) ==
            CUDA_SUCCESS) {
        node = wm_numa_of_pci(bus_id);
    }
    return node;
}

/* As GH200 and GB200 do. */
static bool uses_host_tables(wm_cuda *c, int device)
{
    int which =
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;

    return attribute(c, device, which, 0) != 0;
}

warm_status wm_cuda_maps_host(wm_driver *d, int device, bool *maps)
{
    *maps = attribute(wm_cuda_of(d), device,
                      CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 0) != 0;
    return WARM_OK;
}

warm_status wm_cuda_managed_support(wm_driver *d, int device,
                                    wm_managed *support)
{
    wm_cuda *c = wm_cuda_of(d);

    if (attribute(c, device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                  0) == 0) {
        *support = WM_MANAGED_NONE;
    } else if (uses_host_tables(c, device)) {
        *support = WM_MANAGED_BETTER;
    } else {
        *support = WM_MANAGED_WORKS;
    }
    return WARM_OK;
}

/* Whether a device reads pageable memory through the host's page tables: there
 * cuMemHostRegister() page-locks nothing, as its header says, and registered
 * memory is visible to every device. */
static bool register_locks(wm_cuda *c)
{
    int device = 0;

    while (device < c->base.devices && !uses_host_tables(c, device)) {
        device++;
    }
    return device == c->base.devices;
}

/* Whether the attribute is set on each device. */
static bool all_have(wm_cuda *c, int which, int otherwise)
{
    int device = 0;

    while (device < c->base.devices &&
           attribute(c, device, which, otherwise) != 0) {
        device++;
    }
    return device == c->base.devices;
}

/* Distributes devices over simulated nodes, as the host device does. */
static void find_nodes(wm_cuda *c, const wm_options *options)
{
    wm_numa *numa = &c->base.numa;

    wm_numa_open(numa, (unsigned)options->numa_nodes);
    for (int i = 0; i < c->base.devices; i++) {
        wm_driver_set_device_node(
            &c->base, i, numa->simulated ? i % numa->nodes : node_near(c, i));
    }
}

/* Uses libcuda: none of these calls makes a context. */
warm_status wm_cuda_device_info(wm_driver *d, int device,
                                warm_device_info *info)
{
    wm_cuda *c = wm_cuda_of(d);
    warm_device_info found = {.size = info->size};
    size_t total = 0, available = 0;
    warm_status status = WM_CUDA_RESULT(c, cuDeviceGetName, found.name,
                                        sizeof found.name, device);

    if (status == WARM_OK &&
        (status = WM_CUDA_RESULT(c, cuDeviceTotalMem_v2, &total, device)) ==
            WARM_OK &&
        !wm_driver_is_lost(d, device) && wm_cuda_active(c, device)) {
        status = wm_cuda_device_memory(d, device, &available, &total);
    }
    if (status != WARM_OK) {
        return status;
    }
    found.total_bytes = total;
    found.free_bytes = available;
    found.compute_major = wm_cuda_compute_major(d, device);
    found.compute_minor =
        attribute(c, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    found.host_memory =
        attribute(c, device, CU_DEVICE_ATTRIBUTE_INTEGRATED, 0) != 0 ||
        uses_host_tables(c, device);
    found.numa_node = d->numa.simulated ? wm_driver_device_node(d, device)
                                        : node_near(c, device);
    *info = found;
    return WARM_OK;
}

/* The process keeps its references to the contexts: see cuda.h. */
static void close_driver(wm_driver *d, uint64_t *dropped)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_shifted *next;

    *dropped = 0;
    /* Memory that CUDA failed to free is leaked. */
    for (wm_cuda_shifted *s =
             atomic_load_explicit(&c->shifted, memory_order_relaxed);
         s != NULL; s = next) {
        next = s->next;
        wm_meta_free(s);
    }
    wm_cuda_homes_fini(&c->homes);
    wm_meta_free(c);
}

static const wm_driver_ops cuda_ops = {
#define OP(name, parameters, arguments, on) .name = wm_cuda_##name,
    WM_DRIVER_CALLS(OP)
#undef OP
        .close = close_driver,
    .look = wm_cuda_look,
    .is_unchanged = wm_cuda_is_unchanged,
    .notice = wm_cuda_notice,
    .home = wm_cuda_home,
    .has_default = wm_cuda_has_default,
    .enter = wm_cuda_enter_device,
    .leave = wm_cuda_leave_device,
};

bool wm_cuda_is(const wm_driver *d)
{
    return d->ops == &cuda_ops;
}

int wm_cuda_major(const wm_driver *d)
{
    return ((const wm_cuda *)d)->version / 1000;
}

const char *wm_cuda_file(const wm_driver *d)
{
    return ((const wm_cuda *)d)->file;
}

/* Copies the driver to one with room for all devices. */
static warm_status keep(const wm_cuda *loaded, wm_cuda **kept)
{
    size_t devices = (size_t)loaded->base.devices;
    wm_cuda *c = wm_meta_alloc(sizeof *c + devices * sizeof c->primary[0]);

    if (c == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for the CUDA driver");
    }
    c->rt = loaded->rt;
    c->cu = loaded->cu;
    c->version = loaded->version;
    memcpy(c->file, loaded->file, sizeof c->file);
    wm_lock_init(&c->shifted_lock, WM_RANK_DRIVER);
    wm_cuda_homes_init(&c->homes);
    *kept = c;
    return WARM_OK;
}

warm_status wm_cuda_open(const wm_options *options, wm_driver **d)
{
    wm_cuda loaded = {0};
    wm_cuda *c = NULL;
    warm_status status = wm_cuda_load(options, &loaded);

    if (status == WARM_OK && (status = keep(&loaded, &c)) == WARM_OK) {
        wm_driver_init(&c->base, &cuda_ops, "cuda", loaded.base.devices);
        /* So that our exit handler runs before cudart's and libcuda's. */
        wm_process_exit_after(*(void **)(void *)&c->rt.cudaGetDevice);
        find_nodes(c, options);
        c->base.registers =
            all_have(c, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1);
        c->base.same_addresses = all_have(
            c, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0);
        c->base.register_locks = c->base.registers && register_locks(c);
        c->base.breaks_captures = true;
        *d = &c->base;
    }
    return status;
}

#else

bool wm_cuda_is(const wm_driver *d)
{
    (void)d;
    return false;
}

int wm_cuda_major(const wm_driver *d)
{
    (void)d;
    return 0;
}

const char *wm_cuda_file(const wm_driver *d)
{
    (void)d;
    return "";
}

int wm_cuda_compute_major(wm_driver *d, int device)
{
    (void)d;
    (void)device;
    return 0;
}

warm_status wm_cuda_open(const wm_options *options, wm_driver **d)
{
    (void)options;
    (void)d;
    return wm_fail(WARM_UNSUPPORTED, "warmpool was built without CUDA");
}
#endif
