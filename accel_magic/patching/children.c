/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that the traced process starts, with this library preloaded: before its main function, and before it has threads,
 * the functions that are traced are patched in what it has loaded, from recipes in memory that the notebook's process made.
 */
#define _GNU_SOURCE
#include "children.h"
#include "hits.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096ull

struct search {
	const struct child_library *wanted;
	struct patched_library *found;
	struct stat status;
};

/* Where a library is loaded, if it is the file with these numbers. */
static int look_at(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct search *search = argument;
	const char *name = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";

	(void)size;
	if (stat(name, &search->status) || search->status.st_ino != search->wanted->inode ||
	    search->status.st_dev != search->wanted->device || (uint64_t)search->status.st_size != search->wanted->size)
		return 0;
	for (int at = 0; at < info->dlpi_phnum; at++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[at];

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		search->found->base = info->dlpi_addr;
		search->found->start = (info->dlpi_addr + segment->p_vaddr) & ~(PAGE - 1);
		search->found->end = (info->dlpi_addr + segment->p_vaddr + segment->p_filesz + PAGE - 1) & ~(PAGE - 1);
		search->found->offset = segment->p_offset & ~(PAGE - 1);
		search->found->file = -1;
		return 1;
	}
	return 0;
}

/* A system call filter could end the process for what patching needs. */
static int is_filtered(void)
{
	char line[128];
	int filtered = 0;
	FILE *file = fopen("/proc/self/status", "re");

	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, "Seccomp:", 8))
			filtered = atoi(line + 8) != 0;
	if (file)
		fclose(file);
	return filtered;
}

static const void *map_file(unsigned pid, unsigned descriptor, int access, size_t *size)
{
	char path[64];
	struct stat status;
	const void *found = MAP_FAILED;
	int file;

	snprintf(path, sizeof path, "/proc/%u/fd/%u", pid, descriptor);
	file = open(path, access | O_CLOEXEC);
	if (file >= 0 && !fstat(file, &status) && S_ISREG(status.st_mode) && status.st_size > 0) {
		*size = (size_t)status.st_size;
		found = access == O_RDWR ? map_area(file, *size) : mmap(NULL, *size, PROT_READ, MAP_PRIVATE, file, 0);
	}
	if (file >= 0)
		close(file);
	return found == MAP_FAILED ? NULL : found;
}

/* Notes in the shared memory what became of this program, for the user. */
static void report(struct control *control, const char *what)
{
	struct file *files = (struct file *)((char *)control + control->libraries);
	uint32_t at = __atomic_fetch_add(&control->library_count, 1, __ATOMIC_RELAXED);
	ssize_t length;

	if (at >= MOST_FILES)
		return;
	files[at].path[0] = what[0];
	length = readlink("/proc/self/exe", files[at].path + 1, PATH_TEXT - 2);
	files[at].path[length > 0 ? length + 1 : 1] = 0;
	__atomic_store_n(&files[at].pid, getpid(), __ATOMIC_RELEASE);
}

static int is_same(const struct child_function *function, const struct patched_library *library)
{
	uint64_t at = library->base + (uint64_t)function->recipe.address;

	return at >= library->start && at + sizeof function->original <= library->end &&
	       !memcmp((const void *)at, function->original, sizeof function->original);
}

static void set_point(const struct child_function *function, const struct op *programs, const struct patched_library *library,
		      uint32_t generation)
{
	struct point *point = &accel_magic_points[function->number];

	*point = (struct point){
		.tests = function->tests < 0 ? NULL : programs + function->tests,
		.fills = function->fills < 0 ? NULL : programs + function->fills,
		.function = library->base + (uint64_t)function->recipe.address,
		.index = function->number,
		.generation = generation,
		.does = function->does,
		.records = function->records,
		.counts_at_return = function->counts_at_return,
		.id = function->id,
	};
}

/* Patches what this program has loaded; returns how many functions. */
static size_t patch_loaded(const struct child_header *header)
{
	const struct child_library *wanted = (const struct child_library *)(header + 1);
	const struct child_function *functions = (const struct child_function *)(wanted + header->libraries);
	const struct op *given = (const struct op *)(functions + header->functions);
	struct patched_library *libraries = calloc(header->libraries + 1, sizeof *libraries);
	struct recipe *recipes = calloc(header->functions + 1, sizeof *recipes);
	struct request *requests = calloc(header->functions + 1, sizeof *requests);
	uint8_t *results = calloc(header->functions + 1, 1);
	struct op *programs = accel_magic_patching_programs();
	size_t count = 0, patched = 0;

	if (!libraries || !recipes || !requests || !results)
		goto out;
	memcpy(programs, given, header->ops * sizeof *given);
	for (uint32_t at = 0; at < header->libraries; at++)
		dl_iterate_phdr(look_at, &(struct search){.wanted = &wanted[at], .found = &libraries[at]});
	for (uint32_t at = 0; at < header->functions; at++) {
		const struct child_function *function = &functions[at];

		if (function->recipe.library >= header->libraries || function->number >= MOST_FUNCTIONS)
			continue;
		if (!libraries[function->recipe.library].start || !is_same(function, &libraries[function->recipe.library]))
			continue;
		set_point(function, programs, &libraries[function->recipe.library], header->generation);
		recipes[count] = function->recipe;
		requests[count++] = (struct request){function->number, function->counts};
	}
	if (count && !accel_magic_patching_patch(libraries, recipes, requests, count, results))
		for (size_t at = 0; at < count; at++)
			patched += results[at] == PATCHED;
out:
	free(libraries);
	free(recipes);
	free(requests);
	free(results);
	return patched;
}

static int is_whole(const struct child_header *header, size_t size)
{
	return size >= sizeof *header && header->magic == CHILD_MAGIC && header->ops <= MOST_OPS &&
	       header->libraries <= 4096 && header->functions <= MOST_FUNCTIONS &&
	       sizeof *header + header->libraries * sizeof(struct child_library) +
			       header->functions * sizeof(struct child_function) + header->ops * sizeof(struct op) <= size;
}

void accel_magic_join_parent(void)
{
	const char *text = secure_getenv("ACCEL_MAGIC_PATCHING");
	unsigned pid, memory, given;
	size_t size = 0, room = 0;
	const struct child_header *header;
	struct control *control;

	if (!text || sscanf(text, "%u:%u:%u", &pid, &memory, &given) != 3 || pid == (unsigned)getpid())
		return;
	header = map_file(pid, given, O_RDONLY, &size);
	control = header && is_whole(header, size) ? (struct control *)map_file(pid, memory, O_RDWR, &room) : NULL;
	if (!control || control->magic != AREA_MAGIC || control->version != AREA_VERSION || control->size != room ||
	    memcmp(control->token, header->token, sizeof control->token))
		return;
	if (!control->enabled || control->generation != header->generation) {
		return;
	} else if (is_filtered()) {
		report(control, "F");
	} else if (accel_magic_patching_join(control)) {
		report(control, "R");
	} else {
		report(control, patch_loaded(header) ? "P" : "N");
	}
}
