struct three { u32 gpu, cpu, index; };

GPU_MAP(am_words, BPF_MAP_TYPE_ARRAY, u32, u32, 5);
GPU_MAP(am_threes, BPF_MAP_TYPE_GPU_ARRAY, u32, struct three, 4);
u64 am_sum;
u32 am_low = 7, am_high = 9;
const volatile u64 am_step = 3;

SEC("uprobe")
int am_on_work(struct pt_regs *ctx)
{
	u32 key = 3;
	u32 *word = bpf_map_lookup_elem(&am_words, &key);
	struct three *three = bpf_map_lookup_elem(&am_threes, &key);

	if (!word || !three)
		return 0;
	__sync_fetch_and_add(word, 1);
	__sync_fetch_and_add(&three->cpu, 2);
	__sync_fetch_and_add(&am_sum, am_step);
	am_low = 70;
	return 0;
}

SEC("gpu/entry")
int am_begin(struct gpu_ctx *ctx)
{
	u32 key = 3, last = 4;
	u32 *word = bpf_map_lookup_elem(&am_words, &key), *other = bpf_map_lookup_elem(&am_words, &last);
	struct three *three = bpf_map_lookup_elem(&am_threes, &key), fixed = {.gpu = 5, .index = 2};
	u32 two = 2;

	if (!word || !other || !three)
		return 0;
	__sync_fetch_and_add(word, 1);
	__sync_fetch_and_add(other, am_low);
	__sync_fetch_and_add(&three->gpu, 1);
	__sync_fetch_and_add(&am_sum, am_step);
	if (gpu_thread_number() == 0)
		bpf_map_update_elem(&am_threes, &two, &fixed, BPF_ANY);
	return 0;
}
