// Loads a policy's object with libbpf, attaches its table of functions and its probes, and detaches when told.
//
// Usage: policy_loader OBJECT SOCKET    (the number of an open SOCK_SEQPACKET socket)
//
// It sends a message with the name and the descriptor of each map, then "!loaded". On any message it attaches, and
// answers "!attached". When the other side closes its end, it ends, and the kernel detaches what belongs to it, as it does
// when it is killed. What libbpf and the verifier say goes to standard error.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { REFUSED = 2, NOT_ATTACHED = 3, FAILED = 4 };

#ifndef BPF_F_LINK
#define BPF_F_LINK (1U << 13) // Linux 6.4, newer than Debian 12's headers
#endif

static int peer;

static int say(enum libbpf_print_level level, const char *format, va_list arguments)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, arguments) : 0;
}

static void end(int status, const char *what, const char *name)
{
	fprintf(stderr, "%s %s: %s\n", what, name, strerror(errno));
	exit(status);
}

static void tell(const char *text, int descriptor)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec part = { (char *)text, strlen(text) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (descriptor >= 0) {
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	if (sendmsg(peer, &message, MSG_NOSIGNAL) < 0)
		end(FAILED, "cannot send", text);
}

static void wait_for_peer(void)
{
	char message[16];

	if (recv(peer, message, sizeof(message), 0) <= 0)
		exit(0);
}

static void tell_maps(struct bpf_object *object)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object) {
		const char *name = bpf_map__name(map);

		if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS)
			continue;
		if (bpf_map__is_internal(map) && strchr(name, '.'))
			name = strchr(name, '.'); // libbpf puts the object's name in front
		tell(name, bpf_map__fd(map));
	}
}

// A table that is no link (SEC(".struct_ops")) would stay attached after its process.
static void make_links(struct bpf_object *object)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object) {
		if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS)
			bpf_map__set_map_flags(map, bpf_map__map_flags(map) | BPF_F_LINK);
	}
}

static void attach(struct bpf_object *object)
{
	struct bpf_program *program;
	struct bpf_map *map;

	// Probes first: they fill in what the table's functions look up.
	bpf_object__for_each_program(program, object) {
		if (bpf_program__type(program) == BPF_PROG_TYPE_STRUCT_OPS)
			continue;
		if (!bpf_program__attach(program))
			end(NOT_ATTACHED, "cannot attach", bpf_program__name(program));
	}
	bpf_object__for_each_map(map, object) {
		if (bpf_map__type(map) != BPF_MAP_TYPE_STRUCT_OPS)
			continue;
		if (!bpf_map__attach_struct_ops(map))
			end(NOT_ATTACHED, "cannot attach", bpf_map__name(map));
	}
}

int main(int count, char **arguments)
{
	struct bpf_object *object;

	if (count != 3)
		return FAILED;
	peer = atoi(arguments[2]);
	libbpf_set_print(say);
	object = bpf_object__open_file(arguments[1], NULL);
	if (!object)
		end(REFUSED, "cannot open", arguments[1]);
	make_links(object);
	if (bpf_object__load(object))
		end(REFUSED, "the kernel refused", arguments[1]);
	tell_maps(object);
	tell("!loaded", -1);
	wait_for_peer();
	attach(object);
	tell("!attached", -1);
	for (;;)
		wait_for_peer();
}
