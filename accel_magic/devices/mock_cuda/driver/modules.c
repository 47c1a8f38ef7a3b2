/* Modules and libraries, with their kernels and variables. */
#include "mock_cuda.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FATBIN 0xBA55ED50u
#define FATBIN_WRAPPER 0x466243B1u

struct module {
	uint64_t id;
	pthread_mutex_t lock;
	struct function *functions;
};

struct wrapper {
	uint32_t magic, version;
	const void *data, *more;
};

struct container {
	uint32_t magic;
	uint16_t version, header;
	uint64_t size;
};

/* Images are passed without a size; compute it from their headers. */
static size_t image_size(const void *image)
{
	const Elf64_Ehdr *elf = image;
	const struct container *container = image;
	size_t end;

	if (container->magic == FATBIN)
		return container->header + container->size;
	if (memcmp(image, ELFMAG, SELFMAG))
		return strlen(image);
	end = elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize;
	if (end < sizeof(*elf))
		end = sizeof(*elf);
	for (int i = 0; i < elf->e_shnum; i++) {
		const Elf64_Shdr *section = (const void *)((const char *)image + elf->e_shoff + i * elf->e_shentsize);

		if (section->sh_type != SHT_NOBITS && section->sh_offset + section->sh_size > end)
			end = section->sh_offset + section->sh_size;
	}
	for (int i = 0; i < elf->e_phnum; i++)
		if (elf->e_phoff + (size_t)(i + 1) * elf->e_phentsize > end)
			end = elf->e_phoff + (size_t)(i + 1) * elf->e_phentsize;
	return end;
}

/* Write the error log to the buffer that a program passes in CUjit_option. */
static void write_log(const char *text, unsigned int count, const int *options, void **values)
{
	enum { ERROR_LOG = 5, ERROR_LOG_SIZE = 6 };
	char *log = NULL;
	size_t size = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (options[i] == ERROR_LOG)
			log = values[i];
		else if (options[i] == ERROR_LOG_SIZE)
			size = (size_t)(uintptr_t)values[i];
	}
	if (log && size)
		snprintf(log, size, "%s", text);
}

static CUresult load_with(CUmodule *module, const void *image, unsigned int count, const int *options, void **values)
{
	struct request request = {.operation = LOAD};
	struct reply reply;
	void *why = NULL;
	CUresult result = usable();

	if (result || !image || !module)
		return result ? result : INVALID_VALUE;
	if (*(const uint32_t *)image == FATBIN_WRAPPER)
		image = ((const struct wrapper *)image)->data;
	request.size = image_size(image);
	result = ask(&request, image, &reply, &why);
	if (why)
		write_log(why, count, options, values);
	free(why);
	if (result)
		return result;
	*module = calloc(1, sizeof(**module));
	if (!*module)
		return OUT_OF_MEMORY;
	(*module)->id = reply.a[0];
	pthread_mutex_init(&(*module)->lock, NULL);
	return SUCCESS;
}

static CUresult load(CUmodule *module, const void *image)
{
	return load_with(module, image, 0, NULL, NULL);
}

static CUresult load_file(CUmodule *module, const char *path)
{
	FILE *file = fopen(path, "rb");
	CUresult result = FILE_NOT_FOUND;
	char *content = NULL;
	long size = 0;

	if (file && !fseek(file, 0, SEEK_END) && (size = ftell(file)) > 0)
		content = calloc(1, size + 8);
	if (content && !fseek(file, 0, SEEK_SET) && fread(content, 1, size, file) == (size_t)size)
		result = load(module, content);
	free(content);
	if (file)
		fclose(file);
	return result;
}

static CUresult unload(CUmodule module)
{
	CUresult result = process.greeting ? SUCCESS : NOT_INITIALIZED;

	if (result || !module)
		return result ? result : INVALID_HANDLE;
	result = tell(UNLOAD, module->id, 0);
	while (module->functions) {
		struct function *gone = module->functions;

		module->functions = gone->next;
		free(gone->parameters);
		free(gone);
	}
	free(module);
	return result;
}

static CUresult ask_for(struct function **made, CUmodule module, const char *name)
{
	struct request request = {.operation = FUNCTION, .size = strlen(name), .a = {module->id}};
	struct reply reply;
	void *parameters = NULL;
	CUresult result = ask(&request, name, &reply, &parameters);

	if (result) {
		free(parameters);
		return result;
	}
	*made = calloc(1, sizeof(**made) + request.size + 1);
	if (!*made)
		return OUT_OF_MEMORY;
	strcpy((*made)->name, name);
	(*made)->module = module;
	(*made)->id = reply.a[0];
	(*made)->shared = reply.a[1];
	(*made)->local = reply.a[2];
	(*made)->threads = reply.a[3];
	(*made)->dynamic = 48 << 10;
	(*made)->parameters = parameters;
	(*made)->count = reply.size / sizeof(struct parameter);
	return SUCCESS;
}

