#include "programs.h"

NOINLINE u64 sum_of(const u64 *numbers, u32 count)
{
	u64 sum = 0;

	if (count > 4)
		return 0;
	ROLLED for (u32 at = 0; at < count; at++)
		sum += ((const volatile u64 *)numbers)[at];
	return sum;
}

NOINLINE void fill(u64 *to, u64 number)
{
	*to = number;
}

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	u64 numbers[4];

	for (u32 at = 0; at < 4; at++)
		fill(&numbers[at], at);
	item->total = sum_of(numbers, 4) + sum_of(numbers, 2);
	return 0;
}
