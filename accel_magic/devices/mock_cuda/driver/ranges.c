/* This process's memory on the device, recorded here so that queries about pointers need no round trip. */
#include "mock_cuda.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges;
static size_t used, room;
static uint64_t numbered;

void add_range(struct range range)
{
	pthread_mutex_lock(&lock);
	if (used == room) {
		struct range *larger = realloc(ranges, (room * 2 + 16) * sizeof(*ranges));

		if (larger) {
			ranges = larger;
			room = room * 2 + 16;
		}
	}
	range.id = ++numbered;
	if (!range.host)
		range.host = process.map + (range.address - process.base);
	if (used < room)
		ranges[used++] = range;
	pthread_mutex_unlock(&lock);
}

/* The index of the range that contains a device or host address; -1 for none. */
static long holding(uint64_t address)
{
	for (size_t i = used; i-- > 0;) {
		uint64_t host = (uint64_t)(uintptr_t)ranges[i].host;

		if (address - ranges[i].address < ranges[i].size || address - host < ranges[i].size)
			return i;
	}
	return -1;
}

/* Remove the range that begins at a device or host address. */
int take_range(uint64_t address, enum kind kind, struct range *taken)
{
	long at;

	pthread_mutex_lock(&lock);
	at = holding(address);
	if (at >= 0 && (ranges[at].kind != kind || (ranges[at].address != address &&
						    (uint64_t)(uintptr_t)ranges[at].host != address)))
		at = -1;
	if (at >= 0) {
		*taken = ranges[at];
		memmove(ranges + at, ranges + at + 1, (used - at - 1) * sizeof(*ranges));
		used--;
	}
	pthread_mutex_unlock(&lock);
	return at >= 0;
}

int find_range(uint64_t address, struct range *found)
{
	long at;

	pthread_mutex_lock(&lock);
	at = holding(address);
	if (at >= 0)
		*found = ranges[at];
	pthread_mutex_unlock(&lock);
	return at >= 0;
}

/* The host's address of device bytes; NULL unless all are within one allocation. */
uint8_t *reach(uint64_t address, size_t size)
{
	struct range range;
	uint64_t offset;

	if (!find_range(address, &range))
		return NULL;
	offset = address - range.address;
	if (offset >= range.size)
		offset = address - (uint64_t)(uintptr_t)range.host;
	return size <= range.size - offset ? range.host + offset : NULL;
}

void forget_ranges(void)
{
	pthread_mutex_lock(&lock);
	free(ranges);
	ranges = NULL;
	used = room = 0;
	pthread_mutex_unlock(&lock);
}