API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	CUresult result = usable();
	struct function *known;

	if (result || !module || !name || !function)
		return result ? result : INVALID_HANDLE;
	pthread_mutex_lock(&module->lock);
	for (known = module->functions; known && strcmp(known->name, name); known = known->next)
		;
	if (!known) {
		result = ask_for(&known, module, name);
		if (!result) {
			known->next = module->functions;
			module->functions = known;
		}
	}
	pthread_mutex_unlock(&module->lock);
	if (!result)
		*function = known;
	return result;
}

API CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule module, const char *name)
{
	CUresult result = usable();
	struct request request = {.operation = VARIABLE, .size = name ? strlen(name) : 0};
	struct reply reply;
	struct range known;

	if (result || !module || !name)
		return result ? result : INVALID_HANDLE;
	request.a[0] = module->id;
	result = ask(&request, name, &reply, NULL);
	if (result)
		return result;
	if (!find_range(reply.a[0], &known))
		add_range((struct range){.address = reply.a[0], .size = reply.a[1], .kind = VARIABLE_KIND});
	if (address)
		*address = reply.a[0];
	if (size)
		*size = reply.a[1];
	return SUCCESS;
}

/* List a module's kernels, at most `room`; `count` is how many it has. */
static CUresult enumerate(CUfunction *functions, unsigned int room, CUmodule module, unsigned int *count)
{
	struct request request = {.operation = NAMES, .a = {module ? module->id : 0}};
	struct reply reply;
	void *names = NULL;
	CUresult result = usable();

	if (!result)
		result = ask(&request, NULL, &reply, &names);
	*count = 0;
	for (size_t at = 0; !result && at < reply.size; at += strlen((char *)names + at) + 1) {
		if (*count < room)
			result = cuModuleGetFunction(functions + *count, module, (char *)names + at);
		(*count)++;
	}
	free(names);
	return result;
}

API CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
	return enumerate(NULL, 0, module, count);
}

API CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int room, CUmodule module)
{
	unsigned int count;

	return enumerate(functions, room, module, &count);
}

API CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	return load_file(module, path);
}

API CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return load(module, image);
}

API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, int *options, void **values)
{
	return load_with(module, image, count, options, values);
}

API CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	return load(module, image);
}

API CUresult cuModuleUnload(CUmodule module)
{
	return unload(module);
}

API CUresult cuModuleGetLoadingMode(int *mode)
{
	*mode = 1; /* eager */
	return SUCCESS;
}

/* Libraries are independent of contexts; cudart loads them before it creates one. */
static CUresult with_context(CUresult (*act)(CUmodule *, const void *), CUmodule *module, const void *given)
{
	CUcontext own = NULL;
	CUresult result = SUCCESS;

	if (current_context())
		return act(module, given);
	result = cuDevicePrimaryCtxRetain(&own, 0);
	if (result)
		return result;
	cuCtxPushCurrent_v2(own);
	result = act(module, given);
	cuCtxPopCurrent_v2(NULL);
	cuDevicePrimaryCtxRelease_v2(0);
	return result;
}

API CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jit_options, void **jit_values,
			       unsigned int jit_count, int *options, void **values, unsigned int count)
{
	(void)jit_options;
	(void)jit_values;
	(void)jit_count;
	(void)options;
	(void)values;
	(void)count;
	return with_context(load, library, code);
}

static CUresult load_path(CUmodule *module, const void *path)
{
	return load_file(module, path);
}

API CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *jit_options, void **jit_values,
				   unsigned int jit_count, int *options, void **values, unsigned int count)
{
	(void)jit_options;
	(void)jit_values;
	(void)jit_count;
	(void)options;
	(void)values;
	(void)count;
	return with_context(load_path, library, path);
}

API CUresult cuLibraryUnload(CUlibrary library)
{
	return unload(library);
}

struct named {
	const char *name;
	CUfunction *function;
};

static CUresult find_kernel(CUmodule *module, const void *given)
{
	const struct named *wanted = given;

	return cuModuleGetFunction(wanted->function, *module, wanted->name);
}

API CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	return with_context(find_kernel, &library, &(struct named){name, kernel});
}

API CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
	return cuModuleGetFunctionCount(count, library);
}

API CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int room, CUlibrary library)
{
	return cuModuleEnumerateFunctions(kernels, room, library);
}

API CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	*module = library;
	return library ? SUCCESS : INVALID_HANDLE;
}

API CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *size, CUlibrary library, const char *name)
{
	return cuModuleGetGlobal_v2(address, size, library, name);
}

API CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *size, CUlibrary library, const char *name)
{
	return cuModuleGetGlobal_v2(address, size, library, name);
}

API CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	*function = kernel;
	return kernel ? SUCCESS : INVALID_HANDLE;
}

API CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
	*library = kernel ? kernel->module : NULL;
	return kernel ? SUCCESS : INVALID_HANDLE;
}

API CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
	return cuKernelGetLibrary(module, function);
}
