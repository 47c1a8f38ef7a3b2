#define _GNU_SOURCE
#include "maps.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "talk.h"

/* Name of our threads, by which subsystems/host_api/calls.py distinguishes our driver calls from the program's. */
#define OUR_NAME "accel_magic"

enum {
	BLOCKS = 256,
	END_S = 2,
	SNAPSHOT_MS = 200,
	MOST_SHARE = 10, /* copying may take a tenth of the time */
};

struct block {
	Address address;
	void *file; /* mapping of the notebook's file */
	size_t size;
	void *memory; /* only for ALLOCATED */
	enum kept kept;
};

static struct {
	pthread_mutex_t copying;
	struct ring *_Atomic ring;
	Handle context;
	Handle stream;
	struct block blocks[BLOCKS];
	int count;
	int devices;
	pid_t process;
} maps = {.copying = PTHREAD_MUTEX_INITIALIZER};

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void maps_begin(int devices)
{
	pthread_mutex_init(&maps.copying, NULL);
	maps.context = NULL;
	maps.count = 0;
	maps.devices = devices;
	maps.process = getpid();
	maps_ring_at(NULL);
}

void maps_ring_at(struct ring *ring)
{
	atomic_store(&maps.ring, ring);
}

struct ring *maps_ring(void)
{
	return atomic_load_explicit(&maps.ring, memory_order_acquire);
}

Handle maps_context(void)
{
	return maps.context;
}

int maps_reachable(void)
{
	struct ring *ring = atomic_load_explicit(&maps.ring, memory_order_acquire);
	Handle current = NULL;

	if (!ring || atomic_load_explicit(&ring->gone, memory_order_relaxed))
		return 0;
	driver.ctx_get_current(&current);
	return !current || current == maps.context || maps.devices > 1;
}

