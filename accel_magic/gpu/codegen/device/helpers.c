// The helpers that programs call, by number: accel_magic/gpu/program/helpers.py says what each takes and returns.
#include "accel.h"
#include "banks.h"
#include "hash.h"
#include "ring.h"

#define HELPER(id) EXPORT u64 accel_helper_##id(u64 a, u64 b, u64 c, u64 d, u64 e)

// What a map is to the helpers.
enum kind { NO_MAP, HASHED, SHARED, PER_THREAD, ALL_THREADS_RING, OWN_RING };

PART enum kind kind_of(u64 handle) {
  if (handle >= accel_map_count) return NO_MAP;
  switch (accel_maps[handle].type) {
  case HASH:
  case GPU_HASH:
    return HASHED;
  case ARRAY:
  case GPU_ARRAY:
  case SHARED_ARRAY:
  case GPU_ARRAY_HOST:
    return SHARED;
  case PER_THREAD_ARRAY:
  case PER_THREAD_ARRAY_HOST:
    return PER_THREAD;
  case RINGBUF:
    return ALL_THREADS_RING;
  case GPU_RINGBUF:
    return OWN_RING;
  default:
    return NO_MAP;
  }
}

// Values of arrays lie one behind the other, those of per-thread arrays by key and then by thread. Nothing is between
// them, so that 64-bit atomics need a value size that is a multiple of eight; but in arrays shared with the kernel's
// programs each begins at a multiple of eight, as the kernel has it.
PART u64 array_value(const struct accel_map *map, u64 key, enum kind kind) {
  u64 place = kind == PER_THREAD ? key * accel_threads + thread_number() : key;
  return map->base + place * (map->value_size + map->padding);
}

PART u64 no_room_for_thread(enum kind kind) { return kind == PER_THREAD && thread_number() >= accel_threads; }

PART u64 array_lookup(u64 handle, const u8 *key, enum kind kind) {
  const struct accel_map *map = &accel_maps[handle];
  u32 index = word(key, 4, 0);
  if (index >= map->max_entries) return 0;
  if (no_room_for_thread(kind)) {
    lost(handle, E2BIG);
    return 0;
  }
  return array_value(map, index, kind);
}

PART u64 array_update(u64 handle, const u8 *key, const u8 *value, u64 flags, enum kind kind) {
  const struct accel_map *map = &accel_maps[handle];
  u32 index = word(key, 4, 0);
  if (index >= map->max_entries || no_room_for_thread(kind)) return lost(handle, E2BIG);
  if (flags == NOEXIST) return failed(EEXIST);
  copy((GLOBAL u8 *)array_value(map, index, kind), value, map->value_size);
  return 0;
}

PART u64 output(u64 handle, const u8 *data, u64 size) {
  enum kind kind = kind_of(handle);
  if (kind == OWN_RING) return own_ring_output(handle, data, size);
  return kind == ALL_THREADS_RING ? ring_output(handle, data, size) : failed(EINVAL);
}

// End a record that `reserve` gave: it has kept its size in its header.
PART u64 end_record(u64 data, u32 bits) {
  GLOBAL struct record *record = (GLOBAL struct record *)data - 1;
  commit(record, record->length & ~RECORD_BUSY, bits);
  return 0;
}

PART u64 write3(u64 to[3], u64 x, u64 y, u64 z) {
  *(u64 *)to[0] = x;
  *(u64 *)to[1] = y;
  *(u64 *)to[2] = z;
  return 0;
}

HELPER(1) { // bpf_map_lookup_elem(map, key)
  enum kind kind = kind_of(a);
  if (kind == HASHED) return hash_lookup(&accel_maps[a], (const u8 *)b);
  return kind == SHARED || kind == PER_THREAD ? array_lookup(a, (const u8 *)b, kind) : 0;
}

