// Common parts of the helpers of GPU programs. They are compiled to LLVM IR once, for NVIDIA GPUs, for OpenCL devices and
// for the host, and linked with each lowered program, which defines the constants below: every call is reduced to the
// case of its map.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define PART static __attribute__((noinline, unused))
#define EXPORT __attribute__((noinline))

#if defined(__SPIRV__)
#include "spirv.h"
#elif defined(__NVPTX__)
#include "nvptx.h"
#else
#include "host.h"
#endif
#include "atomics.h"

// Numbers of accel_magic.gpu.program.helpers.MapType.
enum {
  HASH = 1,
  ARRAY = 2,
  RINGBUF = 27,
  GPU_HASH = 1501,
  PER_THREAD_ARRAY = 1502,
  GPU_ARRAY = 1503,
  SHARED_ARRAY = 1504,
  PER_THREAD_ARRAY_HOST = 1512,
  GPU_ARRAY_HOST = 1513,
  GPU_RINGBUF = 1527,
};

enum { ANY = 0, NOEXIST = 1, EXIST = 2 };
enum { ENOENT = 2, E2BIG = 7, EAGAIN = 11, EBUSY = 16, EEXIST = 17, EINVAL = 22, ENOSPC = 28 };

struct accel_map {
  u32 type, key_size, value_size, max_entries;
  u64 base, padding; // bytes between the values of an array
};

// Defined by the lowering. Addresses are numbers so that the optimizer sees constants.
extern const struct accel_map accel_maps[];
extern const u64 accel_map_count, accel_threads, accel_losses, accel_printk, accel_pid_tgid;

PART u64 failed(int error) { return (u64)(s64)-error; }

// Row-major over the whole grid, not block by block, so numbers do not depend on how the grid is divided into blocks.
// Without arrays, of which LLVM 20 cannot make SPIR-V.
#define AT(axis) ((u64)block(axis) * dims(axis) + thread(axis))
#define WIDTH(axis) ((u64)grid(axis) * dims(axis))
PART u64 thread_number(void) { return (AT(2) * WIDTH(1) + AT(1)) * WIDTH(0) + AT(0); }

PART u64 block_number(void) { return ((u64)block(2) * grid(1) + block(1)) * grid(0) + block(0); }

// Count a call on this map that failed because it was full; the print ring's counter follows the last map's.
PART u64 lost(u64 map, int error) {
  add64((GLOBAL u64 *)accel_losses + map, 1);
  return failed(error);
}

PART u64 round8(u64 bytes) { return (bytes + 7) & ~7ull; }

PART u64 power_of_two(u32 least) { return least <= 1 ? 1 : 1ull << (32 - __builtin_clz(least - 1)); }

// Uses the widest steps that both addresses and the size allow: GPU accesses must be aligned. An aligned value of up to
// eight bytes is then one store, so readers never see it half written.
#define STEPS(type, to, from, bytes)                                              \
  for (u64 at = 0; at < (bytes); at += sizeof(type))                              \
  *(GLOBAL type *)((to) + at) = *(const type *)((from) + at)

PART void copy(GLOBAL u8 *to, const u8 *from, u64 bytes) {
  u64 bits = (u64)to | (u64)from | bytes;
  if (!(bits & 7))
    STEPS(u64, to, from, bytes);
  else if (!(bits & 3))
    STEPS(u32, to, from, bytes);
  else
    STEPS(u8, to, from, bytes);
}

// Word `index` of memory with any alignment; bytes after its end read as zero.
PART u32 word(const u8 *from, u32 bytes, u32 index) {
  u32 at = 4 * index, value = 0;
  if (at + 4 <= bytes && !((u64)from & 3)) return *(const u32 *)(from + at);
#pragma clang loop unroll(full)
  for (u32 byte = 0; byte < 4; byte++)
    if (at + byte < bytes) value |= (u32)from[at + byte] << 8 * byte;
  return value;
}
