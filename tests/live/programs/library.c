/* A small library: two similarly named functions, an alias of the first, and a static function. */
#include <stdint.h>

__attribute__((noinline, used)) static uint64_t amt_hidden(uint64_t value)
{
	__asm__ volatile("" : "+r"(value));
	return value + 1;
}

uint64_t amt_first(uint64_t value)
{
	return amt_hidden(value);
}

uint64_t amt_second(uint64_t value)
{
	return amt_hidden(value) + 1;
}

uint64_t amt_alias(uint64_t value) __attribute__((alias("amt_first")));
