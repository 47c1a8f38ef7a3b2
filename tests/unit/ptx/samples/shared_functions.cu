// Device functions that several kernels share. nvcc -arch=sm_75 -lineinfo -ptx shared_functions.cu
__device__ __noinline__ int inner(const int *in, int i)
{
	return in[i & 31] * 3;
}

__device__ __noinline__ int outer(const int *in, int i)
{
	return inner(in, i) + inner(in, i + 1);
}

__device__ __noinline__ int climbing(const int *in, int i)
{
	return i <= 0 ? in[0] : climbing(in, i - 2) + inner(in, i);
}

__device__ __noinline__ int kept(const int *in, int i)
{
	return inner(in, i) - 1;
}

__device__ __noinline__ int other(const int *in, int i)
{
	return i;
}

typedef int (*function)(const int *, int);
__device__ function table[2] = {kept, other};

// Each thread makes two reads through `inner`.
extern "C" __global__ void first(const int *in, int *out)
{
	out[threadIdx.x] = outer(in, threadIdx.x);
}

// Three reads, two of them through `outer`.
extern "C" __global__ void second(const int *in, int *out)
{
	out[threadIdx.x] = outer(in, threadIdx.x) + inner(in, threadIdx.x);
}

extern "C" __global__ void upwards(const int *in, int *out)
{
	out[threadIdx.x] = climbing(in, threadIdx.x % 5);
}

// Even threads make one read, through a function pointer.
extern "C" __global__ void through_address(const int *in, int *out)
{
	out[threadIdx.x] = table[threadIdx.x % 2](in, threadIdx.x);
}

extern "C" __global__ void alone(const int *in, int *out)
{
	out[threadIdx.x] = in[threadIdx.x];
}
