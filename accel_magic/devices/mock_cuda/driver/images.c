/* CUDA arrays, textures and surfaces. Arrays are device memory without padding, whose address the program never sees. */
#include "mock_cuda.h"

#include <stdlib.h>
#include <string.h>

enum { LAYERED = 1, CUBEMAP = 4 };
enum { ARRAY = 0, MIPMAPPED = 1, LINEAR = 2, PITCH2D = 3 };
enum { SRGB = 0x10, SEAMLESS = 0x40 };
#define MOST_LEVELS 32

struct mipmapped {
	struct array_description is;
	unsigned int count;
	CUarray levels[MOST_LEVELS];
};

/* CUDA_RESOURCE_DESC */
struct resource {
	int type;
	union {
		CUarray array;
		CUmipmappedArray mipmapped;
		struct {
			CUdeviceptr address;
			int format;
			unsigned int channels;
			size_t bytes;
		} linear;
		struct {
			CUdeviceptr address;
			int format;
			unsigned int channels;
			size_t width, height, pitch;
		} pitched;
		int reserved[32];
	};
	unsigned int flags;
};

/* CUDA_TEXTURE_DESC */
struct sampling {
	int modes[3], filter;
	unsigned int flags, anisotropy;
	int level_filter;
	float bias, least, most, border[4];
	int reserved[12];
};

/* A texture or surface that this process has created. */
struct object {
	struct object *next;
	uint64_t handle;
	int sampled;
	struct resource resource;
	struct sampling sampling;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects;

/* Bytes of one channel, by CUarray_format; 0 for formats that the device lacks. */
static size_t channel_size(int format)
{
	static const uint8_t sizes[] = {[0x01] = 1, [0x02] = 2, [0x03] = 4, [0x08] = 1,
					[0x09] = 2, [0x0a] = 4, [0x10] = 2, [0x20] = 4};

	return format >= 0 && (size_t)format < sizeof(sizes) ? sizes[format] : 0;
}

static size_t at_least_one(size_t size)
{
	return size ? size : 1;
}

static CUresult create(CUarray *made, const struct array_description *what)
{
	size_t texel = channel_size(what->format) * what->channels;
	CUarray array;
	CUresult result = usable();

	if (result || !made || !what->width || !what->channels || what->channels > 4)
		return result ? result : INVALID_VALUE;
	if (!texel || what->channels == 3) {
		locally("this format of CUDA arrays is not supported\n"
			"  why: the device has 1, 2 or 4 channels of 8 to 32-bit integers or floats\n"
			"  fix: use such a format, or run the program on a GPU");
		return NOT_SUPPORTED;
	}
	array = calloc(1, sizeof(*array));
	if (!array)
		return OUT_OF_MEMORY;
	array->is = *what;
	array->texel = texel;
	array->pitch = texel * what->width;
	array->slice = array->pitch * at_least_one(what->height);
	result = allocate_memory(&array->address, array->slice * at_least_one(what->depth), DEVICE, 0);
	if (result)
		free(array);
	else
		*made = array;
	return result;
}

API CUresult cuArray3DCreate_v2(CUarray *array, const struct array_description *what)
{
	return what ? create(array, what) : INVALID_VALUE;
}

/* CUDA_ARRAY_DESCRIPTOR */
struct flat_description {
	size_t width, height;
	int format;
	unsigned int channels;
};

API CUresult cuArrayCreate_v2(CUarray *array, const struct flat_description *what)
{
	if (!what)
		return INVALID_VALUE;
	return create(array, &(struct array_description){what->width, what->height, 0, what->format, what->channels, 0});
}

API CUresult cuArrayDestroy(CUarray array)
{
	CUresult result;

	if (!array || array->level)
		return INVALID_HANDLE;
	result = free_memory(array->address, EVERYTHING);
	free(array);
	return result;
}

API CUresult cuArray3DGetDescriptor_v2(struct array_description *what, CUarray array)
{
	if (!array || !what)
		return INVALID_HANDLE;
	*what = array->is;
	return SUCCESS;
}

API CUresult cuArrayGetDescriptor_v2(struct flat_description *what, CUarray array)
{
	if (!array || !what)
		return INVALID_HANDLE;
	*what = (struct flat_description){array->is.width, array->is.height, array->is.format, array->is.channels};
	return SUCCESS;
}

API CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmapped)
{
	CUresult result = mipmapped ? SUCCESS : INVALID_HANDLE;

	for (unsigned int i = 0; mipmapped && i < mipmapped->count; i++) {
		mipmapped->levels[i]->level = 0;
		result = cuArrayDestroy(mipmapped->levels[i]);
	}
	free(mipmapped);
	return result;
}

