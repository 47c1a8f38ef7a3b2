/* Host memory that a program registers so that kernels can access it: the server maps the same file.
 *
 * Memory that is already shared (a BPF map, a memfd) has a file, which is found among the open descriptors. Private
 * memory is moved into a new file, which is mapped in its place until it is unregistered.
 */
#define _GNU_SOURCE
#include "mock_cuda.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ACCESS (PROT_READ | PROT_WRITE)

struct pages {
	uint8_t *first;
	size_t size;
};

static struct pages pages_of(void *pointer, size_t size)
{
	uintptr_t page = sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)pointer / page * page;
	uintptr_t end = ((uintptr_t)pointer + size + page - 1) / page * page;

	return (struct pages){(uint8_t *)first, end - first};
}

/* How /proc/self/maps shows all of it: 's' for shared, 'p' for private, 0 if mixed or not fully mapped read-write. */
static char mapped_as(struct pages what)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t at = (uintptr_t)what.first, end = at + what.size, from, to;
	char line[512], how, found = 0;

	while (maps && at < end && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx rw%*c%c", &from, &to, &how) != 3 || to <= at || from > at)
			continue;
		if (found && how != found)
			break;
		found = how;
		at = to;
	}
	if (maps)
		fclose(maps);
	return at < end ? 0 : found;
}

/* The physical page at an address; 0 if the kernel does not reveal it. */
static uint64_t frame(const volatile uint8_t *address)
{
	int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	(void)*address; /* make sure that the page exists */
	if (file < 0)
		return 0;
	if (pread(file, &entry, sizeof(entry), (uintptr_t)address / sysconf(_SC_PAGESIZE) * sizeof(entry)) !=
	    sizeof(entry))
		entry = 0;
	close(file);
	return entry & ((1ull << 55) - 1);
}

static int is_same(int file, struct pages what)
{
	uint8_t *again = mmap(NULL, what.size, PROT_READ, MAP_SHARED, file, 0);
	uint64_t place;
	int same;

	if (again == MAP_FAILED)
		return 0;
	place = frame(what.first);
	same = place && place == frame(again);
	munmap(again, what.size);
	return same;
}

/* Whether a memfd has at least this size: pages past its end cannot be read. */
static int reaches(int file, size_t size)
{
	struct stat status;

	return !fstat(file, &status) && status.st_size >= (off_t)size;
}

/* The descriptor of the file that is mapped there from its beginning; -1 for none. */
static int file_of(struct pages what)
{
	DIR *files = opendir("/proc/self/fd");
	struct dirent *entry;
	char target[64];
	int found = -1;

	while (files && found < 0 && (entry = readdir(files))) {
		ssize_t length = readlinkat(dirfd(files), entry->d_name, target, sizeof(target) - 1);
		int file = atoi(entry->d_name);

		target[length < 0 ? 0 : length] = 0;
		if ((!strncmp(target, "anon_inode:bpf-map", 18) ||
		     (!strncmp(target, "/memfd:", 7) && reaches(file, what.size))) &&
		    is_same(file, what))
			found = file;
	}
	if (files)
		closedir(files);
	return found;
}

/* Move private memory into a file. Concurrent writes by other threads are lost; they cannot be prevented. */
static int moved(struct pages what)
{
	int file = memfd_create("accel_magic registered memory", MFD_CLOEXEC);
	uint8_t *copy = MAP_FAILED;

	if (file >= 0 && !ftruncate(file, what.size))
		copy = mmap(NULL, what.size, ACCESS, MAP_SHARED, file, 0);
	if (copy != MAP_FAILED) {
		memcpy(copy, what.first, what.size);
		if (mremap(copy, what.size, what.size, MREMAP_MAYMOVE | MREMAP_FIXED, what.first) != MAP_FAILED)
			return file;
		munmap(copy, what.size);
	}
	if (file >= 0)
		close(file);
	return -1;
}

static void move_back(struct pages what)
{
	uint8_t *copy = mmap(NULL, what.size, ACCESS, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return; /* it stays in the file, which works as well */
	memcpy(copy, what.first, what.size);
	if (mremap(copy, what.size, what.size, MREMAP_MAYMOVE | MREMAP_FIXED, what.first) == MAP_FAILED)
		munmap(copy, what.size);
}

API CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned int flags)
{
	struct request request = {.operation = SHARE};
	CUresult result = usable();
	struct range known;
	struct pages pages;
	struct reply reply;
	int file;
	char how;

	if (result || !pointer || !size)
		return result ? result : INVALID_VALUE;
	if (find_range((uint64_t)(uintptr_t)pointer, &known))
		return HOST_MEMORY_ALREADY_REGISTERED;
	pages = pages_of(pointer, size);
	how = mapped_as(pages);
	if (!how)
		return INVALID_VALUE;
	file = how == 's' ? file_of(pages) : moved(pages);
	if (file < 0)
		return how == 's' ? NOT_SUPPORTED : OUT_OF_MEMORY;
	request.a[0] = pages.size;
	result = ask_with_file(&request, file, &reply);
	if (how == 'p') {
		close(file);
		if (result)
			move_back(pages);
	}
	if (result)
		return result;
	add_range((struct range){
		.address = reply.a[0] + ((uint8_t *)pointer - pages.first),
		.size = size,
		.host = pointer,
		.kind = how == 'p' ? MOVED : REGISTERED,
		.flags = flags,
	});
	return SUCCESS;
}

API CUresult cuMemHostUnregister(void *pointer)
{
	uint64_t page = sysconf(_SC_PAGESIZE), given = (uint64_t)(uintptr_t)pointer;
	CUresult result = usable();
	struct range range;

	if (result)
		return result;
	if (!take_range(given, REGISTERED, &range) && !take_range(given, MOVED, &range))
		return HOST_MEMORY_NOT_REGISTERED;
	result = tell(FREE, range.address / page * page, EVERYTHING);
	if (range.kind == MOVED)
		move_back(pages_of(pointer, range.size));
	return result;
}
