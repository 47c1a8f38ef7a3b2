#define _GNU_SOURCE
#include "images.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRAPPER = 0x466243b1, CONTAINER = 0xba55ed50, PTX = 1 };

static const size_t LARGE = 32u << 20; /* NVIDIA's libraries have hundreds of MiB of machine code */

struct wrapper {
	uint32_t magic, version;
	const void *data;
	const void *more;
};

struct container {
	uint32_t magic;
	uint16_t version, header;
	uint64_t size;
};

struct entry {
	uint16_t kind, version;
	uint32_t header;
	uint64_t size;
};

static size_t most(size_t one, size_t other)
{
	return one > other ? one : other;
}

static size_t elf_size(const char *image)
{
	Elf64_Ehdr head;
	size_t size;

	memcpy(&head, image, sizeof head);
	if (head.e_ident[EI_CLASS] != ELFCLASS64)
		return 0;
	size = head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
	size = most(size, head.e_phoff + (size_t)head.e_phnum * head.e_phentsize);
	for (unsigned i = 0; i < head.e_shnum; i++) {
		Elf64_Shdr section;

		memcpy(&section, image + head.e_shoff + (size_t)i * head.e_shentsize, sizeof section);
		if (section.sh_type != SHT_NOBITS)
			size = most(size, section.sh_offset + section.sh_size);
	}
	return size;
}

static int has_ptx(const char *at, size_t left)
{
	struct entry entry;

	while (left >= sizeof entry) {
		memcpy(&entry, at, sizeof entry);
		if (entry.kind == PTX)
			return 1;
		if (entry.header + entry.size > left || entry.header + entry.size == 0)
			return 0;
		at += entry.header + entry.size;
		left -= entry.header + entry.size;
	}
	return 0;
}

static struct span container_span(const char *image)
{
	struct container head;
	size_t size;

	memcpy(&head, image, sizeof head);
	if (head.magic != CONTAINER)
		return (struct span){0};
	size = head.header + head.size;
	if (size > LARGE && !has_ptx(image + head.header, head.size))
		return (struct span){0};
	return (struct span){image, size};
}

static int is_text(const char *image)
{
	while (*image == ' ' || *image == '\n' || *image == '\r' || *image == '\t')
		image++;
	return *image == '/' || *image == '.'; /* a comment or a directive */
}

struct span image_span(const void *image)
{
	uint32_t magic;
	struct wrapper wrapper;

	if (!image)
		return (struct span){0};
	/* Check for text first: it may be shorter than a magic number. */
	if (is_text(image))
		return (struct span){image, strlen(image) + 1};
	memcpy(&magic, image, sizeof magic);
	if (!memcmp(&magic, ELFMAG, SELFMAG)) {
		size_t size = elf_size(image);

		return (struct span){image, size > LARGE ? 0 : size};
	}
	if (magic == CONTAINER)
		return container_span(image);
	if (magic != WRAPPER)
		return (struct span){0};
	memcpy(&wrapper, image, sizeof wrapper);
	return wrapper.data ? container_span(wrapper.data) : (struct span){0};
}

struct span image_file(const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	char *data = NULL;
	size_t done = 0;

	if (file < 0)
		return (struct span){0};
	if (!fstat(file, &status) && S_ISREG(status.st_mode))
		data = calloc(1, (size_t)status.st_size + sizeof(struct wrapper));
	while (data && done < (size_t)status.st_size) {
		ssize_t got = read(file, data + done, (size_t)status.st_size - done);

		if (got <= 0)
			break;
		done += (size_t)got;
	}
	close(file);
	if (data && done == (size_t)status.st_size)
		return (struct span){data, done};
	free(data);
	return (struct span){0};
}

void image_file_release(struct span file)
{
	free((void *)file.data);
}
