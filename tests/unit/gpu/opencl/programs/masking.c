/* An OpenCL layer that makes Intel's runtime look like other devices, as the variable MASK says:
 *
 * unified: the device shares no memory but unified shared memory; buffers: only fine-grained buffers; nothing: none;
 * other: it has another name; reject: it rejects the second program from SPIR-V or source.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_INFO = 3, WITH_IL = 138, MOST = 1024, NAME = 0x102B, EXTENSIONS = 0x1030, SVM = 0x1053, VERSION = 0x4240 };

typedef int Info(void *device, unsigned what, size_t size, void *value, size_t *needed);
typedef void *WithIl(void *context, const void *code, size_t size, int *error);

static void *below[MOST], *ours[MOST];

static int masked(const char *how)
{
	const char *mask = getenv("MASK");

	return mask && !strcmp(mask, how);
}

static int info(void *device, unsigned what, size_t size, void *value, size_t *needed)
{
	int error = ((Info *)below[DEVICE_INFO])(device, what, size, value, needed);
	char *found;

	if (error || !value)
		return error;
	if (what == SVM && (masked("unified") || masked("nothing")))
		*(uint64_t *)value &= 1;
	if (what == SVM && masked("buffers"))
		*(uint64_t *)value &= ~(uint64_t)4;
	if (what == EXTENSIONS && (masked("buffers") || masked("nothing")) &&
	    (found = strstr(value, "cl_intel_unified_shared_memory")))
		memset(found, 'x', 8);
	if (what == NAME && masked("other"))
		((char *)value)[0] = '#';
	return 0;
}

static void *with_il(void *context, const void *code, size_t size, int *error)
{
	static int count;

	if (masked("reject") && ++count == 1) {
		*error = -42;
		return NULL;
	}
	return ((WithIl *)below[WITH_IL])(context, code, size, error);
}

int clGetLayerInfo(unsigned what, size_t size, void *value, size_t *needed)
{
	if (what != VERSION)
		return -30;
	if (value)
		*(unsigned *)value = 100;
	if (needed)
		*needed = sizeof(unsigned);
	return 0;
}

int clInitLayer(unsigned count, void *const *target, unsigned *given, void *const **table)
{
	memcpy(below, target, count * sizeof *below);
	memcpy(ours, target, count * sizeof *ours);
	ours[DEVICE_INFO] = (void *)info;
	ours[WITH_IL] = (void *)with_il;
	*given = count;
	*table = ours;
	return 0;
}

int clInitLayerWithProperties(unsigned count, void *const *target, unsigned *given, void *const **table, const void *more)
{
	return clInitLayer(count, target, given, table);
}

int clDeinitLayer(void)
{
	return 0;
}
