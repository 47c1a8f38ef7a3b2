/* Reporting of launches to the notebook. */
#ifndef ACCEL_LAUNCHES_H
#define ACCEL_LAUNCHES_H

#include <stdint.h>

struct shape {
	unsigned grid[3], block[3], shared, lanes;
	void *stream;
};

/* Report a launch that the API has accepted, from `before` to now; `number` is what programs read as its number. */
void launches_report(uint32_t function, const struct shape *shape, uint64_t before, uint32_t number);

/* Programs read launches' numbers at this address too; null forgets all addresses. */
void launches_numbered_at(uint64_t *address);

/* Write a launch's number for programs. */
void launches_write_number(uint32_t number);

/* Whether programs read launches' numbers, and where: null behind the last place. */
int launches_are_numbered(void);
uint64_t *launches_word(int at);

#endif
