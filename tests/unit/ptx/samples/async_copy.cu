// nvcc -ptx -arch=sm_80 async_copy.cu
#include <cuda_pipeline.h>

extern "C" __global__ void async_copy(const float4 *in, float4 *out, int tiles)
{
	__shared__ float4 buffer[2][128];
	int lane = threadIdx.x;
	__pipeline_memcpy_async(&buffer[0][lane], &in[lane], 16);
	__pipeline_commit();
#pragma unroll 1
	for (int tile = 0; tile < tiles; tile++) {
		if (tile + 1 < tiles)
			__pipeline_memcpy_async(&buffer[(tile + 1) & 1][lane], &in[(tile + 1) * 128 + lane], 16);
		__pipeline_commit();
		__pipeline_wait_prior(1);
		__syncthreads();
		out[tile * 128 + lane] = buffer[tile & 1][lane ^ 1];
		__syncthreads();
	}
}
