/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that run inside GPU kernels.
 *
 *   #include "accel_gpu.h"
 *
 *   GPU_MAP(work, BPF_MAP_TYPE_PER_THREAD_ARRAY, u32, u64, 1);
 *
 *   SEC("gpu/memory")
 *   int count(struct gpu_ctx *ctx)
 *   {
 *           u32 key = 0;
 *           u64 *bytes = bpf_map_lookup_elem(&work, &key);
 *
 *           if (bytes)
 *                   *bytes += ctx->size;
 *           return 0;
 *   }
 *
 *   char LICENSE[] SEC("license") = "GPL";
 *
 * Sections: gpu/entry, gpu/exit, gpu/memory, gpu/load, gpu/loaded, gpu/store, gpu/atomic, gpu/async, gpu/shared,
 * gpu/unshared, gpu/barrier, gpu/fence, gpu/sync, gpu/branch, gpu/function/NAME and gpu/function_exit/NAME, each with /KERNEL (a glob)
 * behind it where not all kernels are meant.
 * With gpu.warp/ instead of gpu/ in front a program runs once for each warp, in its lowest active lane.
 * On the simulated device also gpu/block_enter, gpu/block_exit and gpu/should_try_steal, for whole blocks: they have a
 * struct gpu_block_ctx instead of a struct gpu_ctx.
 */
#ifndef ACCEL_MAGIC_GPU_H
#define ACCEL_MAGIC_GPU_H

/* Types, SEC, __uint, __type, bpf_printk and the helpers that CPU programs have too. */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

/* Maps that live on the device, next to BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_ARRAY and BPF_MAP_TYPE_RINGBUF. */
enum gpu_map_type {
	BPF_MAP_TYPE_GPU_HASH = 1501,
	BPF_MAP_TYPE_PER_THREAD_ARRAY = 1502, /* each thread of the grid has its own values */
	BPF_MAP_TYPE_GPU_ARRAY = 1503,	      /* all threads share the values */
	BPF_MAP_TYPE_SHARED_ARRAY = 1504,     /* shared with CPU programs too; needs BPF_F_MMAPABLE */
	BPF_MAP_TYPE_PER_THREAD_ARRAY_HOST = 1512, /* as 1502, in the host's memory */
	BPF_MAP_TYPE_GPU_ARRAY_HOST = 1513,	   /* as 1503, in the host's memory */
	BPF_MAP_TYPE_GPU_RINGBUF = 1527, /* records for each thread, written by bpf_perf_event_output */
};

/* GPU_MAP(counts, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, 64); then &counts is what the map helpers take. */
#define GPU_MAP(name, map_type, key_type, value_type, entries)                                             \
	struct {                                                                                           \
		__uint(type, map_type);                                                                    \
		__uint(max_entries, entries);                                                              \
		__type(key, key_type);                                                                     \
		__type(value, value_type);                                                                 \
	} name SEC(".maps")

/* GPU_RING(records, 1 << 20, struct record); then &records is what the ring helpers take, with so many bytes. */
#define GPU_RING(name, ring_bytes, value_type)                                                             \
	struct {                                                                                           \
		__uint(type, BPF_MAP_TYPE_RINGBUF);                                                        \
		__uint(max_entries, ring_bytes);                                                           \
		__type(value, value_type);                                                                 \
	} name SEC(".maps")

/* State space of a memory access; generic where the instruction does not name one. */
enum gpu_space {
	GPU_SPACE_GENERIC = 0,
	GPU_SPACE_GLOBAL = 1,
	GPU_SPACE_SHARED = 2,
	GPU_SPACE_LOCAL = 3,
	GPU_SPACE_CONST = 4,
	GPU_SPACE_PARAM = 5,
};

/* What the instruction does to memory; none at probes that are not at a memory operation. */
enum gpu_operation {
	GPU_OPERATION_NONE = 0,
	GPU_OPERATION_LOAD = 1,
	GPU_OPERATION_STORE = 2,
	GPU_OPERATION_ATOMIC = 3,
	GPU_OPERATION_ASYNC_COPY = 4,
};

/* How a load or a store interprets a value, as far as the instruction says. */
enum gpu_type {
	GPU_TYPE_BITS = 0,
	GPU_TYPE_UNSIGNED = 1,
	GPU_TYPE_SIGNED = 2,
	GPU_TYPE_FLOAT = 3,
};

