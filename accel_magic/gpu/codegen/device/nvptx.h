// NVIDIA GPUs from sm_75 on: who a thread is, and how it meets others. tools/build_gpu_helpers gives the atomics of the
// compiled IR device scope: hosts never write what they touch.
#pragma once

#define GLOBAL __attribute__((address_space(1)))
#define RETRIES (1u << 14)

#define SPECIAL(name) __nvvm_read_ptx_sreg_##name()
#define XYZ(what, name)                                                           \
  PART u32 what(u32 axis) {                                                       \
    return axis == 0 ? SPECIAL(name##_x) : axis == 1 ? SPECIAL(name##_y) : SPECIAL(name##_z); \
  }
XYZ(block, ctaid)
XYZ(grid, nctaid)
XYZ(thread, tid)
XYZ(dims, ntid)

PART u64 time_ns(void) { return SPECIAL(globaltimer); }
PART u64 cycles(void) { return SPECIAL(clock64); }
PART u32 sm_id(void) { return SPECIAL(smid); }
PART u32 warp_id(void) { return SPECIAL(warpid); }
PART u32 lane_id(void) { return SPECIAL(laneid); }

PART u64 launch_id(void) {
  u64 id;
  // Clang's builtin gives the lower half only.
  __asm__("mov.u64 %0, %%gridid;" : "=l"(id));
  return id;
}

PART u32 active(void) { return __nvvm_activemask(); }
PART u32 ballot(u32 mask, u32 yes) { return __nvvm_vote_ballot_sync(mask, yes); }
PART u32 from_lane(u32 mask, u32 value, u32 lane) { return __nvvm_shfl_sync_idx_i32(mask, value, lane, 31); }

// Lanes of the mask with the same value.
PART u32 same(u32 mask, u64 value) { return __nvvm_match_any_sync_i64(mask, value); }
PART u32 same_word(u32 mask, u32 value) { return __nvvm_match_any_sync_i32(mask, value); }

// All lanes of the mask come here before any goes on.
PART void rejoin(u32 mask) { __nvvm_bar_warp_sync(mask); }

PART void block_barrier(void) { __nvvm_bar_sync(0); }
PART void leave(void) { __nvvm_exit(); }
PART void prefetch(u64 address) { __asm__ volatile("prefetch.L2 [%0];" ::"l"(address)); }

// What was written before is seen by the host before what is written behind.
PART void publish(void) { __nvvm_membar_sys(); }

// In one order that all threads of the device agree on.
PART void order(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
