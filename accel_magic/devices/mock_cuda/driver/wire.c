/* Communication with the server: one connection per thread, and one per process, by which the server sees its end. */
#define _GNU_SOURCE
#include "mock_cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct process process;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t closing;
static int lifeline = -1, forked;
static char folder[PATH_MAX]; /* of the server's socket */
static const char *name;
static uint64_t generation;
static __thread int line = -1;
static __thread uint64_t line_generation;

/* Read the path of the server's socket from the environment, once, when the process connects. */
static int find_server(void)
{
	const char *path = getenv("ACCEL_MAGIC_MOCK_CUDA");
	char *end;

	if (!path || strlen(path) >= sizeof(folder))
		return 0;
	strcpy(folder, path);
	end = strrchr(folder, '/');
	if (!end)
		return 0;
	*end = 0;
	name = end + 1;
	return 1;
}

/* Connect through the folder, because the path may be longer than an address. */
static int connect_to_server(int descriptor)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int place = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC), size;

	if (place < 0)
		return -1;
	size = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", place, name);
	if (size >= (int)sizeof(address.sun_path) || connect(descriptor, (struct sockaddr *)&address, sizeof(address)))
		size = -1;
	close(place);
	return size < 0;
}

static int open_line(void)
{
	int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct ucred other;
	socklen_t size = sizeof(other);

	if (descriptor < 0)
		return -1;
	/* Another user may have made a folder of this name after the server ended. */
	if (connect_to_server(descriptor) || getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &other, &size) ||
	    (other.uid && other.uid != geteuid())) {
		close(descriptor);
		return -1;
	}
	return descriptor;
}

/* Send all of it; a non-negative file is attached to the first byte. */
static int push(int to, const void *data, size_t size, int file)
{
	while (size) {
		struct iovec part = {(void *)data, size};
		union {
			char room[CMSG_SPACE(sizeof(int))];
			struct cmsghdr align;
		} control = {{0}};
		struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
		ssize_t sent;

		if (file >= 0) {
			struct cmsghdr *header;

			message.msg_control = control.room;
			message.msg_controllen = sizeof(control.room);
			header = CMSG_FIRSTHDR(&message);
			header->cmsg_level = SOL_SOCKET;
			header->cmsg_type = SCM_RIGHTS;
			header->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(header), &file, sizeof(int));
		}
		sent = sendmsg(to, &message, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return -1;
		file = -1;
		data = (const char *)data + sent;
		size -= sent;
	}
	return 0;
}

/* Receive all of it; an attached file is stored in `file` unless that is null. */
static int pull(int from, void *data, size_t size, int *file)
{
	while (size) {
		struct iovec part = {data, size};
		union {
			char room[CMSG_SPACE(sizeof(int))];
			struct cmsghdr align;
		} control;
		struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
		struct cmsghdr *header;
		ssize_t got;

		if (file) {
			message.msg_control = control.room;
			message.msg_controllen = sizeof(control.room);
		}
		got = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -1;
		header = file ? CMSG_FIRSTHDR(&message) : NULL;
		if (header && header->cmsg_type == SCM_RIGHTS)
			memcpy(file, CMSG_DATA(header), sizeof(int));
		data = (char *)data + got;
		size -= got;
	}
	return 0;
}

static int show(int from, size_t size, FILE *to)
{
	char *text;
	int failed;

	if (!size)
		return 0;
	text = malloc(size);
	failed = !text || pull(from, text, size, NULL);
	if (!failed) {
		fwrite(text, 1, size, to);
		fflush(to);
	}
	free(text);
	return failed;
}

void locally(const char *text)
{
	fprintf(stderr, "simulated device: %s\n", text);
}

/* Receive a reply; its data, which the caller frees, is NULL if there is none. */
static int hear(int from, struct reply *reply, void **data, int *file)
{
	*data = NULL;
	if (pull(from, reply, sizeof(*reply), file) || show(from, reply->printed, stdout) ||
	    show(from, reply->said, stderr))
		return -1;
	if (!reply->size)
		return 0;
	*data = calloc(1, reply->size + 1);
	return !*data || pull(from, *data, reply->size, NULL) ? -1 : 0;
}

