// Warp matrix products through nvcuda::wmma, of every type and shape for sm_80: one warp, one product d = a b + c.
// Compiled with: nvcc -ptx -arch=sm_80 wmma.cu
#include <mma.h>

using namespace nvcuda::wmma;

#define PRODUCT(NAME, M, N, K, MEMORY, ELEMENT, LEFT, RIGHT, SUM, LDA, LDB, LDC, CLAYOUT)                    \
	extern "C" __global__ void NAME(const MEMORY *a, const MEMORY *b, SUM *c)                            \
	{                                                                                                    \
		fragment<matrix_a, M, N, K, ELEMENT, LEFT> left;                                             \
		fragment<matrix_b, M, N, K, ELEMENT, RIGHT> right;                                           \
		fragment<accumulator, M, N, K, SUM> sum;                                                     \
		load_matrix_sync(left, a, LDA);                                                              \
		load_matrix_sync(right, b, LDB);                                                             \
		load_matrix_sync(sum, c, LDC, CLAYOUT);                                                      \
		mma_sync(sum, left, right, sum);                                                             \
		store_matrix_sync(c, sum, LDC, CLAYOUT);                                                     \
	}

PRODUCT(half_float, 16, 16, 16, half, half, row_major, col_major, float, 24, 24, 16, mem_row_major)
PRODUCT(half_half, 16, 16, 16, half, half, col_major, row_major, half, 16, 16, 24, mem_col_major)
PRODUCT(half_wide, 8, 32, 16, half, half, row_major, row_major, float, 16, 32, 32, mem_row_major)
PRODUCT(half_tall, 32, 8, 16, half, half, col_major, col_major, float, 32, 16, 8, mem_row_major)
PRODUCT(bfloat, 16, 16, 16, __nv_bfloat16, __nv_bfloat16, row_major, col_major, float, 16, 16, 16, mem_row_major)
PRODUCT(bfloat_wide, 8, 32, 16, __nv_bfloat16, __nv_bfloat16, col_major, row_major, float, 8, 32, 32, mem_row_major)
PRODUCT(tf32, 16, 16, 8, float, precision::tf32, row_major, col_major, float, 8, 8, 16, mem_row_major)
PRODUCT(doubles, 8, 8, 4, double, double, row_major, col_major, double, 4, 4, 8, mem_row_major)
PRODUCT(doubles_turned, 8, 8, 4, double, double, col_major, row_major, double, 8, 8, 8, mem_col_major)
PRODUCT(signed8, 16, 16, 16, signed char, signed char, row_major, col_major, int, 16, 16, 16, mem_row_major)
PRODUCT(unsigned8_wide, 8, 32, 16, unsigned char, unsigned char, row_major, row_major, int, 16, 32, 32, mem_row_major)
PRODUCT(signed8_tall, 32, 8, 16, signed char, signed char, col_major, col_major, int, 32, 16, 8, mem_row_major)
PRODUCT(signed4, 8, 8, 32, void, experimental::precision::s4, row_major, col_major, int, 32, 32, 8, mem_row_major)
PRODUCT(unsigned4, 8, 8, 32, void, experimental::precision::u4, row_major, col_major, int, 32, 32, 8, mem_row_major)

#define BITS(NAME, OPERATION)                                                                                \
	extern "C" __global__ void NAME(const void *a, const void *b, int *c)                                \
	{                                                                                                    \
		fragment<matrix_a, 8, 8, 128, experimental::precision::b1, row_major> left;                  \
		fragment<matrix_b, 8, 8, 128, experimental::precision::b1, col_major> right;                 \
		fragment<accumulator, 8, 8, 128, int> sum;                                                   \
		load_matrix_sync(left, a, 128);                                                              \
		load_matrix_sync(right, b, 128);                                                             \
		load_matrix_sync(sum, c, 8, mem_row_major);                                                  \
		bmma_sync(sum, left, right, sum, experimental::OPERATION);                                   \
		store_matrix_sync(c, sum, 8, mem_row_major);                                                 \
	}

BITS(bits_xor, bmmaBitOpXOR)
BITS(bits_and, bmmaBitOpAND)

// Each warp of the grid computes a tile of a product of any size, with its left tile staged in shared memory.
extern "C" __global__ void tiles(const half *a, const half *b, float *c, int n, int k)
{
	__shared__ half staged[16 * 16];
	fragment<accumulator, 16, 16, 16, float> sum;
	fill_fragment(sum, 0.0f);
	for (int at = 0; at < k; at += 16) {
		for (int i = threadIdx.x; i < 256; i += 32)
			staged[i] = a[(blockIdx.y * 16 + i / 16) * k + at + i % 16];
		__syncthreads();
		fragment<matrix_a, 16, 16, 16, half, row_major> left;
		fragment<matrix_b, 16, 16, 16, half, row_major> right;
		load_matrix_sync(left, staged, 16);
		load_matrix_sync(right, b + at * n + blockIdx.x * 16, n);
		mma_sync(sum, left, right, sum);
		__syncthreads();
	}
	for (int i = 0; i < sum.num_elements; i++)
		sum.x[i] *= 2;
	store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, sum, n, mem_row_major);
}
