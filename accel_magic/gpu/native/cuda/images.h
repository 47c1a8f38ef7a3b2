/* Images as programs pass them to the driver: without their size. */
#ifndef ACCEL_IMAGES_H
#define ACCEL_IMAGES_H

#include <stddef.h>

struct span {
	const void *data;
	size_t size;
};

/* Return the image, without a fatbin's wrapper; size 0 if it is not PTX, cubin or fatbin, or if it is large and has no
 * PTX. */
struct span image_span(const void *image);

/* Read a file, with zeros at its end; release it with `image_file_release`. */
struct span image_file(const char *path);
void image_file_release(struct span file);

#endif
