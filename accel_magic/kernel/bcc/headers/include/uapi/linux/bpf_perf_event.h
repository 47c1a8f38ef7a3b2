#include <linux/ptrace.h>

struct bpf_perf_event_data {
	struct pt_regs regs;
	unsigned long long sample_period;
	unsigned long long addr;
};
