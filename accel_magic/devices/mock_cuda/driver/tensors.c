/* Tensor maps, encoded as sim/tensor_maps.py reads them. */
#include "mock_cuda.h"

#include <string.h>

#define AXES 5
#define MOST_BOX 256
#define MOST_STEP 8

struct tensor_map {
	char mark[4];
	uint8_t unit, axes, swizzle, unused;
	uint64_t address;
	uint32_t sizes[AXES];
	uint16_t box[AXES];
	uint8_t steps[AXES], padding[5];
	uint64_t strides[AXES - 1];
	uint8_t rest[40];
};

_Static_assert(sizeof(struct tensor_map) == 128, "the size of CUtensorMap");

static CUresult refuse(const char *text)
{
	locally(text);
	return NOT_SUPPORTED;
}

/* Bytes of an element by CUtensorMapDataType; 0 for types that would change the values, or have fewer than 8 bits. */
static unsigned int element_size(unsigned int type)
{
	static const uint8_t sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};

	return type < sizeof(sizes) ? sizes[type] : 0;
}

API CUresult cuTensorMapEncodeTiled(struct tensor_map *map, unsigned int type, uint32_t axes, void *address,
				    const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
				    const uint32_t *steps, int interleave, int swizzle, int promotion, int fill)
{
	unsigned int unit = element_size(type);
	uint64_t start = (uint64_t)(uintptr_t)address;
	struct tensor_map made = {.mark = {'A', 'M', 't', 'm'}, .unit = unit, .axes = axes, .swizzle = swizzle,
				  .address = start};

	(void)promotion;
	if (!map || !axes || axes > AXES || start % 16)
		return INVALID_VALUE;
	if (!unit)
		return refuse("this element type of a tensor map is not supported\n"
			      "  fix: use integers, half, bfloat16, float or double without conversion (FTZ, TF32, U4, U6)");
	if (interleave || fill || swizzle > 3)
		return refuse("this kind of tensor map is not supported\n"
			      "  why: the device has no interleaved layout, no fill with NaN, and swizzles 16-byte pieces\n"
			      "  fix: use CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE and "
			      "CU_TENSOR_MAP_SWIZZLE_32B, 64B or 128B");
	for (uint32_t i = 0; i < axes; i++) {
		if (!sizes[i] || sizes[i] > 1ull << 31 || !box[i] || box[i] > MOST_BOX || !steps[i] ||
		    steps[i] > MOST_STEP || (i && (strides[i - 1] % 16 || strides[i - 1] >= 1ull << 40)))
			return INVALID_VALUE;
		made.sizes[i] = sizes[i];
		made.box[i] = box[i];
		made.steps[i] = i ? steps[i] : 1;
		if (i)
			made.strides[i - 1] = strides[i - 1];
	}
	if (box[0] * unit % 16 || (swizzle && box[0] * unit > 16u << swizzle))
		return INVALID_VALUE;
	memcpy(map, &made, sizeof(made)); /* it may be less aligned than documented */
	return SUCCESS;
}

API CUresult cuTensorMapReplaceAddress(struct tensor_map *map, void *address)
{
	if (!map || (uintptr_t)address % 16)
		return INVALID_VALUE;
	map->address = (uint64_t)(uintptr_t)address;
	return SUCCESS;
}

API CUresult cuTensorMapEncodeIm2col(void)
{
	return refuse("tensor maps in the mode im2col are not supported\n  fix: use cuTensorMapEncodeTiled");
}
