/* A library whose functions are counted by CPU programs: many() calls am_work() the given number of times. */
__attribute__((noinline)) long am_work(long number)
{
	__asm__ volatile("nop" : "+r"(number));
	return number + 1;
}

__attribute__((noinline)) long am_other(long number)
{
	__asm__ volatile("nop" : "+r"(number));
	return number;
}

long many(long count)
{
	long sum = 0;

	for (long number = 0; number < count; number++)
		sum += am_work(number);
	return sum;
}
