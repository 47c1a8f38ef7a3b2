struct block { u64 entered, threads, left; };
GPU_MAP(blocks, BPF_MAP_TYPE_GPU_ARRAY, u32, struct block, 64);
u64 early, late, entries;
SEC("gpu/block_enter") int enter(struct gpu_block_ctx *ctx)
{
	u32 key = ctx->block;
	struct block *block = bpf_map_lookup_elem(&blocks, &key);
	if (block)
		block->entered += 1;
	entries++;
	return 0;
}
SEC("gpu/entry") int first(struct gpu_ctx *ctx)
{
	u32 key = gpu_block_number();
	struct block *block = bpf_map_lookup_elem(&blocks, &key);
	if (block && block->entered == 0)
		__sync_fetch_and_add(&early, 1);
	return 0;
}
SEC("gpu/exit") int last(struct gpu_ctx *ctx)
{
	u32 key = gpu_block_number();
	struct block *block = bpf_map_lookup_elem(&blocks, &key);
	if (block && block->left)
		__sync_fetch_and_add(&late, 1);
	if (block)
		__sync_fetch_and_add(&block->threads, 1);
	return 0;
}
SEC("gpu/block_exit") int leave(struct gpu_block_ctx *ctx)
{
	u32 key = ctx->block;
	struct block *block = bpf_map_lookup_elem(&blocks, &key);
	if (block)
		block->left = block->threads;
	return 0;
}