static size_t halved(size_t size, int layers)
{
	return layers || size <= 1 ? size : size / 2;
}

API CUresult cuMipmappedArrayCreate(CUmipmappedArray *made, const struct array_description *what, unsigned int levels)
{
	struct array_description level;
	CUmipmappedArray mipmapped;
	CUresult result = SUCCESS;

	if (!made || !what || !levels || levels > MOST_LEVELS)
		return INVALID_VALUE;
	mipmapped = calloc(1, sizeof(*mipmapped));
	if (!mipmapped)
		return OUT_OF_MEMORY;
	mipmapped->is = level = *what;
	while (mipmapped->count < levels && !result) {
		result = create(mipmapped->levels + mipmapped->count, &level);
		if (!result)
			mipmapped->levels[mipmapped->count++]->level = 1;
		level.width = halved(level.width, 0);
		level.height = halved(level.height, 0);
		level.depth = halved(level.depth, level.flags & (LAYERED | CUBEMAP));
	}
	if (result)
		cuMipmappedArrayDestroy(mipmapped);
	else
		*made = mipmapped;
	return result;
}

API CUresult cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mipmapped, unsigned int level)
{
	if (!mipmapped || !array)
		return INVALID_HANDLE;
	if (level >= mipmapped->count)
		return INVALID_VALUE;
	*array = mipmapped->levels[level];
	return SUCCESS;
}

static void describe(struct image *image, CUarray array)
{
	int layers = array->is.flags & (LAYERED | CUBEMAP);
	size_t depth = at_least_one(array->is.depth);

	*image = (struct image){
		.address = array->address,
		.sizes = {array->is.width, at_least_one(array->is.height), layers ? 1 : depth, layers ? depth : 1},
		.strides = {array->texel, array->pitch, array->slice, array->slice},
	};
}

/* Describe a resource to the server; NOT_SUPPORTED for formats that the device lacks. */
static CUresult describe_all(struct view *view, const struct resource *what)
{
	const struct array_description *is = NULL;

	if (what->flags)
		return INVALID_VALUE;
	if (what->type == ARRAY && what->array) {
		view->levels = 1;
		describe(view->images, what->array);
		is = &what->array->is;
	} else if (what->type == MIPMAPPED && what->mipmapped) {
		view->levels = what->mipmapped->count;
		for (unsigned int i = 0; i < view->levels; i++)
			describe(view->images + i, what->mipmapped->levels[i]);
		is = &what->mipmapped->is;
	}
	if (is) {
		view->format = is->format;
		view->channels = is->channels;
		view->layered = !!(is->flags & LAYERED);
		view->cube = !!(is->flags & CUBEMAP);
		return SUCCESS;
	}
	if (what->type == LINEAR) {
		size_t texel = channel_size(what->linear.format) * what->linear.channels;

		view->levels = view->linear = 1;
		view->format = what->linear.format;
		view->channels = what->linear.channels;
		if (texel)
			view->images[0] = (struct image){what->linear.address, {what->linear.bytes / texel, 1, 1, 1},
							 {texel, 0, 0, 0}};
		return texel ? SUCCESS : NOT_SUPPORTED;
	}
	if (what->type == PITCH2D) {
		size_t texel = channel_size(what->pitched.format) * what->pitched.channels;

		view->levels = 1;
		view->format = what->pitched.format;
		view->channels = what->pitched.channels;
		view->images[0] = (struct image){what->pitched.address,
						 {what->pitched.width, at_least_one(what->pitched.height), 1, 1},
						 {texel, what->pitched.pitch, 0, 0}};
		return texel ? SUCCESS : NOT_SUPPORTED;
	}
	return INVALID_VALUE;
}

