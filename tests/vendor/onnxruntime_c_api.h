/* onnxruntime_c_api.h: the part of ONNX Runtime's C interface that the header
 * warmpool/onnxruntime.h and its tests use, restated, since the packages that
 * these tests run against have no header. Tables of functions are append-only;
 * a gap stands for the functions between, and ORT_AT checks the place. With
 * ORT_API_VERSION defined before it is the interface of that version. */
#ifndef WT_ONNXRUNTIME_C_API_H
#define WT_ONNXRUNTIME_C_API_H

#include <stddef.h>
#include <stdint.h>

#ifndef ORT_API_VERSION
#define ORT_API_VERSION 25
#endif
#define ORT_API_CALL

#ifdef __cplusplus
#define NO_EXCEPTION noexcept
#define ORT_ASSERT   static_assert
extern "C" {
#else
#define NO_EXCEPTION
#define ORT_ASSERT _Static_assert
#endif

typedef struct OrtEnv OrtEnv;
typedef struct OrtStatus OrtStatus;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtSession OrtSession;
typedef struct OrtValue OrtValue;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtSyncStream OrtSyncStream;

typedef enum OrtErrorCode {
    ORT_OK,
    ORT_FAIL,
    ORT_INVALID_ARGUMENT
} OrtErrorCode;
typedef enum OrtLoggingLevel { ORT_LOGGING_LEVEL_ERROR = 3 } OrtLoggingLevel;
typedef enum OrtAllocatorType { OrtDeviceAllocator } OrtAllocatorType;
typedef enum OrtMemType {
    OrtMemTypeCPUOutput = -1,
    OrtMemTypeDefault = 0
} OrtMemType;
typedef enum ONNXTensorElementDataType {
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1
} ONNXTensorElementDataType;

typedef struct OrtAllocator {
    uint32_t version;
    void *(ORT_API_CALL *Alloc)(struct OrtAllocator *, size_t);
    void(ORT_API_CALL *Free)(struct OrtAllocator *, void *);
    const OrtMemoryInfo *(ORT_API_CALL *Info)(const struct OrtAllocator *);
#if ORT_API_VERSION >= 18
    void *(ORT_API_CALL *Reserve)(struct OrtAllocator *, size_t);
#endif
#if ORT_API_VERSION >= 23
    OrtStatus *(ORT_API_CALL *GetStats)(const struct OrtAllocator *,
                                        OrtKeyValuePairs **)NO_EXCEPTION;
    void *(ORT_API_CALL *AllocOnStream)(struct OrtAllocator *, size_t,
                                        OrtSyncStream *);
#endif
#if ORT_API_VERSION >= 25
    OrtStatus *(ORT_API_CALL *Shrink)(struct OrtAllocator *)NO_EXCEPTION;
#endif
} OrtAllocator;

/* Functions between two that are used: they are not called. */
typedef void (*wt_ort_gap)(void);

typedef struct OrtApi {
    OrtStatus *(*CreateStatus)(OrtErrorCode, const char *)NO_EXCEPTION;
    wt_ort_gap before_2[1];
    const char *(*GetErrorMessage)(const OrtStatus *)NO_EXCEPTION;
    OrtStatus *(*CreateEnv)(OrtLoggingLevel, const char *,
                            OrtEnv **)NO_EXCEPTION;
    wt_ort_gap before_8[4];
    OrtStatus *(*CreateSessionFromArray)(const OrtEnv *, const void *, size_t,
                                         const OrtSessionOptions *,
                                         OrtSession **)NO_EXCEPTION;
    OrtStatus *(*Run)(OrtSession *, const OrtRunOptions *, const char *const *,
                      const OrtValue *const *, size_t, const char *const *,
                      size_t, OrtValue **)NO_EXCEPTION;
    OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **)NO_EXCEPTION;
    wt_ort_gap before_24[13];
    OrtStatus *(*SetIntraOpNumThreads)(OrtSessionOptions *, int)NO_EXCEPTION;
    wt_ort_gap before_48[23];
    OrtStatus *(*CreateTensorAsOrtValue)(OrtAllocator *, const int64_t *,
                                         size_t, ONNXTensorElementDataType,
                                         OrtValue **)NO_EXCEPTION;
    wt_ort_gap before_51[2];
    OrtStatus *(*GetTensorMutableData)(OrtValue *, void **)NO_EXCEPTION;
    wt_ort_gap before_68[16];
    OrtStatus *(*CreateMemoryInfo)(const char *, OrtAllocatorType, int,
                                   OrtMemType, OrtMemoryInfo **)NO_EXCEPTION;
    wt_ort_gap before_92[23];
    void (*ReleaseEnv)(OrtEnv *) NO_EXCEPTION;
    void (*ReleaseStatus)(OrtStatus *) NO_EXCEPTION;
    void (*ReleaseMemoryInfo)(OrtMemoryInfo *) NO_EXCEPTION;
    void (*ReleaseSession)(OrtSession *) NO_EXCEPTION;
    void (*ReleaseValue)(OrtValue *) NO_EXCEPTION;
    wt_ort_gap before_100[3];
    void (*ReleaseSessionOptions)(OrtSessionOptions *) NO_EXCEPTION;
    wt_ort_gap before_130[29];
    OrtStatus *(*AddSessionConfigEntry)(OrtSessionOptions *, const char *,
                                        const char *)NO_EXCEPTION;
    wt_ort_gap before_176[45];
    OrtStatus *(*RegisterAllocator)(OrtEnv *, OrtAllocator *)NO_EXCEPTION;
    OrtStatus *(*UnregisterAllocator)(OrtEnv *,
                                      const OrtMemoryInfo *)NO_EXCEPTION;
    wt_ort_gap before_295[117];
    void (*CreateKeyValuePairs)(OrtKeyValuePairs **);
    void (*AddKeyValuePair)(OrtKeyValuePairs *, const char *, const char *);
    const char *(*GetKeyValue)(const OrtKeyValuePairs *, const char *);
    wt_ort_gap before_300[2];
    void (*ReleaseKeyValuePairs)(OrtKeyValuePairs *) NO_EXCEPTION;
    wt_ort_gap before_319[18];
    OrtStatus *(*AllocatorGetStats)(const OrtAllocator *,
                                    OrtKeyValuePairs **)NO_EXCEPTION;
    wt_ort_gap before_376[56];
    OrtStatus *(*GetSharedAllocator)(OrtEnv *, const OrtMemoryInfo *,
                                     OrtAllocator **)NO_EXCEPTION;
    wt_ort_gap before_384[7];
    void *(*SyncStream_GetHandle)(OrtSyncStream *)NO_EXCEPTION;
} OrtApi;

#define ORT_AT(place, function)                                                \
    ORT_ASSERT(offsetof(OrtApi, function) == (place) * sizeof(wt_ort_gap),     \
               #function " stands elsewhere")
ORT_AT(2, GetErrorMessage);
ORT_AT(8, CreateSessionFromArray);
ORT_AT(24, SetIntraOpNumThreads);
ORT_AT(48, CreateTensorAsOrtValue);
ORT_AT(51, GetTensorMutableData);
ORT_AT(68, CreateMemoryInfo);
ORT_AT(92, ReleaseEnv);
ORT_AT(100, ReleaseSessionOptions);
ORT_AT(130, AddSessionConfigEntry);
ORT_AT(176, RegisterAllocator);
ORT_AT(295, CreateKeyValuePairs);
ORT_AT(300, ReleaseKeyValuePairs);
ORT_AT(319, AllocatorGetStats);
ORT_AT(376, GetSharedAllocator);
ORT_AT(384, SyncStream_GetHandle);

typedef struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version)NO_EXCEPTION;
    const char *(*GetVersionString)(void)NO_EXCEPTION;
} OrtApiBase;

const OrtApiBase *OrtGetApiBase(void) NO_EXCEPTION;

#ifdef __cplusplus
}
#endif
#endif
