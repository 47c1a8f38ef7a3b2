/* A hash table of numbers by driver handle: lock-free, never shrinks; a reused handle gets a new number. */
#ifndef ACCEL_HANDLES_H
#define ACCEL_HANDLES_H

#include <stdatomic.h>
#include <stdint.h>

#define HANDLES 65536 /* a power of two */

struct handles {
	struct {
		_Atomic(void *) handle;
		_Atomic uint32_t number;
	} slots[HANDLES];
};

/* Store a number; does nothing if the table is full. */
static inline void handles_set(struct handles *table, void *handle, uint32_t number)
{
	uint32_t at = (uint32_t)(((uintptr_t)handle >> 3) * 0x9E3779B1u);

	for (uint32_t i = 0; i < HANDLES; i++, at++) {
		void *empty = NULL, *there = atomic_load(&table->slots[at % HANDLES].handle);

		if (!there && atomic_compare_exchange_strong(&table->slots[at % HANDLES].handle, &empty, handle))
			there = handle;
		else if (!there)
			there = empty;
		if (there == handle) {
			atomic_store(&table->slots[at % HANDLES].number, number);
			return;
		}
	}
}

/* Return the number of a handle, 0 if it is not known. */
static inline uint32_t handles_get(struct handles *table, void *handle)
{
	uint32_t at = (uint32_t)(((uintptr_t)handle >> 3) * 0x9E3779B1u);

	for (uint32_t i = 0; i < HANDLES; i++, at++) {
		void *there = atomic_load(&table->slots[at % HANDLES].handle);

		if (there == handle)
			return atomic_load(&table->slots[at % HANDLES].number);
		if (!there)
			return 0;
	}
	return 0;
}

#endif
