#define _GNU_SOURCE
#include "talk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	ANSWER_S = 120, /* compiling programs for a new architecture takes a few seconds */
	SEND_S = 2,
	HIGH_DESCRIPTOR = 700, /* out of the way of programs that expect low numbers */
};

static int connection = -1;
static ino_t inode;

int talk_descriptor(void)
{
	return connection;
}

/* The program may have closed descriptors that it did not open. */
int talk_is_open(void)
{
	struct stat status;

	return connection >= 0 && !fstat(connection, &status) && S_ISSOCK(status.st_mode) &&
	       status.st_ino == inode;
}

void talk_end(void)
{
	if (talk_is_open())
		close(connection);
	connection = -1;
}

int talk_tell(struct message message, const char *text, int descriptor)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec parts[2] = {{&message, sizeof message}, {(void *)text, text ? strnlen(text, WIRE_TEXT) : 0}};
	struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t sent;

	if (descriptor >= 0) {
		struct cmsghdr *rights;

		header.msg_control = control;
		header.msg_controllen = sizeof control;
		rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof descriptor);
		memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
	}
	if (!talk_is_open())
		return 0;
	do
		sent = sendmsg(connection, &header, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent >= (ssize_t)sizeof message;
}

int talk_hear(struct message *message, int *descriptor)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {message, sizeof *message};
	struct msghdr header = {
	    .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *rights;
	ssize_t got;

	*descriptor = -1;
	if (!talk_is_open())
		return 0;
	do
		got = recvmsg(connection, &header, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got != (ssize_t)sizeof *message)
		return 0;
	rights = CMSG_FIRSTHDR(&header);
	if (rights && rights->cmsg_type == SCM_RIGHTS)
		memcpy(descriptor, CMSG_DATA(rights), sizeof *descriptor);
	return 1;
}

/* Connect to a socket through its folder, because its path may be longer than an address. */
static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char folder[PATH_MAX];
	const char *name = strrchr(path, '/');
	int place, size;

	if (!name || name - path >= PATH_MAX)
		return -1;
	memcpy(folder, path, name - path);
	folder[name - path] = 0;
	place = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (place < 0)
		return -1;
	size = snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d%s", place, name);
	if (size >= (int)sizeof address.sun_path || connect(connection, (struct sockaddr *)&address, sizeof address))
		size = -1;
	close(place);
	return size < 0;
}

int talk_begin(void)
{
	const char *path = getenv("ACCEL_MAGIC_NATIVE");
	struct ucred other;
	socklen_t size = sizeof other;
	struct timeval receive = {.tv_sec = ANSWER_S}, send = {.tv_sec = SEND_S};
	struct stat status;
	int low, high;

	if (!path)
		return 0;
	low = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (low < 0)
		return 0;
	high = fcntl(low, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR);
	if (high >= 0)
		close(low);
	connection = high >= 0 ? high : low;
	setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof receive);
	setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &send, sizeof send);
	if (fstat(connection, &status))
		return 0;
	inode = status.st_ino;
	if (connect_to(path))
		return 0;
	/* The program will load what the notebook sends, so it must not be another user's process. The notebook itself is
	 * traced by other means. */
	return !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &size) &&
	       (!other.uid || other.uid == getuid()) && other.pid != getpid();
}
