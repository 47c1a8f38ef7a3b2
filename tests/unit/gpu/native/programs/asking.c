/* Executes the steps in LIST, one after another: asking IMAGE LIST... With the mock CUDA driver in keeping.c. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int CUresult;
typedef void *Handle;

typedef CUresult Launch(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void **,
			void **);
typedef CUresult Entry(const char *, void **, int, uint64_t, int *);

static void *driver;
static char image[1 << 20];
static Handle module, kernel, context;

#define DRIVER(type, name) ((type)dlsym(driver, name))

static void launch(const char *way, unsigned blocks, Handle stream)
{
	unsigned config[] = {blocks, 1, 1, 32, 1, 1, 0, 0, (unsigned)(uintptr_t)stream, 0, 0, 0, 0, 0};
	void *found;

	if (!strcmp(way, "launch"))
		DRIVER(Launch *, "cuLaunchKernel")(kernel, blocks, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
	else if (!strcmp(way, "launch_ex"))
		DRIVER(CUresult(*)(const void *, Handle, void **, void **), "cuLaunchKernelEx")(config, kernel, NULL, NULL);
	else if (!DRIVER(Entry *, "cuGetProcAddress_v2")("cuLaunchKernel", &found, 12000, 2, NULL))
		((Launch *)found)(kernel, blocks, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

static void load_with_options(void)
{
	int option = 4; /* CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES */
	void *value = (void *)64;

	DRIVER(CUresult(*)(Handle *, const void *, unsigned, int *, void **), "cuModuleLoadDataEx")
	(&module, image, 1, &option, &value);
	printf("%d\n", (int)(uintptr_t)value);
}

static void load_library(void)
{
	DRIVER(CUresult(*)(Handle *, const void *, int *, void **, unsigned, int *, void **, unsigned), "cuLibraryLoadData")
	(&module, image, NULL, NULL, 0, NULL, NULL, 0);
	DRIVER(CUresult(*)(Handle *, Handle, const char *), "cuLibraryGetKernel")(&kernel, module, "add");
}

static void many(void)
{
	Launch *call = DRIVER(Launch *, "cuLaunchKernel");
	struct timespec begin, end;
	int count = 20000;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < count; i++)
		call(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.0f\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / count);
}

static pthread_barrier_t together;

static void *launch_many(void *unused)
{
	Launch *call = DRIVER(Launch *, "cuLaunchKernel");

	pthread_barrier_wait(&together);
	for (int i = 0; i < 15000; i++)
		call(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	return NULL;
}

static void race(void)
{
	pthread_t all[4];

	pthread_barrier_init(&together, NULL, 4);
	for (int i = 0; i < 4; i++)
		pthread_create(&all[i], NULL, launch_many, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(all[i], NULL);
}

/* Like a daemon; files that it opens afterwards may reuse the descriptors. */
static void close_all(void)
{
	int ends[2];

	for (int at = 3; at < 1024; at++)
		close(at);
	socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends);
	for (int at = 5; at < 1000; at++)
		dup2(ends[0], at);
}

static void in_child(void)
{
	fflush(stdout);
	if (!fork()) {
		launch("launch", 9, NULL);
		_exit(0);
	}
	wait(NULL);
}

static void in_borrowed_memory(void)
{
	if (!vfork())
		_exit(0);
}

int main(int count, char **given)
{
	FILE *file = fopen(given[1], "rb");

	fread(image, 1, sizeof image - 1, file);
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	DRIVER(CUresult(*)(Handle *, unsigned, int), "cuCtxCreate_v2")(&context, 0, 0);
	for (int i = 2; i < count; i++) {
		const char *what = given[i];

		if (!strcmp(what, "load"))
			DRIVER(CUresult(*)(Handle *, const void *), "cuModuleLoadData")(&module, image);
		else if (!strcmp(what, "options"))
			load_with_options();
		else if (!strcmp(what, "file"))
			DRIVER(CUresult(*)(Handle *, const char *), "cuModuleLoad")(&module, given[1]);
		else if (!strcmp(what, "function"))
			DRIVER(CUresult(*)(Handle *, Handle, const char *), "cuModuleGetFunction")(&kernel, module, "add");
		else if (!strcmp(what, "failing"))
			launch("launch", 4711, NULL);
		else if (!strcmp(what, "graph"))
			DRIVER(CUresult(*)(Handle, Handle), "cuGraphLaunch")(NULL, NULL);
		else if (!strcmp(what, "capture"))
			DRIVER(CUresult(*)(Handle, int), "cuStreamBeginCapture_v2")((Handle)1, 0);
		else if (!strcmp(what, "captured"))
			launch("launch", 1, (Handle)1);
		else if (!strcmp(what, "end"))
			DRIVER(CUresult(*)(Handle, Handle *), "cuStreamEndCapture")((Handle)1, NULL);
		else if (!strcmp(what, "link"))
			DRIVER(CUresult(*)(Handle, int, void *, size_t, const char *, unsigned, int *, void **),
			       "cuLinkAddData_v2")(NULL, 1, image, 1, "x", 0, NULL, NULL);
		else if (!strcmp(what, "many"))
			many();
		else if (!strcmp(what, "fork"))
			in_child();
		else if (!strcmp(what, "vfork"))
			in_borrowed_memory();
		else if (!strcmp(what, "close"))
			close_all();
		else if (!strcmp(what, "race"))
			race();
		else if (!strcmp(what, "context"))
			DRIVER(CUresult(*)(Handle *, unsigned, int), "cuCtxCreate_v2")(&context, 0, 0);
		else if (!strcmp(what, "library"))
			load_library();
		else
			launch(what, 2, NULL);
	}
	return 0;
}