/* What a program is told: its argument points to this. It may be read only, each field whole. */
struct gpu_ctx {
	__u64 address;	 /* of the access, in the window of its space */
	__u32 size;	 /* bytes that one lane accesses */
	__u32 space;	 /* enum gpu_space */
	__u32 operation; /* enum gpu_operation */
	__u32 site;	 /* number of the place within the traced cell */
	__u32 kernel;	 /* number of the kernel within the traced cell */
	__u32 active;	 /* mask of the warp's lanes that are here */
	__u64 launch;	 /* number of the launch on the device */
	__u64 value0;	 /* what a store writes or a load returned; of a vector the first component */
	__u64 value1;	 /* the other components, as in memory; those of type signed are sign-extended */
	__u64 value2;
	__u64 value3;
	__u64 value4;
	__u64 value5;
	__u64 value6;
	__u64 value7;
	__u32 values; /* number of components; 0 where values are not known */
	__u32 width;  /* bytes of a component */
	__u32 type;   /* enum gpu_type */
	__u32 mask;   /* lanes that an instruction of the warp names, at gpu/sync; else 0 */
};

/* The same for programs that run once for a whole block, on a worker: a slot of a multiprocessor that runs blocks one after
 * the other. */
struct gpu_block_ctx {
	__u64 block;	   /* its number in the grid, row by row; at should_try_steal the one that the worker ran last */
	__u64 time_ns;	   /* the device's clock, which stands still while the program runs */
	__u64 launch;	   /* number of the launch on the device */
	__u32 worker;	   /* number of the worker */
	__u32 kernel;	   /* number of the kernel within the traced cell */
	__u32 site;	   /* number of the place within the traced cell */
	__u32 executed;	   /* blocks that the worker has finished in this launch */
	__u32 stolen;	   /* blocks that it has begun and that were another worker's */
	__u32 left;	   /* blocks of the launch that have not begun */
	__u32 victim;	   /* at should_try_steal: the worker with most blocks that have not begun */
	__u32 victim_left; /* at should_try_steal: how many these are */
};

/* Where a thread is. Three numbers are written through pointers: x, y, z. */
AM_HELPER long (*const gpu_block_idx)(__u64 *x, __u64 *y, __u64 *z) = (void *)503;  /* the block in the grid */
AM_HELPER long (*const gpu_block_dim)(__u64 *x, __u64 *y, __u64 *z) = (void *)504;  /* threads of a block */
AM_HELPER long (*const gpu_thread_idx)(__u64 *x, __u64 *y, __u64 *z) = (void *)505; /* the thread in its block */
AM_HELPER long (*const gpu_grid_dim)(__u64 *x, __u64 *y, __u64 *z) = (void *)508;   /* blocks of the grid */
AM_HELPER __u64 (*const gpu_thread_number)(void) = (void *)607; /* in the whole grid, row by row */
AM_HELPER __u64 (*const gpu_block_number)(void) = (void *)608;	/* in the grid, row by row */
AM_HELPER __u64 (*const gpu_sm_id)(void) = (void *)509;		/* the multiprocessor; not on OpenCL devices */
AM_HELPER __u64 (*const gpu_warp_id)(void) = (void *)510;	/* the warp's slot there */
AM_HELPER __u64 (*const gpu_lane_id)(void) = (void *)511;	/* the lane in its warp, 0 to 31 */
AM_HELPER __u64 (*const gpu_warp_size)(void) = (void *)614;	/* lanes of a full warp: 32, on OpenCL devices what a sub-group has */
AM_HELPER __u64 (*const gpu_stripe_id)(void) = (void *)613;	/* chooses one of several counters: by the multiprocessor, or the block */

/* Clocks. */
AM_HELPER __u64 (*const gpu_globaltimer)(void) = (void *)502; /* nanoseconds, the same clock on all multiprocessors */
AM_HELPER __u64 (*const gpu_clock)(void) = (void *)606;	      /* cycles of this multiprocessor */

/* Lanes of a warp. All lanes that are active must call a vote together. */
AM_HELPER __u64 (*const gpu_active_mask)(void) = (void *)600;	  /* bit for each lane that is here */
AM_HELPER __u64 (*const gpu_is_leader)(void) = (void *)601;	  /* 1 in the lowest of them, else 0 */
AM_HELPER __u64 (*const gpu_ballot)(__u64 condition) = (void *)602; /* bit for each lane where it is not 0 */
AM_HELPER __u64 (*const gpu_any)(__u64 condition) = (void *)603;  /* 1 if it is not 0 in some lane */
AM_HELPER __u64 (*const gpu_all)(__u64 condition) = (void *)604;  /* 1 if it is not 0 in all lanes */

AM_HELPER __u64 (*const gpu_distinct)(__u64 value) = (void *)610;	/* how many different values the lanes pass */

AM_HELPER __u64 (*const gpu_is_first)(__u64 value) = (void *)612; /* 1 in the lowest lane that passes this value, else 0 */

/* How often the 32 banks of shared memory are asked for what the lanes access together: 1 where no bank has two words to
 * give, of accesses of 8 and 16 bytes 1 for each half and quarter of the warp. `size` is the same in all lanes. */
AM_HELPER __u64 (*const gpu_bank_passes)(__u64 address, __u32 size) = (void *)611;

