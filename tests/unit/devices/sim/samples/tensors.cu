// Bulk copies by tensor maps: nvcc -arch=sm_90 -std=c++17 -ptx tensors.cu
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/ptx>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace ptx = cuda::ptx;
extern __shared__ __align__(1024) unsigned char tile[];

// Copies a box to shared memory, and its bytes from there to `out`. Returns in out[bytes] whether the barrier had completed.
template <int axes> __device__ void load(const CUtensorMap &map, const int *at, unsigned char *out, int bytes)
{
#pragma nv_diag_suppress static_var_with_dynamic_init
	__shared__ barrier bar;
	int place[axes];
	for (int i = 0; i < axes; i++) place[i] = at[i];
	if (threadIdx.x == 0) {
		init(&bar, blockDim.x);
		ptx::fence_proxy_async(ptx::space_shared);
	}
	__syncthreads();
	barrier::arrival_token token;
	if (threadIdx.x == 0) {
		auto *native = cuda::device::barrier_native_handle(bar);
		ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &map, place, native);
		token = cuda::device::barrier_arrive_tx(bar, 1, bytes);
	} else {
		token = bar.arrive();
	}
	bar.wait(std::move(token));
	for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = tile[i];
}

// Copies the bytes of `in` to shared memory, and from there to the box.
template <int axes> __device__ void store(const CUtensorMap &map, const int *at, const unsigned char *in, int bytes)
{
	int place[axes];
	for (int i = 0; i < axes; i++) place[i] = at[i];
	for (int i = threadIdx.x; i < bytes; i += blockDim.x) tile[i] = in[i];
	ptx::fence_proxy_async(ptx::space_shared);
	__syncthreads();
	if (threadIdx.x == 0) {
		ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &map, place, tile);
		ptx::cp_async_bulk_commit_group();
		ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
	}
}

#define KERNELS(axes) \
	extern "C" __global__ void load##axes(const __grid_constant__ CUtensorMap map, const int *at, unsigned char *out, \
					      int bytes) { load<axes>(map, at, out, bytes); } \
	extern "C" __global__ void store##axes(const __grid_constant__ CUtensorMap map, const int *at, \
					       const unsigned char *in, int bytes) { store<axes>(map, at, in, bytes); }
KERNELS(1)
KERNELS(2)
KERNELS(3)
KERNELS(4)
KERNELS(5)
