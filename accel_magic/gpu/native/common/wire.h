/* The protocol between a traced process and the notebook; accel_magic/gpu/native/native_protocol.py is the same in Python.
 *
 * Messages are sent over a SOCK_SEQPACKET socket: a struct message, followed by a text, and at most one descriptor.
 * Launches are passed through shared memory: a struct ring.
 */
#ifndef ACCEL_WIRE_H
#define ACCEL_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#define WIRE_VERSION 2
#define WIRE_TEXT 65536
#define RING_RECORDS 65536

enum kind {
	/* from the process */
	HELLO = 1, /* number: WIRE_VERSION; CUDA: a: architecture (90), b: devices; text: executable
		    * others: a: whether maps can be placed, b: 1, c: 1 for the traced device, and OF_LEVEL_ZERO; text:
		    * the device, a new line, executable */
	ADDRESS = 2, /* answer to ALLOCATE and SHARE; a: address or 0, b: the API's error, c: enum kept */
	IMAGE = 3,   /* number: module, a: bytes; descriptor: the image; OpenCL: b: enum language; text: build options */
	LOADED = 4,  /* number: module, a: the API's error; if it is not 0, the process waits for an answer; text: why */
	FUNCTION = 5, /* number: function, a: module, 0 if none; text: its name */
	LEFT = 6,     /* number: enum left; text: a kernel's name */
	/* from the notebook */
	RING = 16,     /* descriptor: struct ring */
	ALLOCATE = 17, /* number: 0 device memory, 1 host memory; a: bytes; descriptor: their content, kept up to date */
	SHARE = 18,    /* a: bytes; descriptor: memory to map for kernels */
	FREE = 19,     /* a: address */
	READY = 20,    /* images may be sent */
	REFUSED = 21,  /* this process is not traced */
	ORIGINAL = 22, /* load the unchanged image */
	REPLACED = 23, /* a: bytes, b: whether its programs look at all lanes; descriptor: the image to load instead */
	NUMBERED = 24, /* a: address of a u64 where each launch's number is written before it, so launches run one by one */
};

enum { OF_LEVEL_ZERO = 2 };

/* What an image of OpenCL is. */
enum language { IL, SOURCE };

/* Why a kernel of OpenCL or Level Zero is not traced. */
enum left {
	AS_BINARY = 1, /* its program was loaded as a binary */
	LINKED,        /* its program was linked from several */
	TOO_MANY_LANES,
};

/* How memory is connected to the notebook's file. */
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
	_Atomic uint64_t turn; /* its number among all launches, from 1; written last */
	uint32_t function;
	uint32_t thread;
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared;
	uint32_t number; /* what programs read as the launch's number; 0 if it is not known */
	uint64_t stream;
	uint64_t before, after; /* CLOCK_MONOTONIC, ns */
	uint32_t lanes;		/* of its warps or sub-groups; 0 if that is not known */
	uint32_t unused;
};

struct ring {
	_Atomic uint64_t reserved; /* by the process */
	_Atomic uint64_t consumed; /* by the notebook */
	_Atomic uint64_t lost;     /* launches that did not fit */
	_Atomic uint64_t graphs;   /* launches of graphs, whose kernels are not listed */
	_Atomic uint64_t captured; /* launches that were only recorded into a graph */
	_Atomic uint64_t linked;   /* inputs of the driver's linker */
	_Atomic uint64_t elsewhere; /* modules loaded into another context than the maps' */
	_Atomic uint64_t originals; /* launches of kernels without programs, because the maps cannot be accessed */
	_Atomic uint64_t wanted;   /* number of the last snapshot that the notebook requested */
	_Atomic uint64_t answered; /* number of the last snapshot that was taken */
	_Atomic uint64_t taken_ns; /* time of the last copy of the maps */
	_Atomic uint64_t gone;     /* 1: the maps' context was destroyed, 2: the process has ended */
	_Atomic uint64_t closed;   /* by the notebook: the trace is over */
	_Atomic uint64_t overlapping; /* launches that did not wait for the one before, though programs read numbers */
	uint64_t unused[2];
	struct launch launches[RING_RECORDS];
};

#endif
