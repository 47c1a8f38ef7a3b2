/*
 * A program with a static probe, written as by <sys/sdt.h>: provider `places`, probe `visit` with three
 * arguments (a signed int in a register, a 64-bit value in memory, a constant) and a semaphore; probe `plain` has none.
 * places N: visits N times and prints how often the semaphore was nonzero.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

volatile unsigned short places_visit_semaphore __attribute__((section(".probes"), used));

#define NOTE(name, semaphore, arguments)                                                                             \
	"990: nop\n"                                                                                                   \
	".pushsection .note.stapsdt,\"\",\"note\"\n"                                                                   \
	".balign 4\n.4byte 992f-991f, 994f-993f, 3\n"                                                                  \
	"991: .asciz \"stapsdt\"\n992: .balign 4\n"                                                                    \
	"993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " semaphore "\n"                                              \
	".asciz \"places\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n994: .balign 4\n.popsection\n"                \
	".ifndef _.stapsdt.base\n"                                                                                     \
	".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                                        \
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n"            \
	".popsection\n.endif\n"

int main(int count, char **values)
{
	long visits = count > 1 ? atol(values[1]) : 1, up = 0;

	for (long i = 0; i < visits; i++) {
		volatile uint64_t large = (1ULL << 40) + i;
		int32_t small = (int32_t)(-i);

		if (places_visit_semaphore)
			up++;
		__asm__ volatile(NOTE("visit", "places_visit_semaphore", "-4@%0 8@%1 -4@$42") ::"r"(small), "m"(large));
		if (i % 4 == 0)
			__asm__ volatile(NOTE("plain", "0", "") ::);
	}
	printf("visit %ld\nplain %ld\nup %ld\n", visits, (visits + 3) / 4, up);
	return 0;
}
