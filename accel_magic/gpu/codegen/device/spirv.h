// OpenCL devices, through SPIR-V: a work-item's identity and synchronization. A block is a work-group, and a warp is a
// sub-group. LLVM knows the functions by their mangled names; the merge writes those that begin with accel_spirv_, because
// LLVM has no name for their instructions. Which compute unit a work-item is on is
// not known, and a called function cannot end it.
#pragma once

#define GLOBAL __attribute__((address_space(1)))
#define RETRIES (1u << 14)
#define NAMED(name) __asm__(name)

u64 of_group(u32) NAMED("_Z12get_group_idj");
u64 of_groups(u32) NAMED("_Z14get_num_groupsj");
u64 of_item(u32) NAMED("_Z12get_local_idj");
u64 of_items(u32) NAMED("_Z23get_enqueued_local_sizej");
u32 of_lane(void) NAMED("_Z22get_sub_group_local_idv");
u32 of_lanes(void) NAMED("_Z22get_max_sub_group_sizev");
u32 of_sub_group(void) NAMED("_Z16get_sub_group_idv");
void of_barrier(u32) NAMED("_Z7barrierj");
u64 accel_spirv_clock(void);
u32 accel_spirv_ballot(u32 yes); // lanes 0 to 31
u32 accel_spirv_shuffle(u32 value, u32 lane);

// The axis must be a constant in each call.
#define XYZ(what, of) \
  PART u32 what(u32 axis) { return axis == 0 ? (u32)of(0) : axis == 1 ? (u32)of(1) : (u32)of(2); }
XYZ(block, of_group)
XYZ(grid, of_groups)
XYZ(thread, of_item)
XYZ(dims, of_items)

PART u64 time_ns(void) { return accel_spirv_clock(); }
PART u64 cycles(void) { return accel_spirv_clock(); }
PART u32 warp_id(void) { return of_sub_group(); }
PART u32 lane_id(void) { return of_lane(); }
PART u32 warp_size(void) { return of_lanes(); }

// A processor's threads run ranges of groups, a GPU runs groups near each other at once: sixteen in a row have one number,
// which differs where the ranges' starts differ by any power of two.
PART u32 stripe_id(void) {
  u32 group = (u32)((of_group(2) * of_groups(1) + of_group(1)) * of_groups(0) + of_group(0));
  return (group >> 4) * 0x9e3779b1u >> 24;
}

// Where the host writes its number before each launch; launches run one after the other.
extern const u64 accel_launch_number;
PART u64 launch_id(void) { return *(volatile GLOBAL u64 *)accel_launch_number; }

PART u32 active(void) { return accel_spirv_ballot(1); }
PART u32 ballot(u32 mask, u32 yes) { return accel_spirv_ballot(yes != 0); }
PART u32 from_lane(u32 mask, u32 value, u32 lane) { return accel_spirv_shuffle(value, lane); }

// SPIR-V has no instruction that compares all lanes: one turn for each value.
PART u32 same_word(u32 mask, u32 value) {
  u32 found = 0;
  for (u32 left = mask; left;) {
    u32 here = ballot(mask, value == from_lane(mask, value, __builtin_ctz(left)));
    if (here >> lane_id() & 1) found = here;
    left &= ~here;
  }
  return found;
}

PART u32 same(u32 mask, u64 value) { return same_word(mask, (u32)value) & same_word(mask, (u32)(value >> 32)); }

// How many values the lanes in the mask have. Most lanes access ascending addresses: each compares with the lane before.
PART u32 distinct(u32 mask, u64 value) {
  u32 before = mask & ((1u << lane_id()) - 1), high = value >> 32, low = value;
  u32 lane = before ? 31 - __builtin_clz(before) : lane_id();
  u64 other = (u64)from_lane(mask, high, lane) << 32 | from_lane(mask, low, lane);
  if (!ballot(mask, value < other)) return __builtin_popcount(ballot(mask, !before || value != other));
  return __builtin_popcount(ballot(mask, lane_id() == (u32)__builtin_ctz(same(mask, value))));
}

PART void rejoin(u32 mask) {}

#define LOCAL_AND_GLOBAL 3
PART void block_barrier(void) { of_barrier(LOCAL_AND_GLOBAL); }
PART void prefetch(u64 address) {}
PART void publish(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
PART void order(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
