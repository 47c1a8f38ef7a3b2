/*
 * Mock libcuda.so.1 for tests of host API calls: functions with cuda.h's signatures that count their calls, and
 * functions that call them. Built as a shared library.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((noinline, visibility("default"))) int
#define COUNTED __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED)
#define HANDLE(number) ((void *)(uintptr_t)(number))

typedef uint64_t pointer;

struct config {
	uint32_t grid[3], block[3], shared_bytes;
	void *stream, *attributes;
	uint32_t count;
};

struct copy_2d {
	size_t from_x, from_y;
	uint32_t from_type;
	const void *from_host;
	pointer from_device;
	void *from_array;
	size_t from_pitch, to_x, to_y;
	uint32_t to_type;
	void *to_host;
	pointer to_device;
	void *to_array;
	size_t to_pitch, width, height;
};

struct copy_3d {
	size_t from_x, from_y, from_z, from_lod;
	uint32_t from_type;
	const void *from_host;
	pointer from_device;
	void *from_array, *reserved0;
	size_t from_pitch, from_height, to_x, to_y, to_z, to_lod;
	uint32_t to_type;
	void *to_host;
	pointer to_device;
	void *to_array, *reserved1;
	size_t to_pitch, to_height, width, height, depth;
};

volatile long calls; /* only calls from outside, not calls of one entry point by another */

API cuLaunchKernel(void *f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t shared,
		   void *stream, void **params, void **extra)
{
	COUNTED;
	return 0;
}

API cuLaunchKernel_ptsz(void *f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz,
			uint32_t shared, void *stream, void **params, void **extra)
{
	COUNTED;
	return 701;
}

API cuLaunchKernelEx(const struct config *config, void *f, void **params, void **extra) { COUNTED; return 0; }
API cuGraphLaunch(void *graph, void *stream) { COUNTED; return 0; }
API cuMemcpyHtoD_v2(pointer to, const void *from, size_t bytes) { COUNTED; return 0; }
API cuMemcpyDtoHAsync_v2_ptsz(void *to, pointer from, size_t bytes, void *stream) { COUNTED; return 0; }
API cuMemcpyAtoD_v2(pointer to, void *from, size_t offset, size_t bytes) { COUNTED; return 1; }
API cuMemcpyPeerAsync(pointer to, void *there, pointer from, void *here, size_t bytes, void *stream) { COUNTED; return 0; }
API cuMemcpy(pointer to, pointer from, size_t bytes) { COUNTED; return 0; }
API cuMemcpy2D_v2(const struct copy_2d *copy) { COUNTED; return 0; }
API cuMemcpy3DAsync_v2(const struct copy_3d *copy, void *stream) { COUNTED; return 0; }
API cuMemsetD32_v2(pointer to, uint32_t value, size_t count) { COUNTED; return 0; }
API cuMemsetD2D16Async(pointer to, size_t pitch, uint16_t value, size_t width, size_t height, void *stream)
{
	COUNTED;
	return 0;
}

API cuMemAlloc_v2(pointer *made, size_t bytes)
{
	COUNTED;
	*made = 0x7f0000000000 + bytes;
	return bytes > 1ull << 40 ? 2 : 0;
}

/* The version from before CUDA 3.2, which calls the newer one. */
API cuMemAlloc(uint32_t *made, uint32_t bytes)
{
	pointer newer;
	int result = cuMemAlloc_v2(&newer, bytes);

	*made = (uint32_t)newer;
	return result;
}

API cuMemAllocPitch_v2(pointer *made, size_t *pitch, size_t width, size_t height, uint32_t element)
{
	COUNTED;
	*made = 0x7e0000000000;
	*pitch = (width + 511) / 512 * 512;
	return 0;
}

