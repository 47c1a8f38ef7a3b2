/* SPDX-License-Identifier: Apache-2.0 */
/* What a command buffer makes the lab's device do: 64 bytes for a fault request (npu_uapi.h), then a header and the
 * commands. Real NPUs have another format. accel_magic/lab/device/commands.py has the same layouts in Python.
 */
#ifndef ACCEL_MAGIC_JOB_FORMAT_H
#define ACCEL_MAGIC_JOB_FORMAT_H

#include <stdint.h>

#define JOB_AT 64
#define JOB_MAGIC 0x4a55504eu /* "NPUJ" */
#define JOB_LARGEST (1 << 16)  /* bytes of header and commands */

enum job_kind {
	JOB_EXECUTE = 1, /* spans: the graph's inputs, its outputs, and a slot for the layers' times if they are wanted */
	JOB_COPY,        /* target, source */
	JOB_BARRIER,
	JOB_TIMESTAMP,   /* eight bytes */
	JOB_SIGNAL,      /* an event: eight bytes, 1 if it is set */
	JOB_RESET,
	JOB_WAIT,
	JOB_LOAD,        /* a blob, an answer; `graph` becomes the graph's number in this context */
	JOB_QUERY,       /* a blob, an answer: names of the layers that the device can execute */
	JOB_AWAIT,       /* an answer: again that of LOAD or QUERY, which was not ready */
	JOB_UNLOAD,
};

struct job_span {
	uint64_t address, size; /* in the NPU's address space */
};

struct job_command {
	uint32_t kind, graph, spans, reserved;
	struct job_span span[];
};

struct job_header {
	uint32_t magic, commands;
	uint64_t bytes; /* header and commands */
};

enum job_answer_status { JOB_DONE, JOB_FAILED, JOB_NOT_READY };

/* The answer to LOAD, QUERY and AWAIT. Failed: a message. QUERY: names. LOAD: struct job_graph. */
struct job_answer {
	uint64_t status, size;
	char content[];
};

struct job_graph {
	uint32_t arguments, name_size; /* the name follows, with zero bytes up to a multiple of 8, then the arguments */
};

struct job_argument {
	uint32_t type, precision, data_type, rank;
	uint64_t bytes;
	uint64_t shape[8];
	uint32_t names, text_size; /* then text: name, friendly name, the tensor's names, each with a zero byte; then as above */
};

/* A slot for layers' times: a count, a reserved word, then struct npu_layer. */
#define JOB_MOST_LAYERS 1024

#endif
