/* Kernels that are CUDA C and OpenCL C. */
#ifdef __OPENCL_VERSION__
#define KERNEL kernel void
#define GLOBAL global
#define SHARED local
#define ME ((int)get_global_id(0))
#define ITEM ((int)get_local_id(0))
#define GROUP ((int)get_group_id(0))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define ADD(address, value) atomic_add(address, value)
#else
#define KERNEL extern "C" __global__ void
#define GLOBAL
#define SHARED __shared__
#define ME ((int)(blockIdx.x * blockDim.x + threadIdx.x))
#define ITEM ((int)threadIdx.x)
#define GROUP ((int)blockIdx.x)
#define BARRIER __syncthreads()
#define ADD(address, value) atomicAdd((int *)(address), value)
#endif

/* Scattered loads, a loop of different length for each thread. */
KERNEL gather(volatile GLOBAL const int *from, volatile GLOBAL int *to, int count)
{
	int sum = 0;

	if (ME >= count)
		return;
	for (int i = 0; i <= (ME & 7); i++)
		sum += from[(ME * 17 + i * 5) & 255];
	to[ME] = sum;
}

/* Memory of the block, barriers, a divergent end. */
KERNEL total(volatile GLOBAL const int *from, volatile GLOBAL int *to)
{
	volatile SHARED int part[64];

	part[ITEM] = from[ME];
	BARRIER;
	for (int step = 32; step; step /= 2) {
		if (ITEM < step)
			part[ITEM] += part[ITEM + step];
		BARRIER;
	}
	if (ITEM == 0)
		to[GROUP] = part[0];
}

KERNEL bins(volatile GLOBAL const int *from, volatile GLOBAL int *to)
{
	ADD(to + (from[ME] & 15), 1);
}
