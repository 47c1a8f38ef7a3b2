/* Exchange of images and names with the notebook. */
#ifndef ACCEL_NOTEBOOK_H
#define ACCEL_NOTEBOOK_H

#include <stddef.h>
#include <stdint.h>

#include "driver.h"
#include "wire.h"

/* The ring of launches; null while this process is not traced. */
struct ring *notebook_ring(void);

/* A replacement for an image. */
struct image {
	void *data; /* null: the original */
	size_t size;
	uint32_t module;
};

/* Send an image; the first call connects to the notebook and places the maps. */
struct image notebook_offer(const void *data, size_t size);

/* Report the result of loading; after an error, unmaps the image and returns what to load next. */
struct image notebook_loaded(struct image tried, CUresult error);

void image_free(struct image image);

/* Report a function's name; returns its number, or 0. */
uint32_t notebook_function(const char *name, uint32_t module);

#endif
