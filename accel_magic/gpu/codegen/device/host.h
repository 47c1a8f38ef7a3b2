// This machine's processor: one thread that is whoever `accel_self` says. tests/ also builds it with real threads.
#pragma once

#define GLOBAL
#define RETRIES (1u << 26)

#ifndef SELF
#define SELF
#endif

// accel_magic.gpu.codegen.device.HostThread is the same in Python.
SELF struct accel_self {
  u32 block[3], grid[3], thread[3], dims[3];
  u32 sm, warp, lane, exited;
  u64 clock, launch;
} accel_self;

PART u32 block(u32 axis) { return accel_self.block[axis]; }
PART u32 grid(u32 axis) { return accel_self.grid[axis]; }
PART u32 thread(u32 axis) { return accel_self.thread[axis]; }
PART u32 dims(u32 axis) { return accel_self.dims[axis]; }

// Each look at the clock is one later, so that programs run alike each time.
PART u64 time_ns(void) { return ++accel_self.clock; }
PART u64 cycles(void) { return ++accel_self.clock; }
PART u32 sm_id(void) { return accel_self.sm; }
PART u32 warp_id(void) { return accel_self.warp; }
PART u32 lane_id(void) { return accel_self.lane; }
PART u64 launch_id(void) { return accel_self.launch; }

PART u32 active(void) { return 1u << accel_self.lane; }
PART u32 ballot(u32 mask, u32 yes) { return yes ? mask : 0; }
PART u32 from_lane(u32 mask, u32 value, u32 lane) { return value; }
PART u32 same(u32 mask, u64 value) { return mask; }
PART u32 same_word(u32 mask, u32 value) { return mask; }
PART void rejoin(u32 mask) {}

PART void block_barrier(void) {}
PART void leave(void) { accel_self.exited = 1; }
PART void prefetch(u64 address) {}
PART void publish(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
PART void order(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
