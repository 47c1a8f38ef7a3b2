#define _GNU_SOURCE
#include "launches.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "maps.h"
#include "notebook.h"

enum { MOST_NUMBERED = 64 };

static uint64_t *numbered[MOST_NUMBERED];
static int numbers;

void launches_numbered_at(uint64_t *address)
{
	if (!address)
		numbers = 0;
	else if (numbers < MOST_NUMBERED)
		numbered[numbers++] = address;
}

int launches_are_numbered(void)
{
	return numbers > 0;
}

uint64_t *launches_word(int at)
{
	return at < numbers ? numbered[at] : NULL;
}

void launches_write_number(uint32_t number)
{
	for (int i = 0; i < numbers; i++)
		__atomic_store_n(numbered[i], number, __ATOMIC_SEQ_CST);
}

/* Reserve the number of the next launch, from 0; -1 if the ring is full. */
static int64_t reserve(struct ring *ring)
{
	uint64_t turn = atomic_load(&ring->reserved);

	do {
		if (turn - atomic_load(&ring->consumed) >= RING_RECORDS)
			return -1;
	} while (!atomic_compare_exchange_weak(&ring->reserved, &turn, turn + 1));
	return (int64_t)turn;
}

void launches_report(uint32_t function, const struct shape *shape, uint64_t before, uint32_t number)
{
	static __thread uint32_t thread;
	struct ring *ring = notebook_ring();
	struct launch *launch;
	int64_t turn;

	if (!ring)
		return;
	turn = reserve(ring);
	if (turn < 0) {
		atomic_fetch_add(&ring->lost, 1);
		return;
	}
	if (!thread)
		thread = (uint32_t)syscall(SYS_gettid);
	launch = &ring->launches[turn % RING_RECORDS];
	launch->function = function;
	launch->thread = thread;
	for (int i = 0; i < 3; i++) {
		launch->grid[i] = shape->grid[i];
		launch->block[i] = shape->block[i];
	}
	launch->shared = shape->shared;
	launch->number = number;
	launch->lanes = shape->lanes;
	launch->stream = (uint64_t)shape->stream;
	launch->before = before;
	launch->after = now_ns();
	atomic_store_explicit(&launch->turn, (uint64_t)turn + 1, memory_order_release);
}
