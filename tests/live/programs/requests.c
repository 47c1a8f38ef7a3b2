#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static volatile char before[] = "before", after[] = "after";
static volatile char touched;

struct request { uint64_t size; uint32_t flags; uint32_t handle; const char *name; };

__attribute__((noinline)) int fill(int fd, struct request *request)
{
	__asm__ volatile("" ::: "memory");
	request->handle = 1000 + fd;
	request->name = (const char *)after;
	return request->flags == 13 ? -1 : 0;
}

__attribute__((noinline)) struct request *make(uint64_t size)
{
	static struct request made;
	__asm__ volatile("" ::: "memory");
	made.size = size * 3;
	return &made;
}

__attribute__((noinline)) int many(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint8_t g,
		int32_t h, struct request *i, uint64_t j, uint64_t k, uint64_t l)
{
	__asm__ volatile("" ::: "memory");
	i->handle = (uint32_t)(a + l);
	return (int)(a + b + c + d + e + f + g + h + j + k + l) != 0 ? 0 : 1;
}

void run_many(int n)
{
	for (int i = 0; i < n; i++) {
		struct request request = { 5000 + i, 0, 0, NULL };
		many(i, 1, 2, 3, 4, 5, 200 + i, -7 - i, &request, 9, 10, 1ull << 40);
	}
}

int run(int n)
{
	for (int i = 0; i < n; i++) {
		struct request request = { 4096ull << i, 10 + i, 0, (const char *)before };
		touched = before[0] + after[0]; /* a page that nobody has read is not in memory */
		fill(i, &request);
		make(i);
	}
	return 0;
}
