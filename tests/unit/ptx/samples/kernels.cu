// Source of kernels.ptx: nvcc -ptx -arch=sm_75 -lineinfo kernels.cu; async_copy.cu needs sm_80.
// The PTX refers to lines of this file: adding or removing a line requires compiling it again.
//
#include <cstdint>

extern "C" __global__ void vector_add(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		c[i] = a[i] + b[i];
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n)
{
	__shared__ float left[16][16], right[16][16];
	int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
	float sum = 0;
	for (int tile = 0; tile < n; tile += 16) {
		left[threadIdx.y][threadIdx.x] = a[y * n + tile + threadIdx.x];
		right[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + x];
		__syncthreads();
#pragma unroll 1
		for (int k = 0; k < 16; k++)
			sum += left[threadIdx.y][k] * right[k][threadIdx.x];
		__syncthreads();
	}
	c[y * n + x] = sum;
}

extern "C" __global__ void reduce(const int *in, int *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, value = i < n ? in[i] : 0;
	for (int lanes = 16; lanes; lanes >>= 1)
		value += __shfl_down_sync(0xffffffff, value, lanes);
	if ((threadIdx.x & 31) == 0)
		atomicAdd(out, value);
}

extern "C" __global__ void early_returns(const int *in, int *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	int value = in[i];
	if (value < 0) {
		out[i] = -1;
		return;
	}
	while (value > 1) {
		if (value == 97) {
			asm volatile("exit;");
		}
		value = value & 1 ? 3 * value + 1 : value >> 1;
		if (value > 1000000)
			return;
	}
	out[i] = value;
}

extern "C" __global__ void vectors(const float4 *in, float4 *out, const short2 *pairs, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float4 value = in[i];
	short2 pair = pairs[i];
	value.x += pair.x;
	value.y += pair.y;
	asm volatile("{ .reg .pred p; setp.lt.s32 p, %0, %1; @p st.global.v4.f32 [%2], {%3, %4, %5, %6}; }"
		     ::"r"(i), "r"(n), "l"(out + i), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
		     : "memory");
	asm volatile("{ .reg .pred p; setp.lt.s32 p, %0, %1; @!p st.global.v2.f32 [%2+8], {%3, %4}; }"
		     ::"r"(i), "r"(n), "l"(out + i), "f"(value.z), "f"(value.w)
		     : "memory");
}

extern "C" __global__ void atomics(unsigned *counts, unsigned long long *total, float *sum, const unsigned *in)
{
	__shared__ unsigned local[64];
	if (threadIdx.x < 64)
		local[threadIdx.x] = 0;
	__syncthreads();
	unsigned value = in[blockIdx.x * blockDim.x + threadIdx.x];
	unsigned before = atomicAdd(&local[value % 64], 1);
	atomicAdd(total, (unsigned long long)before);
	atomicAdd(sum, 1.0f);
	atomicCAS(counts + 64, 0, value);
	__syncthreads();
	if (threadIdx.x < 64)
		atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}

// A load, a predicated load and a store within a carry chain.
extern "C" __global__ void carries(const uint32_t *a, uint32_t *sum)
{
	uint32_t r0, r1, r2;
	asm volatile("{ .reg .u32 x, y; .reg .u64 at; .reg .pred p;\n"
		     "  mov.u64 at, %3;\n"
		     "  setp.ne.u64 p, at, 0;\n"
		     "  ld.global.u32 x, [at];\n"
		     "  add.cc.u32 %0, x, 0xffffffff;\n"
		     "  ld.global.u32 y, [at+4];\n"
		     "  addc.cc.u32 %1, y, 0xffffffff;\n"
		     "  @p ld.global.u64 at, [at+8];\n"
		     "  cvt.u32.u64 y, at;\n"
		     "  addc.u32 %2, y, 7; }"
		     : "=&r"(r0), "=&r"(r1), "=&r"(r2)
		     : "l"(a + 4 * threadIdx.x)
		     : "memory");
	sum[4 * threadIdx.x] = r0;
	sum[4 * threadIdx.x + 1] = r1;
	sum[4 * threadIdx.x + 2] = r2;
}

__device__ __noinline__ int doubled(const int *at, int i)
{
	if (at[i] < 0)
		asm volatile("exit;");
	return at[i] * 2;
}

__device__ __noinline__ int fibonacci(int n)
{
	if (n < 2)
		return n;
	return fibonacci(n - 1) + fibonacci(n - 2);
}

extern "C" __global__ void calls(const int *in, int *out)
{
	int i = threadIdx.x;
	out[i] = doubled(in, i) + fibonacci(i & 7);
}

extern "C" __global__ void jumps(const int *in, int *out, int n)
{
	int i = threadIdx.x;
	switch (in[i]) {
	case 0: out[i] = n; break;
	case 1: out[i] = n * n; break;
	case 2: out[i] = n / 3; break;
	case 3: out[i] = n ^ i; break;
	case 4: out[i] = __popc(n); break;
	case 5: out[i] = __clz(n); break;
	case 6: out[i] = n % 7; break;
	default: atomicAdd(out + n, 1);
	}
}

__constant__ float table[16];
__device__ int total = 3;

extern "C" __global__ void spaces(float *out, int n)
{
	extern __shared__ float dynamic[];
	float local[8];
	for (int k = 0; k < 8; k++)
		local[(k * n) & 7] = table[(k + n) & 15];
	dynamic[threadIdx.x] = local[n & 7];
	__syncthreads();
	float *chosen = n > 100 ? dynamic : out;
	chosen[threadIdx.x] += local[(n + 1) & 7];
	total = n;
	atomicAdd(&total, 1);
}
