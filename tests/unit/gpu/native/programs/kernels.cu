// Kernels of the programs here; to compile them to kernels.ptx: nvcc -ptx -arch=compute_75 kernels.cu
extern "C" __device__ int scale = 2;

extern "C" __global__ void add(const int *a, const int *b, int *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		out[i] = scale * a[i] + b[i];
}

extern "C" __global__ void fill(int *out, int n, int value)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		out[i] = value;
}
