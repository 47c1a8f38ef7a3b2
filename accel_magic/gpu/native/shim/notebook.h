/* What this process offers to the notebook, and what it gets back. */
#ifndef ACCEL_NOTEBOOK_H
#define ACCEL_NOTEBOOK_H

#include <stddef.h>
#include <stdint.h>

#include "driver.h"
#include "wire.h"

/* Where launches go; null while this process is not traced. */
struct ring *notebook_ring(void);

/* An image to load instead of another one. */
struct image {
	void *data; /* null: the original */
	size_t size;
	uint32_t module;
};

/* Offer an image; with a first one the notebook is sought and the maps are made. */
struct image notebook_offer(const void *data, size_t size);

/* Say how loading went; after an error what to load next. Unmaps the image that was tried. */
struct image notebook_loaded(struct image tried, CUresult error);

void image_free(struct image image);

/* Name a function; its number, or 0. */
uint32_t notebook_function(const char *name, uint32_t module);

#endif
