/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments and results of functions on the CPU, for kprobes and uprobes in the same file as GPU programs. Needs
 * <vmlinux.h> (or another definition of struct pt_regs) and <bpf/bpf_helpers.h> before it.
 */
#ifndef __BPF_TRACING_H__
#define __BPF_TRACING_H__

#if defined(__TARGET_ARCH_x86)
#define PT_REGS_PARM1(ctx) ((ctx)->di)
#define PT_REGS_PARM2(ctx) ((ctx)->si)
#define PT_REGS_PARM3(ctx) ((ctx)->dx)
#define PT_REGS_PARM4(ctx) ((ctx)->cx)
#define PT_REGS_PARM5(ctx) ((ctx)->r8)
#define PT_REGS_PARM6(ctx) ((ctx)->r9)
#define PT_REGS_RC(ctx) ((ctx)->ax)
#define PT_REGS_IP(ctx) ((ctx)->ip)
#define PT_REGS_SP(ctx) ((ctx)->sp)
#define PT_REGS_FP(ctx) ((ctx)->bp)
#elif defined(__TARGET_ARCH_arm64)
#define AM_REGISTERS(ctx) ((const struct user_pt_regs *)(ctx))
#define PT_REGS_PARM1(ctx) (AM_REGISTERS(ctx)->regs[0])
#define PT_REGS_PARM2(ctx) (AM_REGISTERS(ctx)->regs[1])
#define PT_REGS_PARM3(ctx) (AM_REGISTERS(ctx)->regs[2])
#define PT_REGS_PARM4(ctx) (AM_REGISTERS(ctx)->regs[3])
#define PT_REGS_PARM5(ctx) (AM_REGISTERS(ctx)->regs[4])
#define PT_REGS_PARM6(ctx) (AM_REGISTERS(ctx)->regs[5])
#define PT_REGS_RC(ctx) (AM_REGISTERS(ctx)->regs[0])
#define PT_REGS_IP(ctx) (AM_REGISTERS(ctx)->pc)
#define PT_REGS_SP(ctx) (AM_REGISTERS(ctx)->sp)
#define PT_REGS_FP(ctx) (AM_REGISTERS(ctx)->regs[29])
#endif

/* The first n arguments, each after a comma. */
#define AM_ARGUMENTS_0(ctx)
#define AM_ARGUMENTS_1(ctx) , (void *)PT_REGS_PARM1(ctx)
#define AM_ARGUMENTS_2(ctx) AM_ARGUMENTS_1(ctx), (void *)PT_REGS_PARM2(ctx)
#define AM_ARGUMENTS_3(ctx) AM_ARGUMENTS_2(ctx), (void *)PT_REGS_PARM3(ctx)
#define AM_ARGUMENTS_4(ctx) AM_ARGUMENTS_3(ctx), (void *)PT_REGS_PARM4(ctx)
#define AM_ARGUMENTS_5(ctx) AM_ARGUMENTS_4(ctx), (void *)PT_REGS_PARM5(ctx)
#define AM_ARGUMENTS_6(ctx) AM_ARGUMENTS_5(ctx), (void *)PT_REGS_PARM6(ctx)
#define AM_RESULT_0(ctx)
#define AM_RESULT_1(ctx) , (void *)PT_REGS_RC(ctx)

#define AM_JOINED_(a, b) a##b
#define AM_JOINED(a, b) AM_JOINED_(a, b)

/* A program whose body is written as a function with the traced function's own parameters. */
#define AM_UNPACKED(name, values, parameters...)                                                           \
	name(struct pt_regs *ctx);                                                                         \
	static __always_inline __typeof__(name(0)) name##_unpacked(struct pt_regs *ctx, ##parameters);     \
	__typeof__(name(0)) name(struct pt_regs *ctx)                                                      \
	{                                                                                                  \
		_Pragma("GCC diagnostic push");                                                            \
		_Pragma("GCC diagnostic ignored \"-Wint-conversion\"");                                    \
		return name##_unpacked(ctx AM_JOINED(values, AM_COUNT(parameters))(ctx));                  \
		_Pragma("GCC diagnostic pop");                                                             \
	}                                                                                                  \
	static __always_inline __typeof__(name(0)) name##_unpacked(struct pt_regs *ctx, ##parameters)

/* SEC("kprobe/do_unlinkat") int BPF_KPROBE(on_unlink, int folder, struct filename *name) { ... } */
#define BPF_KPROBE(name, parameters...) AM_UNPACKED(name, AM_ARGUMENTS_, ##parameters)
#define BPF_KRETPROBE(name, result...) AM_UNPACKED(name, AM_RESULT_, ##result)
#define BPF_UPROBE(name, parameters...) BPF_KPROBE(name, ##parameters)
#define BPF_URETPROBE(name, result...) BPF_KRETPROBE(name, ##result)

/* A program of a table of functions (struct_ops), or of fentry: its context is the arguments, 8 bytes each. */
#define AM_WORDS_0(ctx)
#define AM_WORDS_1(ctx) , (void *)(ctx)[0]
#define AM_WORDS_2(ctx) AM_WORDS_1(ctx), (void *)(ctx)[1]
#define AM_WORDS_3(ctx) AM_WORDS_2(ctx), (void *)(ctx)[2]
#define AM_WORDS_4(ctx) AM_WORDS_3(ctx), (void *)(ctx)[3]
#define AM_WORDS_5(ctx) AM_WORDS_4(ctx), (void *)(ctx)[4]
#define AM_WORDS_6(ctx) AM_WORDS_5(ctx), (void *)(ctx)[5]

#define BPF_PROG(name, parameters...)                                                                      \
	name(unsigned long long *ctx);                                                                     \
	static __always_inline __typeof__(name(0)) name##_unpacked(unsigned long long *ctx, ##parameters); \
	__typeof__(name(0)) name(unsigned long long *ctx)                                                  \
	{                                                                                                  \
		_Pragma("GCC diagnostic push");                                                            \
		_Pragma("GCC diagnostic ignored \"-Wint-conversion\"");                                    \
		return name##_unpacked(ctx AM_JOINED(AM_WORDS_, AM_COUNT(parameters))(ctx));               \
		_Pragma("GCC diagnostic pop");                                                             \
	}                                                                                                  \
	static __always_inline __typeof__(name(0)) name##_unpacked(unsigned long long *ctx, ##parameters)

#endif
