#include "gpu_policy.h"
volatile const u16 constant = 3;
s64 variable = 5;
u64 zero;
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} numbers SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4);
	__type(key, char[16]);
	__type(value, u64);
} names SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} found SEC(".maps");
SEC("struct_ops/gpu_block_activate")
int BPF_PROG(on_activate, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	u32 key = 2;
	u64 value = constant, *there;
	char name[16] = "bench";

	bpf_map_update_elem(&found, &key, &value, 0);
	key = 1; value = variable + zero;
	bpf_map_update_elem(&found, &key, &value, 0);
	there = bpf_map_lookup_elem(&numbers, &key);
	key = 0;
	if (there)
		bpf_map_update_elem(&found, &key, there, 0);
	there = bpf_map_lookup_elem(&names, name);
	key = 3;
	if (there)
		bpf_map_update_elem(&found, &key, there, 0);
	return GPU_ACTION_DEFAULT;
}
SEC(".struct_ops.link")
struct gpu_mem_ops tried = { .gpu_block_activate = (void *)on_activate };
