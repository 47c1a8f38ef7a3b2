/* Shows which files are opened, by which process, and how long each open takes.
 *
 *   %%ktrace --program bpf/examples/openings.bpf.c
 *
 * Maps: `latency_us`, a histogram, and `by_process`. Events: one record per open in `openings`.
 */
struct opening {
	u64 time_ns;
	u64 duration_ns;
	u32 pid;
	s32 result;
	char comm[16];
	char path[64];
};

struct start {
	u64 time_ns;
	const char *path;
};

BPF_HASH(starts, u64, struct start);
BPF_HISTOGRAM(latency_us);
BPF_HASH(by_process, u32);
BPF_ARRAY(failed_outputs, u64, 1);
BPF_RINGBUF_OUTPUT(openings, 256);

TRACEPOINT_PROBE(syscalls, sys_enter_openat)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct start start = {.time_ns = bpf_ktime_get_ns(), .path = args->filename};

	starts.update(&thread, &start);
	return 0;
}

TRACEPOINT_PROBE(syscalls, sys_exit_openat)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct start *start = starts.lookup(&thread);
	struct opening opening = {};

	if (!start)
		return 0;
	opening.time_ns = start->time_ns;
	opening.duration_ns = bpf_ktime_get_ns() - start->time_ns;
	opening.pid = thread >> 32;
	opening.result = args->ret;
	bpf_get_current_comm(opening.comm, sizeof(opening.comm));
	bpf_probe_read_user_str(opening.path, sizeof(opening.path), start->path);
	starts.delete(&thread);

	latency_us.atomic_increment(bpf_log2l(opening.duration_ns / 1000));
	by_process.atomic_increment(opening.pid);
	/* The kernel does not count records dropped by a full ring buffer. */
	if (openings.ringbuf_output(&opening, sizeof(opening), 0))
		failed_outputs.atomic_increment(0);
	return 0;
}
