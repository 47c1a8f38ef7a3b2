// Hash maps (types 1 and 1501): open addressing over twice as many slots as entries.
//
// A slot is a word, then the key and the value, each rounded up to eight bytes; the word holds the upper 30 bits of the
// key's hash and a state: EMPTY, never used, where a search ends; BUSY, being filled or emptied; FULL; GONE, deleted, to be
// used again. A slot never becomes EMPTY again, else searches for keys behind it would end too early.
//
// No thread waits for another: who finds a slot BUSY that may hold its key begins again, and all lanes of a warp meet between
// two attempts, so that the one that fills the slot is through even where lanes run in lock-step.
//
// One entry for each key: a thread first makes a slot BUSY, then looks at all others. Of two threads with the same key in
// different slots (one of which was deleted just then) at least one sees the other. The one in the later slot gives it up,
// the one in the earlier keeps it and looks again: so one of them gets through, also when they run in step.
//
// What remains: an update of an existing key writes the value in place, so readers of values beyond eight bytes may see a
// mixture of two; and a thread that still writes through the pointer of an entry that was deleted may write into the slot's
// next one, as in the kernel. Counts are not lost by either: the pointer of a key stays the same until it is deleted, so
// adding atomically through it is exact. A program creates the entry with zero and BPF_NOEXIST, then looks up and adds.
// And a key looks absent for a moment when another of the same hash was deleted twice and it took that slot in between.
#pragma once

enum { EMPTY = 0, BUSY = 1, FULL = 2, GONE = 3, STATE = 3 };

// `entries` counts in its lower half what is FULL or about to be, in its upper half all deletions.
struct hash_head {
  u64 entries, unused[7];
};
#define ONE_DELETED ((1ull << 32) - 1)

#define NOWHERE (~0ull)
#define AGAIN 1

struct search {
  u64 found; // slot of the key
  u64 free;  // first slot that can take it
  u64 busy;  // lowest slot that may become the key's
};

PART u64 slots(const struct accel_map *map) { return 2 * power_of_two(map->max_entries); }

PART GLOBAL u8 *slot_at(const struct accel_map *map, u64 slot) {
  u64 stride = 8 + round8(map->key_size) + round8(map->value_size);
  return (GLOBAL u8 *)map->base + sizeof(struct hash_head) + slot * stride;
}
PART GLOBAL u32 *slot_state(const struct accel_map *map, u64 slot) { return (GLOBAL u32 *)slot_at(map, slot); }
PART GLOBAL u32 *slot_key(const struct accel_map *map, u64 slot) { return (GLOBAL u32 *)(slot_at(map, slot) + 8); }
PART GLOBAL u8 *slot_value(const struct accel_map *map, u64 slot) {
  return slot_at(map, slot) + 8 + round8(map->key_size);
}

PART u32 key_words(const struct accel_map *map) { return (map->key_size + 3) / 4; }

// accel_magic.gpu.maps.views has the same for the host's writes.
PART u32 hash_of(const struct accel_map *map, const u8 *key) {
  u32 hash = map->key_size;
  for (u32 index = 0; index < key_words(map); index++) {
    hash = (hash ^ word(key, map->key_size, index)) * 0x9E3779B1u;
    hash ^= hash >> 15;
  }
  hash *= 0x85EBCA6Bu;
  return hash ^ hash >> 13;
}

PART u32 same_key(const struct accel_map *map, u64 slot, const u8 *key) {
  GLOBAL const u32 *stored = slot_key(map, slot);
  u32 differs = 0;
  for (u32 index = 0; index < key_words(map); index++) differs |= stored[index] ^ word(key, map->key_size, index);
  return !differs;
}

// Look through the slots from the hash's own on; `mine` is passed over.
PART struct search search(const struct accel_map *map, const u8 *key, u32 hash, u64 mine) {
  struct search result;
  result.found = result.free = result.busy = NOWHERE;
  for (u64 step = 0; step < slots(map); step++) {
    u64 slot = (hash + step) & (slots(map) - 1);
    if (slot == mine) continue;
    u32 state = get32(slot_state(map, slot));
    if (state == EMPTY || state == GONE) {
      if (result.free == NOWHERE) result.free = slot;
      if (state == EMPTY) break;
    } else if ((state ^ hash) & ~STATE) {
      continue;
    } else if ((state & STATE) == BUSY) {
      if (slot < result.busy) result.busy = slot;
    } else if (same_key(map, slot, key)) {
      result.found = slot;
      break;
    }
  }
  return result;
}

