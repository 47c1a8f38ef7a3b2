/* What a traced process and the notebook say to each other; accel_magic/gpu/native/server.py has the same in Python.
 *
 * Messages go over a SOCK_SEQPACKET socket: a struct message, a text behind it, and at most one descriptor.
 * Launches go through memory that both have mapped: a struct ring.
 */
#ifndef ACCEL_WIRE_H
#define ACCEL_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#define WIRE_VERSION 1
#define WIRE_TEXT 65536
#define RING_RECORDS 65536

enum kind {
	/* from the process */
	HELLO = 1,   /* number: WIRE_VERSION, a: architecture (90), b: devices, c: version of the driver; text: executable */
	ADDRESS = 2, /* answer to ALLOCATE and SHARE; a: address or 0, b: the driver's error, c: how it is kept */
	IMAGE = 3,   /* number: module, a: bytes; descriptor: the image */
	LOADED = 4,  /* number: module, a: the driver's error; if that is not 0 an answer is waited for */
	FUNCTION = 5, /* number: function, a: module; text: its name */
	/* from the notebook */
	RING = 16,     /* descriptor: struct ring */
	ALLOCATE = 17, /* number: 0 device memory, 1 host memory; a: bytes; descriptor: their content, kept up to date */
	SHARE = 18,    /* a: bytes; descriptor: memory to map for kernels */
	FREE = 19,     /* a: address */
	READY = 20,    /* images may come */
	REFUSED = 21,  /* this process is not traced */
	ORIGINAL = 22, /* load the image as it is */
	REPLACED = 23, /* a: bytes; descriptor: the image to load instead */
};

/* How memory and the notebook's file of it belong together. */
enum kept {
	COPIED,    /* device memory, copied into the file */
	MAPPED,    /* the file itself */
	ALLOCATED, /* memory of the host, copied into the file */
};

struct message {
	uint32_t kind;
	uint32_t number;
	uint64_t a, b, c;
};

struct launch {
	_Atomic uint64_t turn; /* its place among all launches, from 1; written last */
	uint32_t function;
	uint32_t thread;
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared;
	uint32_t unused;
	uint64_t stream;
	uint64_t before, after; /* CLOCK_MONOTONIC, ns */
};

struct ring {
	_Atomic uint64_t reserved; /* by the process */
	_Atomic uint64_t consumed; /* by the notebook */
	_Atomic uint64_t lost;     /* launches without room */
	_Atomic uint64_t graphs;   /* launches of graphs, whose kernels are not seen */
	_Atomic uint64_t captured; /* launches that only went into a graph */
	_Atomic uint64_t linked;   /* inputs of the driver's linker */
	_Atomic uint64_t elsewhere; /* modules loaded into another context than the maps' */
	_Atomic uint64_t originals; /* launches of kernels as they were before, because the maps are gone */
	_Atomic uint64_t wanted;   /* snapshots that the notebook has asked for */
	_Atomic uint64_t answered; /* the last of them that was taken */
	_Atomic uint64_t taken_ns; /* when the maps were copied last */
	_Atomic uint64_t gone;     /* 1: the maps' context was destroyed, 2: the process has ended */
	_Atomic uint64_t closed;   /* by the notebook: the trace is over */
	uint64_t unused[3];
	struct launch launches[RING_RECORDS];
};

#endif
