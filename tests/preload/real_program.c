/* real_program.c: what CUDA's libraries answer where there is no GPU (row H1).
 * With the real ones, whose functions call each other in ways of their own. */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <cusolverDn.h>
#include <cusparse.h>

#include <stdio.h>

#define SAY(call) printf("%s: %d\n", #call, (int)(call))

int main(void)
{
    cublasHandle_t blas = NULL;
    cublasLtHandle_t lt = NULL;
    cudnnHandle_t dnn = NULL;
    cusparseHandle_t sparse = NULL;
    cusolverDnHandle_t solver = NULL;
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    void *block = NULL;

    for (int i = 0; i < 2; i++) {
        SAY(cudaMalloc(&block, 1));
        SAY(cudaMallocAsync(&block, 1, NULL));
        SAY(cudaHostAlloc(&block, 1, cudaHostAllocDefault));
        SAY(cudaMallocHost(&block, 1));
        SAY(cudaFree(NULL));
        SAY(cudaFreeHost(NULL));
        SAY(cudaStreamCreate(&stream));
        SAY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        SAY(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeRelaxed));
        SAY(cudaStreamEndCapture(NULL, &graph));
        SAY(cudaDeviceReset());
        SAY(cublasCreate(&blas));
        SAY(cublasSetStream(NULL, NULL));
        SAY(cublasDestroy(NULL));
        SAY(cublasLtCreate(&lt));
        SAY(cudnnCreate(&dnn));
        SAY(cudnnSetStream(NULL, NULL));
        SAY(cusparseCreate(&sparse));
        SAY(cusparseSetStream(NULL, NULL));
        SAY(cusolverDnCreate(&solver));
    }
    return 0;
}
