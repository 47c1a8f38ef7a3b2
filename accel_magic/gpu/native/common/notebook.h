/* Exchange of images and names with the notebook. */
#ifndef ACCEL_NOTEBOOK_H
#define ACCEL_NOTEBOOK_H

#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* The ring of launches; null while this process is not traced. */
struct ring *notebook_ring(void);

/* A replacement for an image. */
struct image {
	void *data; /* null: the original */
	size_t size;
	uint32_t module;
	uint64_t lanes; /* whether the programs in it look at all lanes of a sub-group */
};

/* Connect to the notebook and place the maps, if this was not tried yet. */
void notebook_connect(void);

/* Say hello once to a notebook that is going to refuse this process, which may connect later. */
void notebook_greet(void);

/* Send an image, with what is known about it in `b` and `c` and a text; the first call connects to the notebook and
 * places the maps. */
struct image notebook_offer(const void *data, size_t size, struct message about, const char *text);

/* Report the result of loading, with a text; after an error, unmaps the image and returns what to load next. */
struct image notebook_loaded(struct image tried, int error, const char *text);

void image_free(struct image image);

/* Report a function's name; returns its number, or 0. */
uint32_t notebook_function(const char *name, uint32_t module);

/* Report why a kernel is not traced. */
void notebook_left(enum left reason, const char *kernel);

#endif
