// Textures and surfaces, one fetch or access for each point: nvcc -arch=sm_80 -ptx images.cu
extern "C" {
#define FETCH(name, type, value) \
	__global__ void name(cudaTextureObject_t t, const float4 *points, type *out, int n) \
	{ \
		int i = blockIdx.x * blockDim.x + threadIdx.x; \
		if (i >= n) return; \
		float4 p = points[i]; \
		out[i] = value; \
	}
FETCH(fetch_1d, float4, (tex1D<float4>(t, p.x)))
FETCH(fetch_2d, float4, (tex2D<float4>(t, p.x, p.y)))
FETCH(fetch_3d, float4, (tex3D<float4>(t, p.x, p.y, p.z)))
FETCH(fetch_a1d, float4, (tex1DLayered<float4>(t, p.x, (int)p.w)))
FETCH(fetch_a2d, float4, (tex2DLayered<float4>(t, p.x, p.y, (int)p.w)))
FETCH(fetch_cube, float4, (texCubemap<float4>(t, p.x, p.y, p.z)))
FETCH(fetch_acube, float4, (texCubemapLayered<float4>(t, p.x, p.y, p.z, (int)p.w)))
FETCH(fetch_whole, float4, (tex1Dfetch<float4>(t, (int)p.x)))
FETCH(fetch_2d_int, int4, (tex2D<int4>(t, p.x, p.y)))
FETCH(fetch_2d_uint, uint4, (tex2D<uint4>(t, p.x, p.y)))
FETCH(fetch_lod, float4, (tex2DLod<float4>(t, p.x, p.y, p.w)))
FETCH(fetch_grad, float4, (tex2DGrad<float4>(t, p.x, p.y, make_float2(p.z, 0), make_float2(0, p.w))))
FETCH(gather, float4, (tex2Dgather<float4>(t, p.x, p.y, 1)))

// Each thread chooses one of two textures.
__global__ void either(cudaTextureObject_t a, cudaTextureObject_t b, float *out)
{
	out[threadIdx.x] = tex1Dfetch<float>(threadIdx.x % 3 ? a : b, threadIdx.x);
}

#define ACCESS(name, read, write) \
	__global__ void name(cudaSurfaceObject_t s, const int4 *points, int *out, int n) \
	{ \
		int i = blockIdx.x * blockDim.x + threadIdx.x; \
		if (i >= n) return; \
		int4 p = points[i]; \
		int value; \
		read; \
		out[i] = value; \
		value += 1000; \
		write; \
	}
ACCESS(access_1d, surf1Dread(&value, s, p.x * 4), surf1Dwrite(value, s, p.x * 4))
ACCESS(access_2d, surf2Dread(&value, s, p.x * 4, p.y), surf2Dwrite(value, s, p.x * 4, p.y))
ACCESS(access_3d, surf3Dread(&value, s, p.x * 4, p.y, p.z), surf3Dwrite(value, s, p.x * 4, p.y, p.z))
ACCESS(access_a1d, surf1DLayeredread(&value, s, p.x * 4, p.w), surf1DLayeredwrite(value, s, p.x * 4, p.w))
ACCESS(access_a2d, surf2DLayeredread(&value, s, p.x * 4, p.y, p.w), surf2DLayeredwrite(value, s, p.x * 4, p.y, p.w))
ACCESS(access_cube, surfCubemapread(&value, s, p.x * 4, p.y, p.w), surfCubemapwrite(value, s, p.x * 4, p.y, p.w))
ACCESS(clamped, surf2Dread(&value, s, p.x * 4, p.y, cudaBoundaryModeClamp),
       surf2Dwrite(value, s, p.x * 4, p.y, cudaBoundaryModeZero))
ACCESS(zeroed, surf2Dread(&value, s, p.x * 4, p.y, cudaBoundaryModeZero),
       surf2Dwrite(value, s, p.x * 4, p.y, cudaBoundaryModeClamp))

// Wide and narrow elements: a row is read as short2 and written in reverse.
__global__ void mirrored(cudaSurfaceObject_t s, int width)
{
	int x = threadIdx.x;
	short2 value = surf2Dread<short2>(s, x * 4, blockIdx.x);
	__syncthreads();
	surf2Dwrite(value, s, (width - 1 - x) * 4, blockIdx.x);
}

__global__ void sizes(cudaTextureObject_t t, cudaSurfaceObject_t s, int *out)
{
	asm("txq.width.b32 %0, [%1];" : "=r"(out[0]) : "l"(t));
	asm("txq.height.b32 %0, [%1];" : "=r"(out[1]) : "l"(t));
	asm("txq.depth.b32 %0, [%1];" : "=r"(out[2]) : "l"(t));
	asm("txq.channel_order.b32 %0, [%1];" : "=r"(out[3]) : "l"(t));
	asm("txq.channel_data_type.b32 %0, [%1];" : "=r"(out[4]) : "l"(t));
	asm("txq.normalized_coords.b32 %0, [%1];" : "=r"(out[5]) : "l"(t));
	asm("txq.num_mipmap_levels.b32 %0, [%1];" : "=r"(out[6]) : "l"(t));
	asm("txq.level.width.b32 %0, [%1], 1;" : "=r"(out[7]) : "l"(t));
	asm("suq.width.b32 %0, [%1];" : "=r"(out[8]) : "l"(s));
	asm("suq.height.b32 %0, [%1];" : "=r"(out[9]) : "l"(s));
	asm("suq.channel_data_type.b32 %0, [%1];" : "=r"(out[10]) : "l"(s));
}

#define REDUCE(name, type, operation) \
	__global__ void name(cudaSurfaceObject_t s, int width) \
	{ \
		asm volatile("sured.b." operation ".2d.s32.trap [%0, {%1, %2}], %3;" \
			     : : "l"(s), "r"(int(threadIdx.x) % width * 4), "r"(int(blockIdx.x)), "r"(int(threadIdx.x) - 20)); \
	}
REDUCE(add, int, "add")
REDUCE(least, int, "min")
REDUCE(greatest, int, "max")
}
