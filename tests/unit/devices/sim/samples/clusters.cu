// Memory allocated in kernels, and clusters of one block: nvcc -arch=sm_90 -std=c++17 -ptx clusters.cu
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
struct node { int value; node *next; };

// Each thread builds a list of `count` nodes, sums it, and frees it; one list in `keep` outlives the kernel.
extern "C" __global__ void lists(int *out, node **keep, int count)
{
	int me = blockIdx.x * blockDim.x + threadIdx.x;
	node *head = nullptr;
	for (int i = 0; i < count; i++) {
		node *one = new node{me + i, head};
		if (!one) { out[me] = -1; return; }
		head = one;
	}
	int sum = 0;
	for (node *at = head; at; at = at->next) sum += at->value;
	out[me] = sum;
	if (me == 3) { *keep = head; return; }
	while (head) { node *gone = head; head = head->next; delete gone; }
}
extern "C" __global__ void follow(node **keep, int *out)
{
	int sum = 0;
	for (node *at = *keep; at; at = at->next) sum += at->value;
	*out = sum;
}
extern "C" __global__ void allocate(void **out, long size) { out[threadIdx.x] = malloc(size); }
extern "C" __global__ void release(void **pointers) { free(pointers[threadIdx.x]); }
extern "C" __global__ void past_the_end(int *out)
{
	int *memory = (int *)malloc(4 * (threadIdx.x + 1));
	*out = memory[threadIdx.x < 7 ? threadIdx.x : 8];
}

// Threads exchange values through the cluster's shared memory, in several phases.
extern "C" __global__ void exchange(int *out, int rounds, int rank)
{
	__shared__ int values[128];
	cg::cluster_group cluster = cg::this_cluster();
	int *other = cluster.map_shared_rank(values, rank), value = threadIdx.x;
	for (int i = 0; i < rounds; i++) {
		values[threadIdx.x] = value;
		auto token = cluster.barrier_arrive();
		cluster.barrier_wait(std::move(token));
		value = other[(threadIdx.x + 37) % 128] + 1;
		cluster.sync();
	}
	out[blockIdx.x * 128 + threadIdx.x] = value + 1000 * cluster.num_blocks() + 10000 * cluster.query_shared_rank(other);
}
extern "C" __global__ void half_arrives()
{
	if (threadIdx.x < 32) cg::this_cluster().sync();
	else __syncthreads();
}
