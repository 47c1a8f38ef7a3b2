/* The socket to the notebook. After it has ended, or the program has closed it, nothing is sent. */
#ifndef ACCEL_TALK_H
#define ACCEL_TALK_H

#include "wire.h"

/* Connect to the socket at the path ACCEL_MAGIC_NATIVE; 0 if that fails. */
int talk_begin(void);
int talk_is_open(void);
void talk_end(void);

/* Send a message with a text (null: none) and a descriptor (-1: none); 0 if that fails. */
int talk_tell(struct message message, const char *text, int descriptor);

/* Wait for a message and its descriptor, -1 for none; 0 if that fails or takes too long. */
int talk_hear(struct message *message, int *descriptor);

/* For poll. */
int talk_descriptor(void);

#endif
