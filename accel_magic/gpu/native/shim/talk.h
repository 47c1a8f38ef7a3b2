/* The socket to the notebook. Once it has ended, or the program has closed it, nothing is said any more. */
#ifndef ACCEL_TALK_H
#define ACCEL_TALK_H

#include "wire.h"

/* Connect to where ACCEL_MAGIC_NATIVE leads; 0 when nobody is there. */
int talk_begin(void);
int talk_is_open(void);
void talk_end(void);

/* Send a message with a text (null: none) and a descriptor (-1: none); 0 when that fails. */
int talk_tell(struct message message, const char *text, int descriptor);

/* Wait for a message and its descriptor, -1 for none; 0 when that fails or takes too long. */
int talk_hear(struct message *message, int *descriptor);

/* For poll. */
int talk_descriptor(void);

#endif
