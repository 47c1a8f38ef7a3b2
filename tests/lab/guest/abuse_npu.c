/* Makes random calls to the NPU's driver as an ordinary user: `abuse_npu SEED CALLS SECONDS`.
 *
 * Buffers hold command lists in the lab's format (level_zero/job_format.h), with sizes, counts and addresses of any
 * kind. Prints how many calls were made, how many of them worked, and how many submissions did.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "job_format.h"
#include "npu_uapi.h"

#define BUFFERS 24
#define KINDS 12

static struct {
	uint32_t handle;
	uint64_t address, size;
	void *memory;
} buffers[BUFFERS];
static const uint64_t odd[] = { 0, 1, 7, 63, 64, 4095, 4096, 65535, 65536, 65537, 1u << 20, 0x7fffffff, 0xffffffff,
				1ull << 32, 1ull << 40, 1ull << 47, 1ull << 48, 1ull << 63, ~0ull, ~0ull - 4095 };
static uint64_t state, calls, worked, submitted;
static uint32_t queues[8];
static uint8_t room[1 << 20] __attribute__((aligned(4096))); /* where the driver may write, whatever it takes for a size */
static int fd;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t value(void)
{
	uint64_t how = next() % 8;

	if (how < 3)
		return odd[next() % (sizeof odd / sizeof *odd)];
	if (how < 6)
		return buffers[next() % BUFFERS].address + (next() % 4 ? next() % 8192 : 0);
	return how == 6 ? next() % 5000 : next();
}

static int call(unsigned long request, void *argument)
{
	int failed = ioctl(fd, request, argument);

	calls++;
	worked += !failed;
	return failed;
}

/* Commands with anything in them. */
static void fill(uint8_t *memory, uint64_t size)
{
	uint32_t words[1024], at = 0, count = next() % 12;

	for (uint32_t i = 0; i < count && at < 900; i++) {
		uint32_t kind = next() % 16 ? 1 + next() % KINDS : (uint32_t)value();
		static const uint8_t spans[] = { 0, 3, 2, 0, 1, 1, 1, 1, 2, 2, 1, 0, 1 };
		uint32_t number = next() % 8 || kind > 12 ? (kind <= 12 ? spans[kind] : 1) : (uint32_t)(next() % 5);

		if (kind == 7 && next() % 8) /* waits, mostly for ever: few of them, because each costs a minute */
			kind = 4;
		words[at++] = kind;
		words[at++] = next() % 4;
		words[at++] = next() % 30 ? number : (uint32_t)value();
		words[at++] = 0;
		for (uint32_t span = 0; span < number; span++) {
			uint64_t place = value(), bytes = next() % 3 ? next() % 6000 : value();

			memcpy(words + at, &place, 8);
			memcpy(words + at + 2, &bytes, 8);
			at += 4;
		}
	}
	uint64_t whole = next() % 20 ? 16 + 4ull * at : value();
	uint32_t head[2] = { JOB_MAGIC, next() % 20 ? count : (uint32_t)value() };

	if (size < JOB_AT + 16 + sizeof words)
		return;
	memcpy(memory + JOB_AT, head, sizeof head);
	memcpy(memory + JOB_AT + 8, &whole, 8);
	memcpy(memory + JOB_AT + 16, words, 4ull * at);
	for (uint32_t i = 0; next() % 3 == 0 && i < 8; i++)
		memory[next() % size] = next();
}

static void drop(int i)
{
	struct npu_gem_close arguments = { .handle = buffers[i].handle };

	if (buffers[i].memory)
		munmap(buffers[i].memory, buffers[i].size);
	if (buffers[i].handle)
		call(NPU_IOCTL_GEM_CLOSE, &arguments);
	memset(&buffers[i], 0, sizeof buffers[i]);
}