/* Effects. */
AM_HELPER long (*const gpu_puts)(const char *text) = (void *)501;	 /* print a constant text */
AM_HELPER long (*const gpu_membar)(void) = (void *)506;			 /* order memory for the whole system */
AM_HELPER long (*const gpu_exit)(void) = (void *)507;			 /* end this thread of the traced kernel */
AM_HELPER long (*const gpu_prefetch)(const void *address) = (void *)605; /* bring a line into the L2 cache */
AM_HELPER long (*const gpu_barrier)(void) = (void *)609;		 /* wait for all threads of the block */

/*
 * Requests to bring memory to the device, which the host receives: t.prefetches has them. A file that makes requests
 * declares a ring for them once, of so many bytes (64 for each request); requests that do not fit are counted as lost.
 *
 *   GPU_PREFETCH_REQUESTS(1 << 20);
 *   gpu_mem_prefetch(ctx, ctx->address + 4096, 4096);
 */
struct gpu_prefetch_request {
	__u64 time_ns; /* globaltimer */
	__u64 address;
	__u64 bytes;
	__u64 block; /* of the thread that asks, in the grid, row by row */
	__u32 kernel;
	__u32 site;
};

#define GPU_PREFETCH_REQUESTS(ring_bytes)                                                                  \
	struct {                                                                                           \
		__uint(type, BPF_MAP_TYPE_RINGBUF);                                                        \
		__uint(max_entries, ring_bytes);                                                           \
		__type(value, struct gpu_prefetch_request);                                                \
	} prefetch_requests SEC(".maps")

/* Request that `bytes` bytes from `address` on be brought to the device; -1 if the ring is full. Any context will do. */
#define gpu_mem_prefetch(ctx, address, bytes)                                                              \
	gpu_request_prefetch(&prefetch_requests, (ctx)->kernel, (ctx)->site, address, bytes)

static __always_inline long gpu_request_prefetch(void *requests, u32 kernel, u32 site, u64 address, u64 bytes)
{
	struct gpu_prefetch_request *request = bpf_ringbuf_reserve(requests, sizeof(*request), 0);

	if (!request)
		return -1;
	request->time_ns = gpu_globaltimer();
	request->address = address;
	request->bytes = bytes;
	request->block = gpu_block_number();
	request->kernel = kernel;
	request->site = site;
	bpf_ringbuf_submit(request, 0);
	return 0;
}

/* Component `number` of the value of a load or store; 0 beyond the last. */
static __always_inline u64 gpu_value(const struct gpu_ctx *ctx, u32 number)
{
	u64 value = 0;

#define GPU_COMPONENT(n)                                                                                   \
	if (number == n) {                                                                                 \
		value = ctx->value##n;                                                                     \
		barrier_var(value); /* each field is read by itself */                                     \
	}
	GPU_COMPONENT(0)
	GPU_COMPONENT(1)
	GPU_COMPONENT(2)
	GPU_COMPONENT(3)
	GPU_COMPONENT(4)
	GPU_COMPONENT(5)
	GPU_COMPONENT(6)
	GPU_COMPONENT(7)
#undef GPU_COMPONENT
	return value;
}

/* Whether the bits of a number of 4 or 8 bytes are those of a NaN. */
static __always_inline bool gpu_nan(u64 value, u32 width)
{
	if (width == 8)
		return value << 1 > 0x7ffULL << 53;
	return width == 4 && (u32)value << 1 > 0xff000000;
}

/* How many components of the value of a load or store are NaN. Those of an instruction for integers are not. */
static __always_inline u32 gpu_nans(const struct gpu_ctx *ctx)
{
	u32 width = ctx->width, count = ctx->values, nans = 0;

	if (ctx->type == GPU_TYPE_UNSIGNED || ctx->type == GPU_TYPE_SIGNED)
		return 0;
	for (u32 number = 0; number < 8; number++)
		nans += number < count && gpu_nan(gpu_value(ctx, number), width);
	return nans;
}

/*
 * Warps that add to one counter wait for each other where it lies in memory. Where all warps of large grids do, each
 * counter is there GPU_STRIPES times, for a multiprocessor to choose by its number (on OpenCL devices some work-groups in a row), and the
 * host adds them up:
 *
 *   GPU_MAP(counts, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, SITES * GPU_STRIPES);
 *   u32 key = gpu_stripe(ctx->site);
 */
#define GPU_STRIPES 32

static __always_inline u32 gpu_stripe(u32 number)
{
	return number * GPU_STRIPES + gpu_stripe_id() % GPU_STRIPES;
}

/* Lanes of a full warp that are not here: zero in most warps, so that counting them costs least. */
static __always_inline u32 gpu_idle(u32 active)
{
	return gpu_warp_size() - __builtin_popcount(active);
}

#endif
