// Reads the guest's clock whenever the host asks for it through a page that both have mapped.
//
// Prints the page's address in the guest's physical memory. Then, for each new number in the first word: the clock, a
// system call, the clock again, and the number in the second word. Ends when the number is the largest.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define PRESENT (1ULL << 63)
#define FRAME ((1ULL << 55) - 1)

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

int main(void)
{
	_Atomic uint64_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
	FILE *map = fopen("/proc/self/pagemap", "rb");
	uint64_t entry, number = 0;

	if (page == MAP_FAILED || !map)
		return 1;
	page[0] = 0;
	setvbuf(map, NULL, _IONBF, 0);
	if (fseek(map, (long)((uintptr_t)page / PAGE * 8), SEEK_SET) || fread(&entry, 8, 1, map) != 1 || !(entry & PRESENT))
		return 2;
	printf("%llu\n", (unsigned long long)((entry & FRAME) * PAGE));
	fflush(stdout);
	for (;;) {
		while (page[0] == number)
			;
		number = page[0];
		if (number == UINT64_MAX)
			return 0;
		page[2] = now();
		syscall(SYS_getsid, 0);
		page[3] = now();
		page[1] = number;
	}
}