HELPER(2) { // bpf_map_update_elem(map, key, value, flags)
  enum kind kind = kind_of(a);
  if (d > EXIST) return failed(EINVAL);
  if (kind == HASHED) return hash_update(a, (const u8 *)b, (const u8 *)c, d);
  if (kind == SHARED || kind == PER_THREAD) return array_update(a, (const u8 *)b, (const u8 *)c, d, kind);
  return failed(EINVAL);
}

HELPER(3) { // bpf_map_delete_elem(map, key)
  return kind_of(a) == HASHED ? hash_delete(&accel_maps[a], (const u8 *)b) : failed(EINVAL);
}

HELPER(5) { return time_ns(); }

HELPER(6) { // bpf_trace_printk(format, size, ...)
  return b ? print((const u8 *)a, b, 1, c, d, e) : failed(EINVAL);
}

HELPER(8) { return sm_id(); }

HELPER(14) { return accel_pid_tgid; }

HELPER(25) { // bpf_perf_event_output(context, map, flags, data, size); the flags choose a CPU
  return output(b, (const u8 *)d, e);
}

HELPER(130) { // bpf_ringbuf_output(map, data, size, flags); the flags are about waking a reader
  return d & ~3ull ? failed(EINVAL) : output(a, (const u8 *)b, c);
}

HELPER(131) { // bpf_ringbuf_reserve(map, size, flags)
  if (c || kind_of(a) != ALL_THREADS_RING) return 0;
  GLOBAL struct record *record = reserve(a, accel_maps[a].base, accel_maps[a].max_entries, b);
  if (!record) return 0;
  record->length = RECORD_BUSY | (u32)b;
  return (u64)(record + 1);
}

HELPER(132) { // bpf_ringbuf_submit(record, flags)
  return end_record(a, 0);
}

HELPER(133) { // bpf_ringbuf_discard(record, flags)
  return end_record(a, RECORD_DISCARDED);
}

HELPER(501) { // gpu_puts(text)
  u64 length = 0;
  while (length < PRINT_TEXT && ((const u8 *)a)[length]) length++;
  return print((const u8 *)a, length, 0, 0, 0, 0);
}

HELPER(502) { return time_ns(); }
HELPER(503) { return write3((u64[]){a, b, c}, block(0), block(1), block(2)); }
HELPER(504) { return write3((u64[]){a, b, c}, dims(0), dims(1), dims(2)); }
HELPER(505) { return write3((u64[]){a, b, c}, thread(0), thread(1), thread(2)); }

HELPER(506) { // gpu_membar()
  publish();
  return 0;
}

HELPER(507) { // gpu_exit()
  leave();
  return 0;
}

HELPER(508) { return write3((u64[]){a, b, c}, grid(0), grid(1), grid(2)); }
HELPER(509) { return sm_id(); }
HELPER(510) { return warp_id(); }
HELPER(511) { return lane_id(); }

HELPER(600) { return active(); }

HELPER(601) { // gpu_is_leader()
  return lane_id() == (u32)__builtin_ctz(active());
}

HELPER(602) { // gpu_ballot(condition)
  return ballot(active(), a != 0);
}

HELPER(603) { // gpu_any(condition)
  return ballot(active(), a != 0) != 0;
}

HELPER(604) { // gpu_all(condition)
  return ballot(active(), a == 0) == 0;
}

HELPER(605) { // gpu_prefetch(address)
  prefetch(a);
  return 0;
}

HELPER(606) { return cycles(); }
HELPER(607) { return thread_number(); }
HELPER(608) { return block_number(); }

HELPER(609) { // gpu_barrier()
  block_barrier();
  return 0;
}

HELPER(610) { // gpu_distinct(value): the lowest lane of each value counts it
  return __builtin_popcount(ballot(active(), lane_id() == (u32)__builtin_ctz(same(active(), a))));
}

HELPER(611) { // gpu_bank_passes(address, size)
  return bank_passes((u32)a, (u32)b);
}

// For the lowering.
EXPORT u64 accel_launch(void) { return launch_id(); }
EXPORT u32 accel_is_leader(void) { return (u32)accel_helper_601(0, 0, 0, 0, 0); }
