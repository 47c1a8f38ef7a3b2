// The helpers under real threads, for test_device_threads.py. It says with -D where maps lie: MAPS, LOSSES, PRINTK.
#include "helpers.c"

#include <pthread.h>
#include <sched.h>
#include <time.h>

const struct accel_map accel_maps[] = {MAPS};
const u64 accel_map_count = sizeof(accel_maps) / sizeof(accel_maps[0]);
const u64 accel_threads = 2, accel_losses = LOSSES, accel_printk = PRINTK, accel_pid_tgid = 0;

enum { COUNTS, CHURN, FULL_ONE, SHARED_RING, OWN_RINGS };

// What succeeded, for each thread and kind of call.
u64 done[8][2][16];

static u64 helper1(u64 map, void *key) { return accel_helper_1(map, (u64)key, 0, 0, 0); }
static u64 helper2(u64 map, void *key, void *value, u64 flags) {
  return accel_helper_2(map, (u64)key, (u64)value, flags, 0);
}

static u32 random_number(u32 *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

// Let the reader come by now and then when a ring is full.
static u64 or_wait(u64 worked) {
  if (!worked) nanosleep(&(struct timespec){0, 20000}, 0);
  return worked;
}

// Each key is created once, and every count arrives.
static void counts(u64 id, u64 times) {
  u32 state = id;
  for (u64 i = 0; i < times; i++) {
    u32 key = random_number(&state) % 100;
    u64 zero = 0, value = helper1(COUNTS, &key);
    if (!value) {
      done[id][0][0] += helper2(COUNTS, &key, &zero, NOEXIST) == 0;
      value = helper1(COUNTS, &key);
    }
    __atomic_fetch_add((u64 *)value, 1, __ATOMIC_RELAXED);
  }
}

// Few keys come and go, so that their slots are taken by other keys all the time.
u32 churn_keys[8];
static void churn(u64 id, u64 times) {
  u32 state = id;
  for (u64 i = 0; i < times; i++) {
    u32 number = random_number(&state), which = number % 8, key = churn_keys[which];
    u64 value = key;
    if (number & 256)
      done[id][0][which] += helper2(CHURN, &key, &value, NOEXIST) == 0;
    else
      done[id][1][which] += accel_helper_3(CHURN, (u64)&key, 0, 0, 0) == 0;
  }
}

// More keys than there is room for, each from two threads.
static void fill(u64 id, u64 times) {
  for (u64 i = 0; i < times; i++) {
    u32 key = i * 2 + id / 2;
    u64 value = i, result = helper2(FULL_ONE, &key, &value, NOEXIST);
    done[id][0][0] += result == 0;
    done[id][1][0] += result == failed(E2BIG);
  }
}

// Records of several sizes: output, reserved, or reserved and discarded. Each holds its number among those of its thread.
static void ring(u64 id, u64 times) {
  accel_self.thread[0] = id;
  for (u64 i = 0; i < times; i++) {
    u64 record[3] = {i, i, i}, size = 8 + 8 * (i % 3);
    if (i % 4 < 2) {
      done[id][0][0] += or_wait(accel_helper_130(SHARED_RING, (u64)record, size, 0, 0) == 0);
      continue;
    }
    u64 *data = (u64 *)accel_helper_131(SHARED_RING, 8, 0, 0, 0);
    if (!or_wait(data != 0)) continue;
    *data = i;
    if (i % 4 == 3) sched_yield();
    u64 discards = i % 8 == 2;
    done[id][discards][0]++;
    if (discards)
      accel_helper_133((u64)data, 0, 0, 0, 0);
    else
      accel_helper_132((u64)data, 0, 0, 0, 0);
  }
}

// Two launches at once: threads 0 and 2 have one number, 1 and 3 the other.
static void own(u64 id, u64 times) {
  accel_self.thread[0] = id % 2;
  accel_self.launch = id;
  for (u64 i = 0; i < times; i++) {
    done[id][0][0] += or_wait(accel_helper_25(0, OWN_RINGS, 0, (u64)&i, 8) == 0);
  }
}

static void (*const works[])(u64, u64) = {counts, churn, fill, ring, own};
static struct task {
  pthread_t thread;
  u64 id, times;
  void (*work)(u64, u64);
} tasks[8];

static void *run_one(void *argument) {
  struct task *task = argument;
  accel_self.grid[0] = accel_self.grid[1] = accel_self.grid[2] = 1;
  accel_self.dims[0] = 32, accel_self.dims[1] = accel_self.dims[2] = 1;
  accel_self.lane = task->id;
  task->work(task->id, task->times);
  return 0;
}

void run(u64 work, u64 threads, u64 times) {
  for (u64 id = 0; id < threads; id++) {
    tasks[id] = (struct task){0, id, times, works[work]};
    pthread_create(&tasks[id].thread, 0, run_one, &tasks[id]);
  }
  for (u64 id = 0; id < threads; id++) pthread_join(tasks[id].thread, 0);
}