static void *map_file(int descriptor, size_t size)
{
	void *memory = MAP_FAILED;

	if (descriptor >= 0)
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

void *maps_take_file(int descriptor, size_t size)
{
	void *memory = map_file(descriptor, size);

	if (descriptor >= 0)
		close(descriptor);
	return memory;
}

static CUresult place_in_device(struct block *block)
{
	CUresult error = driver.mem_alloc(&block->address, block->size);

	block->kept = COPIED;
	if (!error)
		error = driver.to_device(block->address, block->file, block->size);
	return error;
}

static CUresult place_in_host(struct block *block, int only_mapped)
{
	CUresult error = NOT_SUPPORTED;

	if (driver.host_register && driver.host_unregister)
		error = driver.host_register(block->file, block->size, HOST_PORTABLE | HOST_DEVICEMAP);

	block->kept = MAPPED;
	if (!error)
		return driver.host_address(&block->address, block->file, 0);
	if (only_mapped)
		return error;
	block->kept = ALLOCATED;
	error = driver.host_alloc(&block->memory, block->size, HOST_PORTABLE | HOST_DEVICEMAP);
	if (error)
		return error;
	memcpy(block->memory, block->file, block->size);
	return driver.host_address(&block->address, block->memory, 0);
}

void maps_place(struct message asked, int descriptor)
{
	struct message answer = {.kind = ADDRESS};
	struct block block = {.size = asked.a};
	CUresult error = OUT_OF_MEMORY;

	block.file = map_file(descriptor, block.size);
	if (block.file && maps.count < BLOCKS) {
		/* Only portable host memory can be accessed by every device. */
		if (asked.kind == ALLOCATE && asked.number == 0 && maps.devices == 1)
			error = place_in_device(&block);
		else
			error = place_in_host(&block, asked.kind == SHARE);
	}
	if (error) {
		answer.b = (uint64_t)error;
		if (block.file)
			munmap(block.file, block.size);
	} else {
		answer.a = block.address;
		answer.c = block.kept;
		maps.blocks[maps.count++] = block;
	}
	if (descriptor >= 0) /* not before: a driver may look up the file of memory that it registers */
		close(descriptor);
	talk_tell(answer, NULL, -1);
}

void maps_take_back(Address address)
{
	for (int i = 0; i < maps.count; i++) {
		struct block *block = &maps.blocks[i];

		if (block->address != address)
			continue;
		if (block->kept == COPIED)
			driver.mem_free(block->address);
		else if (block->kept == MAPPED)
			driver.host_unregister(block->file);
		else
			driver.host_free(block->memory);
		munmap(block->file, block->size);
		*block = maps.blocks[--maps.count];
		return;
	}
}

/* Requires that the maps' context is current. */
static void copy_maps(void)
{
	struct ring *ring = atomic_load(&maps.ring);
	uint64_t wanted = atomic_load(&ring->wanted);
	CUresult error = 0;

	for (int i = 0; i < maps.count; i++) {
		struct block *block = &maps.blocks[i];

		if (block->kept == COPIED)
			error |= driver.to_host(block->file, block->address, block->size, maps.stream);
		else if (block->kept == ALLOCATED)
			memcpy(block->file, block->memory, block->size);
	}
	error |= driver.stream_wait(maps.stream);
	if (!error) {
		atomic_store(&ring->taken_ns, now_ns());
		atomic_store(&ring->answered, wanted);
	}
}

/* Copy the maps, unless they or the notebook are gone; returns milliseconds until the next copy, or -1. */
static int copy_once(struct ring *ring, int left)
{
	uint64_t began = now_ns();
	int pause_ms = -1;

	pthread_mutex_lock(&maps.copying);
	if (left || !talk_is_open())
		atomic_store(&ring->closed, 1);
	else if (!atomic_load(&ring->gone)) {
		copy_maps();
		pause_ms = (int)((now_ns() - began) / 1000000u) * MOST_SHARE;
		pause_ms = pause_ms < SNAPSHOT_MS ? SNAPSHOT_MS : pause_ms;
	}
	pthread_mutex_unlock(&maps.copying);
	return pause_ms;
}

static void *keep_copying(void *unused)
{
	struct ring *ring = atomic_load(&maps.ring);
	int relaxed = CAPTURE_RELAXED; /* calls of this thread must not affect captures of the program */
	int pause_ms = SNAPSHOT_MS;

	(void)unused;
	prctl(PR_SET_NAME, OUR_NAME);
	if (driver.capture_mode)
		driver.capture_mode(&relaxed);
	driver.ctx_push(maps.context);
	while (pause_ms >= 0) {
		struct pollfd left = {talk_descriptor(), POLLRDHUP, 0};

		poll(&left, 1, pause_ms);
		pause_ms = copy_once(ring, left.revents);
	}
	return NULL;
}

void maps_end(int how)
{
	struct ring *ring = atomic_load(&maps.ring);
	struct timespec limit;
	Handle context;

	/* The ending process may be a vforked child, which shares this memory. */
	if (!ring || getpid() != maps.process)
		return;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += END_S;
	if (pthread_mutex_timedlock(&maps.copying, &limit))
		return;
	if (!atomic_load(&ring->gone) && !atomic_load(&ring->closed) && !driver.ctx_push(maps.context)) {
		copy_maps();
		driver.ctx_pop(&context);
	}
	if (atomic_load(&ring->gone) < (uint64_t)how)
		atomic_store(&ring->gone, (uint64_t)how);
	pthread_mutex_unlock(&maps.copying);
}

static void at_exit(void)
{
	prctl(PR_SET_NAME, OUR_NAME);
	maps_end(2);
}

int maps_keep(Handle context)
{
	pthread_t thread;
	sigset_t all, before;
	int failed;

	maps.context = context;
	if (driver.stream_create(&maps.stream, NON_BLOCKING))
		return 0;
	/* The program's signal handlers must run on the program's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, NULL, keep_copying, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!failed)
		pthread_detach(thread);
	return !failed && !atexit(at_exit);
}
