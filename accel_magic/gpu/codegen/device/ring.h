// Rings that the host empties while kernels run: one for all threads (type 27, and what is printed), one for each (1527).
#pragma once

// Of all threads. Positions are bytes since the beginning. A record begins at its position modulo the ring's size and lies
// in one piece: behind the ring is as much room again for the one that crosses its end.
//
// `length` is the kernel's header, a length of all that follows and two bits. The host reads records in order up to the
// first whose header is zero or BUSY, zeroes what it has read, and then moves `consumed`: so a header is zero until its own
// record is written, whatever lay there before.
struct ring {
  u64 reserved, consumed, unused[6];
  u8 data[];
};
struct record {
  u32 length, unused;
  u64 thread, launch;
};
enum { RECORD_PREFIX = 16 };
#define RECORD_BUSY (1u << 31)
#define RECORD_DISCARDED (1u << 30)
#define RING_LEAST 64u
#define PRINT_BYTES (1u << 18)
#define PRINT_TEXT 128u

PART u64 ring_size(u32 wanted) { return power_of_two(wanted < RING_LEAST ? RING_LEAST : wanted); }

struct claim {
  u64 position;
  u32 granted; // records from `position` on
};

PART struct claim claim(GLOBAL struct ring *ring, u64 size, u64 bytes, u32 wanted) {
  u64 reserved = fresh64(&ring->reserved);
  u32 granted;
  do {
    u64 room = size - (reserved - fresh64(&ring->consumed));
    granted = bytes * wanted <= room ? wanted : (u32)(room / bytes);
  } while (granted && !swap64(&ring->reserved, &reserved, reserved + bytes * granted));
  return (struct claim){reserved, granted};
}

// Take room for one record of this lane. Where all active lanes want as much, one of them takes it for all: 32 lanes would
// else come to the same word one after the other.
PART u64 take(GLOBAL struct ring *ring, u64 size, u64 bytes) {
  u32 mask = active();
  u32 leader = __builtin_ctz(mask), lane = lane_id();
  u32 alike = ballot(mask, from_lane(mask, (u32)bytes, leader) == (u32)bytes) == mask;
  struct claim mine = {0, 0};
  u32 rank = 0;
  if (!alike || lane == leader) mine = claim(ring, size, bytes, alike ? __builtin_popcount(mask) : 1);
  rejoin(mask);
  if (alike) {
    u32 low = from_lane(mask, (u32)mine.position, leader), high = from_lane(mask, (u32)(mine.position >> 32), leader);
    mine = (struct claim){(u64)high << 32 | low, from_lane(mask, mine.granted, leader)};
    rank = __builtin_popcount(mask & ((1u << lane) - 1));
  }
  return rank < mine.granted ? mine.position + rank * bytes : NOWHERE;
}

// Room for a record of `size` bytes, which begin behind it; null and one more loss where there is none.
PART GLOBAL struct record *reserve(u64 map, u64 base, u32 wanted, u64 size) {
  GLOBAL struct ring *ring = (GLOBAL struct ring *)base;
  u64 capacity = ring_size(wanted);
  u64 bytes = sizeof(struct record) + round8(size);
  u64 position = size <= capacity ? take(ring, capacity, bytes) : NOWHERE;
  if (position == NOWHERE) {
    lost(map, ENOSPC);
    return 0;
  }
  GLOBAL struct record *record = (GLOBAL struct record *)(ring->data + (position & (capacity - 8)));
  record->thread = thread_number();
  record->launch = launch_id();
  return record;
}

PART void commit(GLOBAL struct record *record, u64 size, u32 bits) {
  publish();
  put32(&record->length, (u32)(size + RECORD_PREFIX) | bits);
}

PART u64 ring_output(u64 map, const u8 *data, u64 size) {
  GLOBAL struct record *record = reserve(map, accel_maps[map].base, accel_maps[map].max_entries, size);
  if (!record) return failed(EAGAIN);
  copy((GLOBAL u8 *)(record + 1), data, size);
  commit(record, size, 0);
  return 0;
}

// What is printed: the arguments, then `length` bytes of text.
struct printed {
  u64 arguments[3];
  u32 is_format, length;
};

PART u64 print(const u8 *text, u64 length, u32 is_format, u64 first, u64 second, u64 third) {
  if (length > PRINT_TEXT) length = PRINT_TEXT;
  GLOBAL struct record *record = reserve(accel_map_count, accel_printk, PRINT_BYTES, sizeof(struct printed) + length);
  if (!record) return failed(EAGAIN);
  GLOBAL struct printed *printed = (GLOBAL struct printed *)(record + 1);
  printed->arguments[0] = first;
  printed->arguments[1] = second;
  printed->arguments[2] = third;
  printed->is_format = is_format;
  printed->length = (u32)length;
  copy((GLOBAL u8 *)(printed + 1), text, length);
  commit(record, sizeof(struct printed) + length, 0);
  return length;
}

// Of each thread. `head` and `tail` are records since the beginning, `dirty` and the padding are not used: a record is there
// when its READY bit is, which the host takes away when it has read it. `tail` moves atomically since launches that run at
// the same moment number their threads alike.
struct own_ring {
  u64 head, tail;
  u32 dirty, unused;
};
struct own_record {
  u32 size, launch;
};
#define RECORD_READY (1u << 31)

PART u64 own_ring_output(u64 handle, const u8 *data, u64 size) {
  const struct accel_map *map = &accel_maps[handle];
  u64 number = thread_number(), step = sizeof(struct own_record) + round8(map->value_size);
  if (size > map->value_size) return lost(handle, E2BIG);
  if (number >= accel_threads) return lost(handle, ENOSPC);
  u64 stride = sizeof(struct own_ring) + map->max_entries * step;
  GLOBAL struct own_ring *ring = (GLOBAL struct own_ring *)(map->base + number * stride);
  u64 tail = fresh64(&ring->tail);
  do {
    // Signed: another launch may have moved both on since we read the tail.
    if ((s64)(tail - fresh64(&ring->head)) >= (s64)map->max_entries) return lost(handle, ENOSPC);
  } while (!swap64(&ring->tail, &tail, tail + 1));
  GLOBAL struct own_record *record = (GLOBAL struct own_record *)((GLOBAL u8 *)(ring + 1) + tail % map->max_entries * step);
  record->launch = (u32)launch_id();
  copy((GLOBAL u8 *)(record + 1), data, size);
  publish();
  put32(&record->size, (u32)size | RECORD_READY);
  return 0;
}
