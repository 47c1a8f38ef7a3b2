// Cooperative groups of several warps, which use reserved shared memory: nvcc -arch=sm_80 -std=c++17 -ptx tiles.cu
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

// Each tile of 64 threads adds its numbers, twice; every thread gets the sum of its tile.
extern "C" __global__ void sums(const int *in, int *out)
{
	__shared__ int staged[256];
	cg::thread_block block = cg::this_thread_block();
	auto tile = cg::tiled_partition<64>(block);
	staged[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
	int first = cg::reduce(tile, staged[threadIdx.x], cg::plus<int>());
	tile.sync();
	int second = cg::reduce(tile, staged[threadIdx.x ^ 1] + first, cg::plus<int>());
	out[blockIdx.x * blockDim.x + threadIdx.x] = second;
}