static void create(void)
{
	int i = next() % BUFFERS;
	struct npu_bo_create made = { .size = next() % 6 ? 4096ull << next() % 6 : value(),
				      .flags = next() % 8 ? NPU_BO_MAPPABLE | (next() % 3) : (uint32_t)value() };
	struct npu_bo_info info = { 0 };

	drop(i);
	if (call(NPU_IOCTL_BO_CREATE, &made))
		return;
	buffers[i].handle = info.handle = made.handle;
	if (call(NPU_IOCTL_BO_INFO, &info) || info.size > 1 << 24)
		return;
	buffers[i].address = info.address;
	buffers[i].size = info.size;
	buffers[i].memory = mmap(NULL, info.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, info.mmap_offset);
	if (buffers[i].memory == MAP_FAILED)
		buffers[i].memory = NULL;
}

static void submit(void)
{
	uint32_t handles[BUFFERS + 2], count = 0;
	struct npu_submit job = { .buffers = (uintptr_t)handles, .priority = next() % 20 ? next() % 5 : (uint32_t)value() };
	struct npu_cmdq_submit queued = { .buffers = (uintptr_t)handles, .queue = queues[next() % 8] };
	int first = next() % BUFFERS;

	if (!buffers[first].memory) /* without a mapping of the command buffer, intel_vpu of Linux 6.12 crashes */
		return;
	fill(buffers[first].memory, buffers[first].size);
	for (int i = 0; i < BUFFERS; i++)
		if (buffers[(first + i) % BUFFERS].handle && (!i || next() % 4))
			handles[count++] = buffers[(first + i) % BUFFERS].handle;
	if (next() % 12 == 0)
		handles[count++] = (uint32_t)value();
	job.buffer_count = queued.buffer_count = next() % 30 ? count : (uint32_t)value() % 300;
	job.commands_offset = queued.commands_offset = next() % 20 ? 0 : (uint32_t)value();
	submitted += next() % 2 ? !call(NPU_IOCTL_SUBMIT, &job) : !call(NPU_IOCTL_CMDQ_SUBMIT, &queued);
}

static void wait_for(void)
{
	struct timespec now;
	struct npu_bo_wait waited = { .handle = buffers[next() % BUFFERS].handle };

	clock_gettime(CLOCK_MONOTONIC, &now);
	waited.deadline_ns = now.tv_sec * 1000000000ll + now.tv_nsec + (int64_t)(next() % 5000000);
	call(NPU_IOCTL_BO_WAIT, &waited);
}

/* Any call of the driver, with any content. */
static void any(void)
{
	uint64_t argument[16];

	for (int i = 0; i < 16; i++)
		argument[i] = next() % 2 ? value() : (uintptr_t)room;
	call(_IOC(next() % 4, 'd', 0x40 + next() % 16, next() % 128), argument);
}

static void queue(void)
{
	struct npu_cmdq_create made = { .priority = next() % 10 ? next() % 5 : (uint32_t)value() };
	struct npu_cmdq_destroy gone = { .queue = queues[next() % 8] };

	if (next() % 2)
		call(NPU_IOCTL_CMDQ_DESTROY, &gone);
	else if (!call(NPU_IOCTL_CMDQ_CREATE, &made))
		queues[next() % 8] = made.queue;
}

int main(int count, char **words)
{
	time_t until;

	if (count != 4)
		return 2;
	state = strtoull(words[1], NULL, 0) * 2 + 1;
	until = time(NULL) + atoi(words[3]);
	fd = open("/dev/accel/accel0", O_RDWR);
	if (fd < 0 || !geteuid())
		return 3;
	for (uint64_t wanted = strtoull(words[2], NULL, 0); calls < wanted && time(NULL) < until;) {
		switch (next() % 8) {
		case 0: create(); break;
		case 1: any(); break;
		case 2: queue(); break;
		case 3: wait_for(); break;
		default: submit();
		}
		if (next() % 3000 == 0) { /* a context of its own ends with the file */
			for (int i = 0; i < BUFFERS; i++)
				drop(i);
			close(fd);
			fd = open("/dev/accel/accel0", O_RDWR);
			memset(queues, 0, sizeof queues);
		}
	}
	printf("{\"calls\": %llu, \"worked\": %llu, \"submitted\": %llu}\n", (unsigned long long)calls,
	       (unsigned long long)worked, (unsigned long long)submitted);
	return 0;
}
