/* A 32-bit program without libraries: CALLS calls of getppid, which has the number of the 64-bit semget. */
static long call_32(int number, int first)
{
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first) : "memory");
	return result;
}

void _start(void)
{
	long made = 0;

	for (int i = 0; i < CALLS; i++)
		made += call_32(64, 0) > 0;
	call_32(1, made == CALLS ? 0 : 1); /* exit */
	__builtin_unreachable();
}
