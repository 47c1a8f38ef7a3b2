/* Wrappers of calls that load modules and libraries. */
#include "modules.h"
#include "wrapped.h"

SHOWN CUresult cuModuleLoadDataEx(Handle *module, const void *image, unsigned count, int *options, void **values);
SHOWN CUresult cuModuleLoadData(Handle *module, const void *image);
SHOWN CUresult cuModuleLoadFatBinary(Handle *module, const void *image);
SHOWN CUresult cuModuleLoad(Handle *module, const char *path);
SHOWN CUresult cuLibraryLoadData(Handle *library, const void *code, int *options, void **values, unsigned count,
				 int *library_options, void **library_values, unsigned library_count);
SHOWN CUresult cuLibraryLoadFromFile(Handle *library, const char *path, int *options, void **values, unsigned count,
				     int *library_options, void **library_values, unsigned library_count);

struct given {
	const struct loading *loading;
	const void *image; /* or a path */
};

static CUresult data_ex(const struct loading *with, const void *image)
{
	return REAL(cuModuleLoadDataEx)(with->result, image, with->count, with->options, with->values);
}

static CUresult data(const struct loading *with, const void *image)
{
	return REAL(cuModuleLoadData)(with->result, image);
}

static CUresult library_data(const struct loading *with, const void *image)
{
	return REAL(cuLibraryLoadData)(with->result, image, with->options, with->values, with->count,
				       with->library_options, with->library_values, with->library_count);
}

static CUresult as_given(const void *closure)
{
	const struct given *given = closure;

	return given->loading->load(given->loading, given->image);
}

static CUresult fat_binary_as_given(const void *closure)
{
	const struct given *given = closure;

	return REAL(cuModuleLoadFatBinary)(given->loading->result, given->image);
}

static CUresult file_as_given(const void *closure)
{
	const struct given *given = closure;

	return REAL(cuModuleLoad)(given->loading->result, given->image);
}

static CUresult library_file_as_given(const void *closure)
{
	const struct given *given = closure;
	const struct loading *with = given->loading;

	return REAL(cuLibraryLoadFromFile)(with->result, given->image, with->options, with->values, with->count,
					   with->library_options, with->library_values, with->library_count);
}

static CUresult load_image(const struct loading *loading, const void *image, int library,
			   CUresult (*original)(const void *))
{
	struct given given = {loading, image};

	return modules_load(loading, image_span(image), library, original, &given);
}

static CUresult load_file(const struct loading *loading, const char *path, int library,
			  CUresult (*original)(const void *))
{
	struct given given = {loading, path};
	struct span file = image_file(path);
	CUresult error = modules_load(loading, image_span(file.data), library, original, &given);

	image_file_release(file);
	return error;
}

CUresult cuModuleLoadDataEx(Handle *module, const void *image, unsigned count, int *options, void **values)
{
	struct loading loading = {.result = module, .options = options, .values = values, .count = count, .load = data_ex};

	return load_image(&loading, image, 0, as_given);
}

CUresult cuModuleLoadData(Handle *module, const void *image)
{
	struct loading loading = {.result = module, .load = data};

	return load_image(&loading, image, 0, as_given);
}

CUresult cuModuleLoadFatBinary(Handle *module, const void *image)
{
	struct loading loading = {.result = module, .load = data};

	return load_image(&loading, image, 0, fat_binary_as_given);
}

CUresult cuModuleLoad(Handle *module, const char *path)
{
	struct loading loading = {.result = module, .load = data};

	return load_file(&loading, path, 0, file_as_given);
}

CUresult cuLibraryLoadData(Handle *library, const void *code, int *options, void **values, unsigned count,
			   int *library_options, void **library_values, unsigned library_count)
{
	struct loading loading = {library, options, values, count, library_options, library_values, library_count,
				  library_data};

	return load_image(&loading, code, 1, as_given);
}

CUresult cuLibraryLoadFromFile(Handle *library, const char *path, int *options, void **values, unsigned count,
			       int *library_options, void **library_values, unsigned library_count)
{
	struct loading loading = {library, options, values, count, library_options, library_values, library_count,
				  library_data};

	return load_file(&loading, path, 1, library_file_as_given);
}
