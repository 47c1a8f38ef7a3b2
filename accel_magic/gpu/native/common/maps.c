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

#include "api.h"
#include "talk.h"

/* Name of our threads, by which subsystems/host_api/calls.py distinguishes our driver calls from the program's. */
#define OUR_NAME "accel_magic"

enum {
	BLOCKS = 256,
	END_S = 2,
	SNAPSHOT_MS = 200,
	NO_ROOM = 2, /* error answered if nothing else is known */
	MOST_SHARE = 10, /* copying may take a tenth of the time */
};

static struct {
	pthread_mutex_t copying;
	struct ring *_Atomic ring;
	struct block blocks[BLOCKS];
	int count;
	pid_t process;
} maps = {.copying = PTHREAD_MUTEX_INITIALIZER};

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void maps_begin(void)
{
	pthread_mutex_init(&maps.copying, NULL);
	maps.count = 0;
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

void maps_place(struct message asked, int descriptor)
{
	struct message answer = {.kind = ADDRESS};
	struct block block = {.size = asked.a};
	int error = NO_ROOM;

	block.file = map_file(descriptor, block.size);
	if (block.file && maps.count < BLOCKS)
		error = api_place(&block, asked.kind == ALLOCATE && asked.number == 0, asked.kind == SHARE);
	if (error) {
		answer.b = (uint64_t)(int64_t)error;
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

void maps_take_back(uint64_t address)
{
	for (int i = 0; i < maps.count; i++) {
		struct block *block = &maps.blocks[i];

		if (block->address != address)
			continue;
		api_free(block);
		munmap(block->file, block->size);
		*block = maps.blocks[--maps.count];
		return;
	}
}

/* Requires api_enter. */
static void copy_maps(void)
{
	struct ring *ring = atomic_load(&maps.ring);
	uint64_t wanted = atomic_load(&ring->wanted);
	int error = 0;

	for (int i = 0; i < maps.count; i++) {
		struct block *block = &maps.blocks[i];

		if (block->kept == COPIED)
			error |= api_copy(block);
		else if (block->kept == ALLOCATED)
			memcpy(block->file, block->memory, block->size);
	}
	error |= api_copied();
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
	int pause_ms = SNAPSHOT_MS;

	(void)unused;
	prctl(PR_SET_NAME, OUR_NAME);
	api_enter();
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

	/* The ending process may be a vforked child, which shares this memory. */
	if (!ring || getpid() != maps.process)
		return;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += END_S;
	if (pthread_mutex_timedlock(&maps.copying, &limit))
		return;
	if (!atomic_load(&ring->gone) && !atomic_load(&ring->closed) && api_enter()) {
		copy_maps();
		api_leave();
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

int maps_keep(void)
{
	pthread_t thread;
	sigset_t all, before;
	int failed;

	/* The program's signal handlers must run on the program's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, NULL, keep_copying, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!failed)
		pthread_detach(thread);
	return !failed && !atexit(at_exit);
}
