/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections, map declarations and helpers, by the names that BPF programs use everywhere. The numbers are the kernel's
 * (enum bpf_func_id). Which of them there are on a GPU, and those that only a GPU has: accel_gpu.h.
 */
#ifndef __BPF_HELPERS__
#define __BPF_HELPERS__

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) __typeof__(value) *name
#define __array(name, value) __typeof__(value) *name[]

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#ifndef __noinline
#define __noinline __attribute__((noinline))
#endif
#ifndef __weak
#define __weak __attribute__((weak))
#endif
#define __hidden __attribute__((visibility("hidden")))
#define __kconfig __attribute__((section(".kconfig")))
#define __ksym __attribute__((section(".ksyms")))

#ifndef NULL
#define NULL ((void *)0)
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#ifndef container_of
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))
#endif
#ifndef likely
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#endif
#ifndef barrier
#define barrier() asm volatile("" ::: "memory")
#endif
#ifndef barrier_var
#define barrier_var(variable) asm volatile("" : "+r"(variable))
#endif

#define AM_HELPER static __attribute__((unused))

/* Of CPU and GPU programs. */
AM_HELPER void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
AM_HELPER long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					    unsigned long long flags) = (void *)2;
AM_HELPER long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
/* Nanoseconds; on a GPU of its own clock. */
AM_HELPER unsigned long long (*const bpf_ktime_get_ns)(void) = (void *)5;
/* Up to three values after the size; see bpf_printk. */
AM_HELPER long (*const bpf_trace_printk)(const char *format, unsigned int size, ...) = (void *)6;
/* The CPU; on a GPU the multiprocessor. */
AM_HELPER unsigned int (*const bpf_get_smp_processor_id)(void) = (void *)8;
/* Process in the upper half, thread in the lower; on a GPU those of the traced process. */
AM_HELPER unsigned long long (*const bpf_get_current_pid_tgid)(void) = (void *)14;
AM_HELPER long (*const bpf_perf_event_output)(void *ctx, void *map, unsigned long long flags, void *data,
					      unsigned long long size) = (void *)25;
AM_HELPER long (*const bpf_ringbuf_output)(void *ring, void *data, unsigned long long size,
					   unsigned long long flags) = (void *)130;
AM_HELPER void *(*const bpf_ringbuf_reserve)(void *ring, unsigned long long size, unsigned long long flags) =
	(void *)131;
AM_HELPER void (*const bpf_ringbuf_submit)(void *record, unsigned long long flags) = (void *)132;
AM_HELPER void (*const bpf_ringbuf_discard)(void *record, unsigned long long flags) = (void *)133;

/* Of CPU programs alone. */
AM_HELPER long (*const bpf_probe_read)(void *to, unsigned int size, const void *from) = (void *)4;
AM_HELPER unsigned int (*const bpf_get_prandom_u32)(void) = (void *)7;
AM_HELPER long (*const bpf_tail_call)(void *ctx, void *programs, unsigned int index) = (void *)12;
AM_HELPER unsigned long long (*const bpf_get_current_uid_gid)(void) = (void *)15;
AM_HELPER long (*const bpf_get_current_comm)(void *to, unsigned int size) = (void *)16;
AM_HELPER long (*const bpf_get_stackid)(void *ctx, void *map, unsigned long long flags) = (void *)27;
AM_HELPER unsigned long long (*const bpf_get_current_task)(void) = (void *)35;
AM_HELPER long (*const bpf_probe_read_str)(void *to, unsigned int size, const void *from) = (void *)45;
AM_HELPER long (*const bpf_get_stack)(void *ctx, void *to, unsigned int size, unsigned long long flags) = (void *)67;
AM_HELPER unsigned long long (*const bpf_get_current_cgroup_id)(void) = (void *)80;
AM_HELPER long (*const bpf_map_push_elem)(void *map, const void *value, unsigned long long flags) = (void *)87;
AM_HELPER long (*const bpf_map_pop_elem)(void *map, void *value) = (void *)88;
AM_HELPER long (*const bpf_map_peek_elem)(void *map, void *value) = (void *)89;
AM_HELPER long (*const bpf_probe_read_user)(void *to, unsigned int size, const void *from) = (void *)112;
AM_HELPER long (*const bpf_probe_read_kernel)(void *to, unsigned int size, const void *from) = (void *)113;
AM_HELPER long (*const bpf_probe_read_user_str)(void *to, unsigned int size, const void *from) = (void *)114;
AM_HELPER long (*const bpf_probe_read_kernel_str)(void *to, unsigned int size, const void *from) = (void *)115;
AM_HELPER unsigned long long (*const bpf_ktime_get_boot_ns)(void) = (void *)125;
AM_HELPER unsigned long long (*const bpf_ringbuf_query)(void *ring, unsigned long long flags) = (void *)134;
AM_HELPER long (*const bpf_for_each_map_elem)(void *map, void *callback, void *ctx, unsigned long long flags) =
	(void *)164;
AM_HELPER unsigned long long (*const bpf_get_func_ip)(void *ctx) = (void *)173;
AM_HELPER unsigned long long (*const bpf_get_attach_cookie)(void *ctx) = (void *)174;
/* The values as an array of 8 bytes each. */
AM_HELPER long (*const bpf_trace_vprintk)(const char *format, unsigned int size, const void *values,
					  unsigned int values_size) = (void *)177;
AM_HELPER long (*const bpf_loop)(unsigned int count, void *callback, void *ctx, unsigned long long flags) =
	(void *)181;
AM_HELPER long (*const bpf_strncmp)(const char *text, unsigned int size, const char *constant) = (void *)182;

/* How many arguments, 0 to 8. */
#define AM_TENTH(a, b, c, d, e, f, g, h, i, j, ...) j
#define AM_COUNT(...) AM_TENTH(_, ##__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)

/* Where a format lies: programs without global data keep it on their stack. */
#ifdef BPF_NO_GLOBAL_DATA
#define AM_FORMAT char
#else
#define AM_FORMAT static const char
#endif

/*
 * Print a line: a constant format and up to three numbers; where <vmlinux.h> says AM_TRACE_VPRINTK, as for policies of a
 * driver, up to eight.
 */
#define bpf_printk(format, ...)                                                                            \
	AM_TENTH(_, ##__VA_ARGS__, am_print_many, am_print_many, am_print_many, am_print_many,             \
		 am_print_many, am_print_few, am_print_few, am_print_few, am_print_few)                    \
	(format, ##__VA_ARGS__)

#define am_print_few(format, ...)                                                                          \
	({                                                                                                 \
		AM_FORMAT am_format[] = format;                                                            \
		bpf_trace_printk(am_format, sizeof(am_format), ##__VA_ARGS__);                             \
	})

#ifdef AM_TRACE_VPRINTK
#define am_print_many(format, ...)                                                                         \
	({                                                                                                 \
		AM_FORMAT am_format[] = format;                                                            \
		_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wint-conversion\"")      \
		unsigned long long am_values[] = { __VA_ARGS__ };                                          \
		_Pragma("GCC diagnostic pop")                                                              \
		bpf_trace_vprintk(am_format, sizeof(am_format), am_values, sizeof(am_values));             \
	})
#else
#define am_print_many(...)                                                                                 \
	({                                                                                                 \
		_Static_assert(0, "bpf_printk takes up to three values");                                  \
		0;                                                                                         \
	})
#endif

#endif
