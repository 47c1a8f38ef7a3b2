/*
 * The static probe (USDT) accel_magic:step, with the number of the step as its argument. Its semaphore counts the tracers
 * that are attached to it: while it is 0, nobody needs to call accel_magic_step.
 */
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

__attribute__((used)) static const char sources[] = SOURCES;

volatile unsigned short accel_magic_step_semaphore __attribute__((section(".probes"), visibility("hidden"), used));

EXPORTED const volatile unsigned short *accel_magic_semaphore(void)
{
	return &accel_magic_step_semaphore;
}

/* The note has version 3 of the format that <sys/sdt.h> writes. */
EXPORTED void accel_magic_step(int64_t number)
{
	__asm__ volatile("990: nop\n"
			 ".pushsection .note.stapsdt,\"\",\"note\"\n"
			 ".balign 4\n.4byte 992f-991f, 994f-993f, 3\n"
			 "991: .asciz \"stapsdt\"\n992: .balign 4\n"
			 "993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte accel_magic_step_semaphore\n"
			 ".asciz \"accel_magic\"\n.asciz \"step\"\n.asciz \"-8@%0\"\n994: .balign 4\n.popsection\n"
			 ".ifndef _.stapsdt.base\n"
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
			 ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"
			 ".size _.stapsdt.base, 1\n.popsection\n.endif\n" ::"r"(number));
}