static CUresult greet(int on, uint64_t client, int *file)
{
	struct request request = {.operation = HELLO, .a = {getpid(), client, syscall(SYS_gettid)}};
	struct reply reply;
	void *data;

	if (push(on, &request, sizeof(request), -1) || hear(on, &reply, &data, file)) {
		return NO_DEVICE;
	}
	if (client || reply.result || !data) {
		free(data);
		return reply.result;
	}
	process.client = reply.a[0];
	process.base = reply.a[1];
	process.size = reply.a[2];
	process.greeting = data;
	process.attributes = (reply.size - sizeof(struct greeting)) / sizeof(process.greeting->attributes[0]);
	return SUCCESS;
}

/* Map the device's memory at its device addresses, so that host and device share pointers; elsewhere if taken. */
static CUresult map_memory(int file)
{
	const int access = PROT_READ | PROT_WRITE;
	void *wanted = (void *)process.base, *at;

	at = mmap(wanted, process.size, access, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
	if (at != MAP_FAILED && at != wanted)
		munmap(at, process.size);
	if (at != wanted)
		at = mmap(NULL, process.size, access, MAP_SHARED, file, 0);
	process.map = at == MAP_FAILED ? NULL : at;
	return process.map ? SUCCESS : OUT_OF_MEMORY;
}

static void close_line(void *value)
{
	close((int)(intptr_t)value - 1);
}

/* A forked child cannot use the parent's connections and handles; CUDA does not support that either. */
static void after_fork(void)
{
	if (lifeline >= 0) {
		close(lifeline);
		forked = 1;
	}
	if (line >= 0)
		close(line);
	lifeline = line = -1;
	pthread_mutex_init(&lock, NULL);
}

static void prepare(void)
{
	pthread_key_create(&closing, close_line);
	pthread_atfork(NULL, NULL, after_fork);
}

/* Connect this process to the server if necessary. */
CUresult connected(void)
{
	CUresult result = SUCCESS;
	int file = -1, descriptor;

	pthread_once(&once, prepare);
	pthread_mutex_lock(&lock);
	if (forked) {
		result = NOT_INITIALIZED;
	} else if (lifeline < 0) {
		descriptor = find_server() ? open_line() : -1;
		result = descriptor < 0 ? NO_DEVICE : greet(descriptor, 0, &file);
		if (!result)
			result = map_memory(file);
		if (file >= 0)
			close(file);
		if (!result) {
			lifeline = descriptor;
			generation++;
		} else if (descriptor >= 0) {
			close(descriptor);
		}
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* Return to the state before cuInit, because the server in this process ends. */
API void accel_mock_cuda_reset(void)
{
	pthread_mutex_lock(&lock);
	if (lifeline >= 0) {
		close(lifeline);
		munmap(process.map, process.size);
		free(process.greeting);
		memset(&process, 0, sizeof(process));
		forget_ranges();
	}
	lifeline = -1;
	pthread_mutex_unlock(&lock);
}

/* This thread's connection, opened if necessary; -1 on failure. */
static int own_line(void)
{
	int descriptor;

	if (lifeline < 0)
		return -1;
	if (line >= 0 && line_generation == generation)
		return line;
	if (line >= 0)
		close(line);
	line = -1;
	descriptor = open_line();
	if (descriptor >= 0 && greet(descriptor, process.client, NULL)) {
		close(descriptor);
		descriptor = -1;
	}
	if (descriptor < 0)
		return -1;
	line = descriptor;
	line_generation = generation;
	pthread_setspecific(closing, (void *)(intptr_t)(line + 1));
	return line;
}

static CUresult exchange(struct request *request, const void *data, int file, struct reply *reply, void **received)
{
	struct reply own;
	void *unwanted = NULL;
	int on = own_line();

	if (!reply)
		reply = &own;
	if (on < 0)
		return lifeline < 0 ? NOT_INITIALIZED : DEINITIALIZED;
	if (push(on, request, sizeof(*request), file) || push(on, data, request->size, -1) ||
	    hear(on, reply, received ? received : &unwanted, NULL))
		return DEINITIALIZED;
	free(unwanted);
	return reply->result;
}

/* Send a request to the server and wait for the reply.
 *
 * data: `request->size` bytes. reply: may be NULL. received: set to the reply's data, freed by the caller; may be NULL.
 */
CUresult ask(struct request *request, const void *data, struct reply *reply, void **received)
{
	return exchange(request, data, -1, reply, received);
}

CUresult ask_with_file(struct request *request, int descriptor, struct reply *reply)
{
	return exchange(request, NULL, descriptor, reply, NULL);
}

CUresult tell(enum operation operation, uint64_t first, uint64_t second)
{
	struct request request = {.operation = operation, .a = {first, second}};

	return ask(&request, NULL, NULL, NULL);
}
