#include "programs.h"

NOINLINE int f8(int x)
{
	return x + (int)gpu_lane_id();
}

NOINLINE int f7(int x)
{
	return f8(x + 1) + (int)gpu_lane_id(); // refuse: call-depth at this line
}

NOINLINE int f6(int x)
{
	return f7(x + 1) + (int)gpu_lane_id();
}

NOINLINE int f5(int x)
{
	return f6(x + 1) + (int)gpu_lane_id();
}

NOINLINE int f4(int x)
{
	return f5(x + 1) + (int)gpu_lane_id();
}

NOINLINE int f3(int x)
{
	return f4(x + 1) + (int)gpu_lane_id();
}

NOINLINE int f2(int x)
{
	return f3(x + 1) + (int)gpu_lane_id();
}

NOINLINE int f1(int x)
{
	return f2(x + 1) + (int)gpu_lane_id();
}

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	return f1(1);
}
