/* CPU programs in the file of a GPU program that use <bpf/bpf_tracing.h>. */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("uprobe")
int BPF_KPROBE(fourth_argument, const void *function, u64 grid, u64 block, long last)
{
	return last;
}

SEC("uretprobe")
int BPF_KRETPROBE(result, int value)
{
	return value;
}

SEC("kprobe/do_exit")
int BPF_KPROBE(no_argument)
{
	return 1;
}

SEC("kprobe/do_exit")
int second_argument(struct pt_regs *ctx)
{
	return PT_REGS_PARM2(ctx);
}

char LICENSE[] SEC("license") = "GPL";
