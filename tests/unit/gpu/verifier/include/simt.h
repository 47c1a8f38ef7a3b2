// Macros and the license that the SIMT test programs share.
#pragma once
#include <accel_gpu.h>

#define SIMT_MAP(map_name, map_type, key_type, value_type, entries) \
	struct {                                                    \
		__uint(type, map_type);                             \
		__uint(max_entries, entries);                       \
		__type(key, key_type);                              \
		__type(value, value_type);                          \
	} map_name SEC(".maps")

#define SHARED(map_name, value_type, entries) SIMT_MAP(map_name, 1503, u32, value_type, entries)
#define HASHED(map_name, value_type, entries) SIMT_MAP(map_name, 1501, u64, value_type, entries)
#define PER_THREAD(map_name, value_type, entries) SIMT_MAP(map_name, 1502, u32, value_type, entries)

#define NOINLINE static __attribute__((noinline))
#define ROLLED _Pragma("clang loop unroll(disable)")

char LICENSE[] SEC("license") = "GPL";
