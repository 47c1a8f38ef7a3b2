// Bulk copies that complete on barriers, with libcu++: nvcc -arch=sm_90 -std=c++17 -ptx pipelines.cu
#include <cuda/barrier>
#include <cuda/ptx>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace ptx = cuda::ptx;
extern "C" __global__ void staged(const int *in, int *out, int tiles)
{
	__shared__ alignas(16) int tile[2][128];
	#pragma nv_diag_suppress static_var_with_dynamic_init
	__shared__ barrier full[2];
	if (threadIdx.x == 0) { init(&full[0], 64); init(&full[1], 64); ptx::fence_proxy_async(ptx::space_shared); }
	__syncthreads();
	for (int t = 0; t < tiles; t++) {
		barrier::arrival_token token;
		if (threadIdx.x == 0) {
			cuda::device::memcpy_async_tx(tile[t % 2], in + (blockIdx.x * tiles + t) * 128, cuda::aligned_size_t<16>(512), full[t % 2]);
			token = cuda::device::barrier_arrive_tx(full[t % 2], 1, 512);
		} else
			token = full[t % 2].arrive();
		full[t % 2].wait(std::move(token));
		out[(blockIdx.x * tiles + t) * 128 + threadIdx.x] = tile[t % 2][127 - threadIdx.x];
		out[(blockIdx.x * tiles + t) * 128 + 64 + threadIdx.x] = 2 * tile[t % 2][63 - threadIdx.x];
		__syncthreads();
	}
}
