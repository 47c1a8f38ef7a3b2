// Atomics and accesses that see what others wrote, of one width each.
#pragma once

PART u64 add64(GLOBAL u64 *at, u64 by) { return __atomic_fetch_add(at, by, __ATOMIC_RELAXED); }

// Whether the word was as expected, and now is the new one. `expected` becomes what was there.
PART u32 swap32(GLOBAL u32 *at, u32 *expected, u32 value) {
  return __atomic_compare_exchange_n(at, expected, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
PART u32 swap64(GLOBAL u64 *at, u64 *expected, u64 value) {
  return __atomic_compare_exchange_n(at, expected, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

// What was written before a word was set is seen by those who see the word.
PART u32 get32(GLOBAL const u32 *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
PART void set32(GLOBAL u32 *at, u32 value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }

// Words that the host writes too: fresh from memory.
PART u64 fresh64(GLOBAL const u64 *at) { return *(GLOBAL const volatile u64 *)at; }
PART void put32(GLOBAL u32 *at, u32 value) { *(GLOBAL volatile u32 *)at = value; }
