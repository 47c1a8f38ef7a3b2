/* Reporting of launches to the notebook. */
#ifndef ACCEL_LAUNCHES_H
#define ACCEL_LAUNCHES_H

#include <stdint.h>

#include "driver.h"

struct shape {
	unsigned grid[3], block[3], shared;
	Handle stream;
};

/* The program records graphs: from now on check whether streams are being captured. */
void launches_may_be_captured(void);

/* Whether a launch into this stream is only recorded. */
int launches_captured(Handle stream);

/* Report a launch that the driver has accepted, from `before` to now. */
void launches_report(uint32_t function, const struct shape *shape, uint64_t before);

#endif
