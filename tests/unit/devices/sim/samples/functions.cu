// Device functions, recursion, pointers, switches, printf: nvcc -arch=sm_80 -lineinfo -ptx functions.cu
#include <stdio.h>
#include <assert.h>
__device__ __noinline__ unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
struct Vec { double x, y; int tag; };
__device__ __noinline__ Vec turned(Vec v) { return Vec{-v.y, v.x, v.tag + 1}; }
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int negative(int x) { return -x; }
typedef int (*Function)(int);
__device__ Function table[3] = {twice, square, negative};
__constant__ int weights[4] = {2, 3, 5, 7};
__device__ int counters[8];
__device__ const char *words[2] = {"even", "odd"};

extern "C" {
__global__ void recursion(unsigned *out) { out[threadIdx.x] = fibonacci(threadIdx.x % 12); }
__global__ void endless_recursion(unsigned *out) { out[threadIdx.x] = fibonacci(0x7fffffff + threadIdx.x); }
__global__ void structs(const Vec *in, Vec *out) { out[threadIdx.x] = turned(turned(in[threadIdx.x])); }
__global__ void pointers(const int *which, int *out) { out[threadIdx.x] = table[which[threadIdx.x]](threadIdx.x); }
__global__ void switches(const int *in, int *out) {
    int v = in[threadIdx.x], r;
    switch (v) {
    case 0: r = 11; break;
    case 1: r = threadIdx.x * 3; break;
    case 2: r = v + 1000; break;
    case 3: r = __popc(threadIdx.x); break;
    case 4: r = -5; break;
    case 5: r = weights[threadIdx.x % 4]; break;
    case 6: r = threadIdx.x ^ 0x55; break;
    default: r = -1;
    }
    out[threadIdx.x] = r;
}
__global__ void globals(int *out) {
    atomicAdd(&counters[threadIdx.x % 8], weights[threadIdx.x % 4]);
    out[threadIdx.x] = words[threadIdx.x % 2][0];
}
__global__ void says(int n) {
    if (threadIdx.x < n) printf("thread %d of %s: %.2f %c %lld %5u|%%\n", threadIdx.x, "block", threadIdx.x / 4.0, 'x', -1LL << 40, 7u);
}
__global__ void asserts(int n) { assert(threadIdx.x < n); }
__global__ void local_array(const int *in, int *out) {
    int work[16];
    for (int i = 0; i < 16; ++i) work[i] = in[i] + threadIdx.x;
    for (int i = 0; i < 16; ++i) { int j = work[i] & 15, t = work[i]; work[i] = work[j]; work[j] = t; }
    int total = 0;
    for (int i = 0; i < 16; ++i) total = total * 31 + work[i];
    out[threadIdx.x] = total;
}
__global__ void wide_product(const unsigned long long *a, const unsigned long long *b, unsigned long long *out) {
    unsigned __int128 p = (unsigned __int128)a[threadIdx.x] * b[threadIdx.x] + a[threadIdx.x];
    p = p - ((unsigned __int128)b[threadIdx.x] << 17);
    out[2 * threadIdx.x] = (unsigned long long)p;
    out[2 * threadIdx.x + 1] = (unsigned long long)(p >> 64);
}
__global__ void generic_pointers(int *out) {
    __shared__ int inside[32];
    int own[4] = {1, 2, 3, 4};
    inside[threadIdx.x] = 100 + threadIdx.x;
    out[32 + threadIdx.x] = 200 + threadIdx.x;
    int *p = threadIdx.x % 3 == 0 ? inside + threadIdx.x : threadIdx.x % 3 == 1 ? out + 32 + threadIdx.x : own + threadIdx.x % 4;
    *(volatile int *)p += 1;
    out[threadIdx.x] = *(volatile int *)p;
}
__global__ void stray(int *out, int n) {
    out[threadIdx.x * n] = 1;
}
__global__ void endless(int *out) {
    while (*(volatile int *)out == 0) { }
}
__global__ void stuck(int *out) {
    if (threadIdx.x < 30) asm volatile("bar.sync 1, 64;");
    out[threadIdx.x] = 1;
}
}
