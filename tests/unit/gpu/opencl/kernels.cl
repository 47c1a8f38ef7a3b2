// Kernels whose accesses are known: work-items x accesses x iterations.
kernel void add(global const float *a, global const float *b, global float *c, uint count)
{
	size_t i = get_global_id(0);

	if (i < count)
		c[i] = a[i] + b[i];
}

kernel void transpose(global const float *from, global float *to, uint width, uint height)
{
	size_t x = get_global_id(0), y = get_global_id(1);

	to[x * height + y] = from[y * width + x];
}

kernel void sum(global const float *from, global float *to, local float *part)
{
	uint item = get_local_id(0);

	part[item] = from[get_global_id(0)];
	barrier(CLK_LOCAL_MEM_FENCE);
	for (uint step = get_local_size(0) / 2; step; step /= 2) {
		if (item < step)
			part[item] += part[item + step];
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	if (!item)
		to[get_group_id(0)] = part[0];
}

kernel void choose(global const int *from, global int *to)
{
	size_t i = get_global_id(0);
	int value = from[i];

	if (value & 1) {
		to[i] = 3 * value + 1;
		return;
	}
	switch (value % 3) {
	case 0:
		to[i] = from[i ^ 1] / 3;
		break;
	case 1:
		to[i] = -value;
		break;
	default:
		to[i] = value / 2;
	}
}

kernel void columns(global const float4 *from, global float4 *to, uint rows)
{
	size_t i = get_global_id(0), width = get_global_size(0);
	float4 sum = 0;

	for (uint row = 0; row < rows; row++)
		sum += from[i + row * width];
	to[i] = sum;
}

kernel void count(global const uint *from, volatile global uint *bins)
{
	atomic_inc(bins + from[get_global_id(0)] % 16);
}
