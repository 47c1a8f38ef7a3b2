/* SPDX-License-Identifier: Apache-2.0 */
/* A fake NPU for LD_PRELOAD: emulates the device $FAKE_NPU, answers the driver's ioctls and logs each to $FAKE_LOG.
 *
 * It has its own numbers for the driver's ABI, so that it can check programs that use ours. Log lines, one write(2)
 * each: `open PID`, `ioctl PID REQUEST ERRNO`, `create PID SIZE FLAGS`, `queue PID PRIORITY`,
 * `job PID COUNT PRIORITY|QUEUE HEX` (the first 16 bytes of the commands), `other PID WRITTEN` (another buffer).
 * $FAKE_CMDQ: no (Linux 6.12), os (firmware without scheduler), yes. $FAKE_NAME: the driver's name. $FAKE_ABORT_MS:
 * when a hung job is aborted. $FAKE_FAIL=REQUEST:ERRNO: every call of it fails. $FAKE_OPEN=ERRNO.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MOST 100000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_npu[1024];
static uint64_t offsets[MOST], ends[MOST], next_offset;
static int64_t done_at[MOST];
static uint32_t status_of[MOST], open_[MOST], handles;
static uint32_t next_queue;

static const char *setting(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value ? value : otherwise;
}

static void note(const char *format, ...)
{
	static int log = -1;
	int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
	char line[256];
	va_list arguments;
	int size;

	if (log < 0)
		log = real(setting("FAKE_LOG", "/dev/null"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	va_start(arguments, format);
	size = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (write(log, line, size) != size)
		abort();
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int fake_open(const char *path, int flags, int mode, const char *symbol)
{
	int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, symbol);
	int fd, error = atoi(setting("FAKE_OPEN", "0"));

	if (strcmp(path, setting("FAKE_NPU", "")))
		return real(path, flags, mode);
	note("open %d\n", getpid());
	if (error) {
		errno = error;
		return -1;
	}
	fd = memfd_create("npu", 0);
	if (fd < 0 || fd >= 1024 || ftruncate(fd, 1ll << 40))
		abort();
	is_npu[fd] = 1;
	return fd;
}

int open(const char *path, int flags, ...)
{
	va_list arguments;
	int mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, int);
	va_end(arguments);
	return fake_open(path, flags, mode, "open");
}

int open64(const char *path, int flags, ...)
{
	va_list arguments;
	int mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, int);
	va_end(arguments);
	return fake_open(path, flags, mode, "open64");
}

int close(int fd)
{
	int (*real)(int) = dlsym(RTLD_NEXT, "close");

	if (fd >= 0 && fd < 1024)
		is_npu[fd] = 0;
	return real(fd);
}

static int get_param(uint32_t *argument)
{
	uint64_t value = 1000 + argument[0];

	if (argument[0] == 13) {
		if (argument[1] == 3 && !strcmp(setting("FAKE_CMDQ", "no"), "no"))
			return EINVAL;
		value = argument[1] == 3 ? !strcmp(setting("FAKE_CMDQ", "no"), "yes") : 1;
	}
	memcpy(argument + 2, &value, 8);
	return 0;
}

static int submit(int fd, uint32_t *argument, int by_queue)
{
	uint32_t *list, count = argument[2], kind;
	uint64_t pointer, microseconds;
	unsigned char head[16];
	int64_t begun = now();

	memcpy(&pointer, argument, 8);
	list = (uint32_t *)(uintptr_t)pointer;
	for (uint32_t i = 0; i < count; i++)
		if (!list[i] || list[i] > handles || !open_[list[i]])
			return ENOENT;
	if (!count || (by_queue && (!argument[3] || argument[3] > next_queue)))
		return EINVAL;
	if (pread(fd, head, 16, offsets[list[0]]) != 16)
		return EFAULT;
	note("job %d %u %u %02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x\n", getpid(), count,
	     by_queue ? argument[3] : argument[6], head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7],
	     head[8], head[9], head[10], head[11], head[12], head[13], head[14], head[15]);
	for (uint32_t i = 1; i < count; i++) {
		unsigned char other[16];

		if (pread(fd, other, 16, offsets[list[i]]) != 16)
			return EFAULT;
		note("other %d %d\n", getpid(), memcmp(other, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16) != 0);
	}
	memcpy(&kind, head + 4, 4);
	memcpy(&microseconds, head + 8, 8);
	if (memcmp(head, "AMLF", 4))
		kind = 0;
	status_of[list[0]] = 0;
	done_at[list[0]] = begun + 200000;
	if (kind == 1) {
		done_at[list[0]] = begun + microseconds * 1000;
	} else if (kind == 2 && getenv("FAKE_ABORT_MS")) {
		done_at[list[0]] = begun + atoll(getenv("FAKE_ABORT_MS")) * 1000000ll;
		status_of[list[0]] = 256;
	} else if (kind == 2 || kind == 3) {
		done_at[list[0]] = INT64_MAX;
	}
	return 0;
}

static int wait_for(uint32_t *argument)
{
	int64_t deadline, until;
	struct timespec t;
	int error;

	memcpy(&deadline, argument + 2, 8);
	if (!argument[0] || argument[0] > handles || !open_[argument[0]])
		return EINVAL;
	until = done_at[argument[0]] < deadline ? done_at[argument[0]] : deadline;
	t = (struct timespec){ until / 1000000000, until % 1000000000 };
	error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	if (error)
		return error;
	if (done_at[argument[0]] > deadline)
		return ETIMEDOUT;
	argument[4] = status_of[argument[0]];
	return 0;
}

static int answer(int fd, unsigned long request, uint32_t *argument)
{
	uint64_t number;
	char *failing = getenv("FAKE_FAIL");
	int cmdq = strcmp(setting("FAKE_CMDQ", "no"), "no");

	if (failing && strtoul(failing, &failing, 16) == request)
		return atoi(failing + 1);
	switch (request) {
	case 0xc0406400: /* VERSION */
		memcpy(&number, argument + 6, 8);
		strcpy((char *)(uintptr_t)number, setting("FAKE_NAME", "intel_vpu"));
		return 0;
	case 0xc0106440:
		return get_param(argument);
	case 0xc0186442: /* BO_CREATE */
		memcpy(&number, argument, 8);
		if (handles + 1 >= MOST)
			return ENOMEM;
		note("create %d %llu %x\n", getpid(), (unsigned long long)number, argument[2]);
		argument[3] = ++handles;
		open_[handles] = 1;
		offsets[handles] = next_offset;
		next_offset = ends[handles] = next_offset + ((number + 4095) & ~4095ull);
		number = 0x80000000ull + offsets[handles];
		memcpy(argument + 4, &number, 8);
		return 0;
	case 0xc0206443: /* BO_INFO */
		if (!argument[0] || argument[0] > handles || !open_[argument[0]])
			return ENOENT;
		number = 0x80000000ull + offsets[argument[0]];
		memcpy(argument + 2, &number, 8);
		memcpy(argument + 4, &offsets[argument[0]], 8);
		number = ends[argument[0]] - offsets[argument[0]];
		memcpy(argument + 6, &number, 8);
		return 0;
	case 0x40206445:
		return submit(fd, argument, 0);
	case 0x4020644d:
		return cmdq ? submit(fd, argument, 1) : EINVAL;
	case 0xc00c644b: /* CMDQ_CREATE */
		if (strcmp(setting("FAKE_CMDQ", "no"), "yes"))
			return cmdq ? ENODEV : EINVAL;
		note("queue %d %u\n", getpid(), argument[1]);
		argument[0] = ++next_queue;
		return 0;
	case 0x4004644c: /* CMDQ_DESTROY */
		return 0;
	case 0x40086409: /* GEM_CLOSE */
		if (!argument[0] || argument[0] > handles || !open_[argument[0]])
			return EINVAL;
		open_[argument[0]] = 0;
		return 0;
	}
	return EINVAL;
}

int ioctl(int fd, unsigned long request, ...)
{
	int (*real)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
	va_list arguments;
	void *argument;
	int error;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (fd < 0 || fd >= 1024 || !is_npu[fd])
		return real(fd, request, argument);
	request &= 0xffffffff;
	if (request == 0xc0186446) {
		error = wait_for(argument);
	} else {
		pthread_mutex_lock(&lock);
		error = answer(fd, request, argument);
		pthread_mutex_unlock(&lock);
	}
	note("ioctl %d %lx %d\n", getpid(), request, error);
	errno = error;
	return error ? -1 : 0;
}
