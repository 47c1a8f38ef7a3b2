/* Images as programs hand them to the driver: without their size. */
#ifndef ACCEL_IMAGES_H
#define ACCEL_IMAGES_H

#include <stddef.h>

struct span {
	const void *data;
	size_t size;
};

/* The image itself, of a fatbin past its wrapper; size 0 for what is neither PTX, cubin nor fatbin, or not worth
 * looking at: large, and without PTX. */
struct span image_span(const void *image);

/* The same for a file's content, null-terminated; `release` it. */
struct span image_file(const char *path);
void image_file_release(struct span file);

#endif
