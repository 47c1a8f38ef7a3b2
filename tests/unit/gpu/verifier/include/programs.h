// Maps and macros that the test programs share.
#pragma once
#include <accel_gpu.h>

struct item {
	u64 count;
	u32 small[4];
	u64 total;
};

struct pair {
	u64 first;
	u64 second;
};

struct odd {
	u32 a;
	u32 b;
	u32 c;
};

GPU_MAP(items, BPF_MAP_TYPE_GPU_ARRAY, u32, struct item, 8);
GPU_MAP(counts, BPF_MAP_TYPE_GPU_HASH, u64, u64, 64);
GPU_MAP(pairs, BPF_MAP_TYPE_GPU_HASH, struct pair, struct pair, 64);
GPU_MAP(odds, BPF_MAP_TYPE_GPU_ARRAY, u32, struct odd, 4);
GPU_MAP(own, BPF_MAP_TYPE_PER_THREAD_ARRAY, u32, u64, 1);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

#define NOINLINE static __attribute__((noinline))
#define ROLLED _Pragma("clang loop unroll(disable)")
#define HIDE(variable) asm volatile("" : "+r"(variable))

char LICENSE[] SEC("license") = "GPL";
