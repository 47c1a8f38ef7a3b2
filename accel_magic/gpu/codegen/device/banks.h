// Shared memory: 32 banks, of which each gives one word of four bytes at a time to all lanes that want this word.
#pragma once
#include "accel.h"

enum { BANK_BYTES = 128, WORD_BYTES = 4, WIDEST = 16 };

PART u32 distinct_words(u32 here, u32 value) {
  return __builtin_popcount(ballot(here, lane_id() == (u32)__builtin_ctz(same_word(here, value))));
}

// How often the banks are asked for what the active lanes access together. Lanes of 8 and 16 bytes fill all banks with
// half and a quarter of a warp, which are served one after the other. Since addresses are multiples of the size, such a
// lane has banks of its own width: there are fewer and wider ones.
PART u32 bank_passes(u32 address, u32 size) {
  u32 bytes = size <= WORD_BYTES ? WORD_BYTES : size <= 8 ? 8 : WIDEST;
  u32 banks = BANK_BYTES / bytes, unit = address / bytes, here = active(), lane = lane_id();
  u32 part = lane & ~(banks - 1), served = (banks == 32 ? ~0u : (1u << banks) - 1) << part;
  u32 is_first = lane == (u32)__builtin_ctz(same_word(here, unit) & served);
  u32 before = ballot(here, is_first) & served & ((1u << lane) - 1);
  // The first lanes of a bank's words take turns; all lanes of a part with the same turn are one pass. Others go along.
  u32 turn = __builtin_popcount(same_word(here, unit % banks) & before);
  return distinct_words(here, part << 8 | (is_first ? turn : 0));
}