PART u64 hash_lookup(const struct accel_map *map, const u8 *key) {
  struct search seen = search(map, key, hash_of(map, key), NOWHERE);
  return seen.found == NOWHERE ? 0 : (u64)slot_value(map, seen.found);
}

PART u64 hash_overwrite(const struct accel_map *map, u64 slot, const u8 *value, u64 flags) {
  if (flags == NOEXIST) return failed(EEXIST);
  copy(slot_value(map, slot), value, map->value_size);
  return 0;
}

// Fill a slot that is BUSY on our behalf, if the map has room for one more.
PART u64 hash_fill(u64 handle, u64 slot, u32 hash, const u8 *key, const u8 *value) {
  const struct accel_map *map = &accel_maps[handle];
  GLOBAL u64 *entries = &((GLOBAL struct hash_head *)map->base)->entries;
  if ((u32)add64(entries, 1) >= map->max_entries) {
    add64(entries, -1ull);
    set32(slot_state(map, slot), GONE);
    return lost(handle, E2BIG);
  }
  for (u32 index = 0; index < key_words(map); index++) slot_key(map, slot)[index] = word(key, map->key_size, index);
  copy(slot_value(map, slot), value, map->value_size);
  set32(slot_state(map, slot), (hash & ~STATE) | FULL);
  return 0;
}

PART void hash_release(const struct accel_map *map, u64 *mine) {
  if (*mine != NOWHERE) set32(slot_state(map, *mine), GONE);
  *mine = NOWHERE;
}

// One attempt; AGAIN when another thread was in the way. `mine` is a slot that an earlier attempt made BUSY.
PART u64 hash_attempt(u64 handle, u32 hash, const u8 *key, const u8 *value, u64 flags, u64 *mine) {
  const struct accel_map *map = &accel_maps[handle];
  u64 before = fresh64(&((GLOBAL struct hash_head *)map->base)->entries);
  u32 full = *mine == NOWHERE && (u32)before >= map->max_entries;
  if (*mine == NOWHERE) {
    struct search seen = search(map, key, hash, NOWHERE);
    if (seen.found != NOWHERE) return hash_overwrite(map, seen.found, value, flags);
    if (seen.busy != NOWHERE) return AGAIN;
    if (flags == EXIST) return failed(ENOENT);
    if (!full) {
      if (seen.free == NOWHERE) return AGAIN;
      u32 state = get32(slot_state(map, seen.free));
      if (state != EMPTY && state != GONE) return AGAIN;
      if (!swap32(slot_state(map, seen.free), &state, (hash & ~STATE) | BUSY)) return AGAIN;
      *mine = seen.free;
    }
  }
  // Others see our slot before we look at theirs.
  order();
  struct search others = search(map, key, hash, *mine);
  if (others.found != NOWHERE || others.busy < *mine) hash_release(map, mine);
  if (others.found != NOWHERE || others.busy != NOWHERE) return AGAIN;
  if (!full) return hash_fill(handle, *mine, hash, key, value);
  // Full and without the key at the same moment, unless something was deleted in between.
  u64 after = fresh64(&((GLOBAL struct hash_head *)map->base)->entries);
  return after >> 32 == before >> 32 ? lost(handle, E2BIG) : AGAIN;
}

PART u64 hash_update(u64 handle, const u8 *key, const u8 *value, u64 flags) {
  const struct accel_map *map = &accel_maps[handle];
  u32 hash = hash_of(map, key);
  u64 mine = NOWHERE;
  for (u32 attempt = 0; attempt < RETRIES; attempt++) {
    u32 mask = active();
    u64 result = hash_attempt(handle, hash, key, value, flags, &mine);
    rejoin(mask);
    if (result != AGAIN) return result;
  }
  hash_release(map, &mine);
  return lost(handle, EBUSY);
}

PART u64 hash_delete(const struct accel_map *map, const u8 *key) {
  u32 hash = hash_of(map, key);
  struct search seen = search(map, key, hash, NOWHERE);
  if (seen.found == NOWHERE) return failed(ENOENT);
  GLOBAL u32 *state = slot_state(map, seen.found);
  u32 full = (hash & ~STATE) | FULL;
  if (!swap32(state, &full, (hash & ~STATE) | BUSY)) return failed(ENOENT);
  // Deleted by another thread, and the slot is that of a key with the same hash by now.
  if (!same_key(map, seen.found, key)) {
    set32(state, full);
    return failed(ENOENT);
  }
  // Before the key can be put in again: else it might find no room for what was just deleted.
  add64(&((GLOBAL struct hash_head *)map->base)->entries, ONE_DELETED);
  set32(state, GONE);
  return 0;
}