static CUresult make(uint64_t *handle, struct view *view, const struct resource *what, const struct sampling *how)
{
	struct request request = {.operation = IMAGE, .size = sizeof(*view)};
	struct object *object = calloc(1, sizeof(*object));
	struct reply reply;
	CUresult result = object ? describe_all(view, what) : OUT_OF_MEMORY;

	if (!result)
		result = ask(&request, view, &reply, NULL);
	if (result) {
		free(object);
		return result;
	}
	object->sampled = !!how;
	object->resource = *what;
	if (how)
		object->sampling = *how;
	*handle = object->handle = reply.a[0];
	pthread_mutex_lock(&lock);
	object->next = objects;
	objects = object;
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

API CUresult cuTexObjectCreate(uint64_t *handle, const struct resource *what, const struct sampling *how,
			       const void *other_view)
{
	struct view view = {0};
	CUresult result = usable();

	if (result || !handle || !what || !how)
		return result ? result : INVALID_VALUE;
	if (other_view || how->flags & (SRGB | SEAMLESS)) {
		locally("this kind of texture is not supported\n"
			"  why: the device has no resource views, no sRGB, and no filtering across the edges of cube maps\n"
			"  fix: create the texture without them, or run the program on a GPU");
		return NOT_SUPPORTED;
	}
	view.sampled = 1;
	memcpy(view.modes, how->modes, sizeof(view.modes));
	view.filter = how->filter;
	view.flags = how->flags;
	view.level_filter = how->level_filter;
	view.bias = how->bias;
	view.least = how->least;
	view.most = how->most;
	memcpy(view.border, how->border, sizeof(view.border));
	return make(handle, &view, what, how);
}

API CUresult cuSurfObjectCreate(uint64_t *handle, const struct resource *what)
{
	struct view view = {0};
	CUresult result = usable();

	if (result || !handle || !what || what->type != ARRAY)
		return result ? result : INVALID_VALUE;
	return make(handle, &view, what, NULL);
}

/* Copy what is known of an object, and remove it if `remove`. */
static int find(uint64_t handle, int sampled, struct object *found, int remove)
{
	struct object **at, *one;

	pthread_mutex_lock(&lock);
	for (at = &objects; *at && ((*at)->handle != handle || (*at)->sampled != sampled); at = &(*at)->next)
		;
	one = *at;
	if (one) {
		*found = *one;
		if (remove) {
			*at = one->next;
			free(one);
		}
	}
	pthread_mutex_unlock(&lock);
	return !!one;
}

static CUresult destroy(uint64_t handle, int sampled)
{
	struct object gone;
	CUresult result = usable();

	if (result)
		return result;
	return find(handle, sampled, &gone, 1) ? tell(DESTROY, handle, 0) : INVALID_VALUE;
}

API CUresult cuTexObjectDestroy(uint64_t handle)
{
	return destroy(handle, 1);
}

API CUresult cuSurfObjectDestroy(uint64_t handle)
{
	return destroy(handle, 0);
}

static CUresult resource_of(struct resource *what, uint64_t handle, int sampled)
{
	struct object known;

	if (!what || !find(handle, sampled, &known, 0))
		return INVALID_VALUE;
	*what = known.resource;
	return SUCCESS;
}

API CUresult cuTexObjectGetResourceDesc(struct resource *what, uint64_t handle)
{
	return resource_of(what, handle, 1);
}

API CUresult cuSurfObjectGetResourceDesc(struct resource *what, uint64_t handle)
{
	return resource_of(what, handle, 0);
}

API CUresult cuTexObjectGetTextureDesc(struct sampling *how, uint64_t handle)
{
	struct object known;

	if (!how || !find(handle, 1, &known, 0))
		return INVALID_VALUE;
	*how = known.sampling;
	return SUCCESS;
}