API cuMemFree_v2(pointer address) { COUNTED; return 0; }
API cuStreamSynchronize(void *stream) { COUNTED; usleep((useconds_t)(uintptr_t)stream); return 0; }
API cuCtxSynchronize(void) { COUNTED; return 0; }
API cuEventRecord_ptsz(void *event, void *stream) { COUNTED; return 0; }
API cuEventQuery(void *event) { COUNTED; return 600; }
API cuModuleLoadData(void **made, const void *image) { COUNTED; *made = HANDLE(0x900); return 0; }

API cuModuleGetFunction(void **made, void *module, const char *name)
{
	COUNTED;
	*made = HANDLE(0x1000 + name[0]);
	return 0;
}

API cuLibraryGetKernel(void **made, void *library, const char *name)
{
	COUNTED;
	*made = HANDLE(0x2000 + name[0]);
	return 0;
}

API cuKernelGetFunction(void **made, void *kernel)
{
	COUNTED;
	*made = HANDLE((uintptr_t)kernel + 0x1000);
	return 0;
}

/* One call of each function; the test has the same list with the expected rows. */
__attribute__((visibility("default"))) void run_all(void)
{
	static char name_a[] = "alpha", name_b[] = "beta";
	struct config config = { { 5, 6, 7 }, { 32, 2, 1 }, 2048, HANDLE(0x55), NULL, 0 };
	struct copy_2d flat = { .from_type = 1, .to_type = 2, .width = 100, .height = 30 };
	struct copy_3d deep = { .from_type = 2, .to_type = 3, .width = 10, .height = 20, .depth = 3 };
	void *module, *alpha, *beta, *turned;
	pointer one, two, huge;
	size_t pitch;
	uint32_t old;

	*(volatile char *)name_a = 'a'; /* make the page present */
	*(volatile char *)name_b = 'b';
	cuModuleLoadData(&module, name_a);
	cuModuleGetFunction(&alpha, module, name_a);
	cuLibraryGetKernel(&beta, module, name_b);
	cuKernelGetFunction(&turned, beta);
	cuMemAlloc_v2(&one, 4096);
	cuMemAllocPitch_v2(&two, &pitch, 1000, 8, 4);
	cuMemAlloc_v2(&huge, 1ull << 41);
	cuMemAlloc(&old, 64);
	cuMemcpyHtoD_v2(one, name_a, 4097);
	cuMemsetD32_v2(one, 0, 1000);
	cuLaunchKernel(alpha, 1, 2, 3, 64, 4, 2, 1024, HANDLE(0x77), NULL, NULL);
	cuLaunchKernel_ptsz(turned, 9, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL);
	cuLaunchKernelEx(&config, HANDLE(0x3), NULL, NULL);
	cuGraphLaunch(HANDLE(1), HANDLE(0x88));
	cuEventRecord_ptsz(HANDLE(4), NULL);
	cuEventQuery(HANDLE(4));
	cuStreamSynchronize(HANDLE(3000));
	cuCtxSynchronize();
	cuMemcpyDtoHAsync_v2_ptsz(name_a, one, 3, NULL);
	cuMemcpyAtoD_v2(one, HANDLE(2), 7, 555);
	cuMemcpyPeerAsync(one, NULL, two, NULL, 666, HANDLE(0x99));
	cuMemcpy(one, two, 777);
	cuMemcpy2D_v2(&flat);
	cuMemcpy3DAsync_v2(&deep, HANDLE(0x66));
	cuMemsetD2D16Async(one, 0, 1, 50, 4, HANDLE(0x44));
	cuMemFree_v2(one);
	cuMemFree_v2(two);
	cuMemFree_v2(0xabc);
}

static void *launch(void *count)
{
	for (long i = 0; i < (long)count; i++)
		cuLaunchKernel(HANDLE(1), i + 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	return NULL;
}

/* Launches with grids of 1 to `count`, from each of `threads` threads (at most 16). */
__attribute__((visibility("default"))) void run_threads(int threads, long count)
{
	pthread_t made[16];

	for (int i = 0; i < threads; i++)
		pthread_create(&made[i], NULL, launch, (void *)count);
	for (int i = 0; i < threads; i++)
		pthread_join(made[i], NULL);
}
