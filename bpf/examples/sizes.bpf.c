/* Shows how many bytes are requested from a function: a histogram of its first argument, and its callers by name.
 *
 *   %%ktrace --program bpf/examples/sizes.bpf.c on_call=uprobe:libc:malloc
 */
#include <uapi/linux/ptrace.h>

struct caller {
	u32 tid;
	char comm[16];
};

struct total {
	u64 calls;
	u64 bytes;
};

BPF_HISTOGRAM(sizes);
BPF_HASH(callers, struct caller, struct total);

int on_call(struct pt_regs *ctx)
{
	u64 size = PT_REGS_PARM1(ctx);
	struct caller caller = {.tid = bpf_get_current_pid_tgid()};
	struct total none = {}, *total;

	bpf_get_current_comm(caller.comm, sizeof(caller.comm));
	sizes.atomic_increment(bpf_log2l(size));
	total = callers.lookup_or_try_init(&caller, &none);
	if (total) {
		total->calls += 1;
		total->bytes += size;
	}
	return 0;
}
