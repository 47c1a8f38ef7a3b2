// SPDX-License-Identifier: GPL-2.0
/* gpu_ext's two tables of policies (struct_ops), and the kfuncs with which a policy makes requests. */
#include <linux/bpf.h>
#include <linux/bpf_verifier.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "accel_lab.h"
#include "kernel_versions.h"

static struct gpu_mem_ops __rcu *mem_ops;
static struct nv_gpu_sched_ops __rcu *sched_ops;

/* kfuncs: they store the request in the decision of the current call; the caller of the hook validates it. */

__bpf_kfunc_start_defs();

__bpf_kfunc int bpf_gpu_set_prefetch_region(uvm_bpf_prefetch_decision_t *decision_ctx, u64 first, u64 outer)
{
	if (decision_ctx->conflict)
		return GPU_REQUEST_CONFLICT;
	if (decision_ctx->attempted) {
		if (decision_ctx->first == first && decision_ctx->outer == outer)
			return GPU_REQUEST_REPEAT;
		decision_ctx->conflict = 1;
		return GPU_REQUEST_CONFLICT;
	}
	decision_ctx->attempted = 1;
	decision_ctx->first = first;
	decision_ctx->outer = outer;
	return GPU_REQUEST_APPLY;
}

__bpf_kfunc int bpf_gpu_request_reorder(uvm_bpf_pmm_decision_ctx_t *decision_ctx, u64 destination, u64 position)
{
	nv_gpu_pmm_request_t *request = &decision_ctx->request;

	if (request->conflict)
		return GPU_REQUEST_CONFLICT;
	if (request->attempted) {
		if (request->destination == destination && request->position == position)
			return GPU_REQUEST_REPEAT;
		request->conflict = 1;
		return GPU_REQUEST_CONFLICT;
	}
	request->attempted = 1;
	request->destination = destination;
	request->position = position;
	return GPU_REQUEST_APPLY;
}

static int record(struct accel_lab_request *request, u64 value)
{
	if (request->conflict)
		return GPU_REQUEST_CONFLICT;
	if (request->attempted) {
		if (request->value == value)
			return GPU_REQUEST_REPEAT;
		request->conflict = true;
		return GPU_REQUEST_CONFLICT;
	}
	request->attempted = true;
	request->value = value;
	return GPU_REQUEST_APPLY;
}

__bpf_kfunc int bpf_nv_gpu_set_timeslice(struct nv_gpu_task_init_ctx *ctx, u64 timeslice_us)
{
	return record(&container_of(ctx, struct accel_lab_task_request, ctx)->timeslice_us, timeslice_us);
}

__bpf_kfunc int bpf_nv_gpu_set_interleave(struct nv_gpu_task_init_ctx *ctx, u32 interleave_level)
{
	return record(&container_of(ctx, struct accel_lab_task_request, ctx)->interleave, interleave_level);
}

__bpf_kfunc int bpf_nv_gpu_override_timeslice(struct nv_gpu_timeslice_control_ctx *ctx, u64 timeslice_us)
{
	return record(&container_of(ctx, struct accel_lab_timeslice_request, ctx)->timeslice_us, timeslice_us);
}

__bpf_kfunc void bpf_nv_gpu_reject_bind(struct nv_gpu_bind_ctx *ctx)
{
	ctx->allow = 0;
}

__bpf_kfunc int bpf_nv_gpu_preempt_tsg(u32 hClient, u32 hTsg)
{
	return accel_lab_preempt(hClient, hTsg);
}

__bpf_kfunc_end_defs();

BTF_KFUNCS_START(kfunc_ids)
BTF_ID_FLAGS(func, bpf_gpu_set_prefetch_region, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_gpu_request_reorder, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_nv_gpu_set_timeslice, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_nv_gpu_set_interleave, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_nv_gpu_override_timeslice, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_nv_gpu_reject_bind, KF_TRUSTED_ARGS)
BTF_KFUNCS_END(kfunc_ids)

static const struct btf_kfunc_id_set kfuncs = {
	.owner = THIS_MODULE,
	.set = &kfunc_ids,
};

/* For programs that may sleep, such as those on a library's launches. */
BTF_KFUNCS_START(sleepable_ids)
BTF_ID_FLAGS(func, bpf_nv_gpu_preempt_tsg, KF_SLEEPABLE)
BTF_KFUNCS_END(sleepable_ids)

static const struct btf_kfunc_id_set sleepable_kfuncs = {
	.owner = THIS_MODULE,
	.set = &sleepable_ids,
};

/* What the verifier asks about programs of both tables: they may read their arguments, and write nothing. */

static bool is_valid_access(int offset, int size, enum bpf_access_type type, const struct bpf_prog *program,
			    struct bpf_insn_access_aux *info)
{
	return bpf_tracing_btf_ctx_access(offset, size, type, program, info);
}

static int deny_write(struct bpf_verifier_log *log, const struct bpf_reg_state *reg, int offset, int size)
{
	return -EACCES;
}

/* The kernel's own bpf_get_current_comm is not exported. */
BPF_CALL_2(accel_lab_get_current_comm, char *, buffer, u32, size)
{
	strscpy_pad(buffer, current->comm, size);
	return 0;
}

static const struct bpf_func_proto current_comm = {
	.func = accel_lab_get_current_comm,
	.ret_type = RET_INTEGER,
	.arg1_type = ARG_PTR_TO_UNINIT_MEM,
	.arg2_type = ARG_CONST_SIZE,
};

static const struct bpf_func_proto *helper(enum bpf_func_id id, const struct bpf_prog *program)
{
	return id == BPF_FUNC_get_current_comm ? &current_comm : bpf_base_func_proto(id, program);
}

static const struct bpf_verifier_ops verifier_ops = {
	.is_valid_access = is_valid_access,
	.btf_struct_access = deny_write,
	.get_func_proto = helper,
};

static int init(struct btf *btf)
{
	return 0;
}

static int init_member(const struct btf_type *type, const struct btf_member *member, void *kdata, const void *udata)
{
	return 0;
}

/* Hooks run inside rcu_read_lock. */
static int check_member(const struct btf_type *type, const struct btf_member *member, const struct bpf_prog *program)
{
	return program->sleepable ? -EINVAL : 0;
}

/* Each table takes one policy at a time. */

static int attach_mem(void *kdata, struct bpf_link *link)
{
	return cmpxchg((void **)&mem_ops, NULL, kdata) ? -EEXIST : 0;
}

static void detach_mem(void *kdata, struct bpf_link *link)
{
	cmpxchg((void **)&mem_ops, kdata, NULL);
}

static int attach_sched(void *kdata, struct bpf_link *link)
{
	return cmpxchg((void **)&sched_ops, NULL, kdata) ? -EEXIST : 0;
}

static void detach_sched(void *kdata, struct bpf_link *link)
{
	cmpxchg((void **)&sched_ops, kdata, NULL);
}

/* Stubs have the hooks' prototypes and argument names, which the kernel finds by the names of these functions. */

static int gpu_mem_ops__gpu_test_trigger(const char *buf, int len)
{
	return 0;
}

static int gpu_mem_ops__gpu_page_prefetch(uvm_page_index_t page_index, uvm_perf_prefetch_bitmap_tree_t *bitmap_tree,
					  uvm_va_block_region_t *max_prefetch_region,
					  uvm_bpf_prefetch_decision_t *decision_ctx)
{
	return GPU_ACTION_DEFAULT;
}

static int gpu_mem_ops__gpu_page_prefetch_iter(uvm_perf_prefetch_bitmap_tree_t *bitmap_tree,
					       uvm_va_block_region_t *max_prefetch_region,
					       uvm_va_block_region_t *current_region, unsigned int counter,
					       uvm_bpf_prefetch_decision_t *decision_ctx)
{
	return GPU_ACTION_DEFAULT;
}

static int gpu_mem_ops__gpu_block_activate(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk,
					   uvm_bpf_pmm_decision_ctx_t *decision_ctx)
{
	return GPU_ACTION_DEFAULT;
}

static int gpu_mem_ops__gpu_block_access(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk,
					 uvm_bpf_pmm_decision_ctx_t *decision_ctx)
{
	return GPU_ACTION_DEFAULT;
}

static int gpu_mem_ops__gpu_evict_prepare(uvm_pmm_gpu_t *pmm, struct list_head *va_block_used,
					  struct list_head *va_block_unused)
{
	return GPU_ACTION_DEFAULT;
}

static int nv_gpu_sched_ops__on_task_init(struct nv_gpu_task_init_ctx *ctx)
{
	return 0;
}

static int nv_gpu_sched_ops__on_bind(struct nv_gpu_bind_ctx *ctx)
{
	return 0;
}

static int nv_gpu_sched_ops__on_task_destroy(struct nv_gpu_task_destroy_ctx *ctx)
{
	return 0;
}

static int nv_gpu_sched_ops__on_timeslice_control(struct nv_gpu_timeslice_control_ctx *ctx)
{
	return 0;
}

static struct gpu_mem_ops mem_stubs = {
	.gpu_test_trigger = gpu_mem_ops__gpu_test_trigger,
	.gpu_page_prefetch = gpu_mem_ops__gpu_page_prefetch,
	.gpu_page_prefetch_iter = gpu_mem_ops__gpu_page_prefetch_iter,
	.gpu_block_activate = gpu_mem_ops__gpu_block_activate,
	.gpu_block_access = gpu_mem_ops__gpu_block_access,
	.gpu_evict_prepare = gpu_mem_ops__gpu_evict_prepare,
};

static struct nv_gpu_sched_ops sched_stubs = {
	.on_task_init = nv_gpu_sched_ops__on_task_init,
	.on_bind = nv_gpu_sched_ops__on_bind,
	.on_task_destroy = nv_gpu_sched_ops__on_task_destroy,
	.on_timeslice_control = nv_gpu_sched_ops__on_timeslice_control,
};

static struct bpf_struct_ops mem_table = {
	.verifier_ops = &verifier_ops,
	.init = init,
	.init_member = init_member,
	.check_member = check_member,
	.reg = attach_mem,
	.unreg = detach_mem,
	.cfi_stubs = &mem_stubs,
	.name = "gpu_mem_ops",
	.owner = THIS_MODULE,
};

static struct bpf_struct_ops sched_table = {
	.verifier_ops = &verifier_ops,
	.init = init,
	.init_member = init_member,
	.check_member = check_member,
	.reg = attach_sched,
	.unreg = detach_sched,
	.cfi_stubs = &sched_stubs,
	.name = "nv_gpu_sched_ops",
	.owner = THIS_MODULE,
};

/* Calls */

enum hook {
	PREFETCH,
	PREFETCH_ITER,
	ACTIVATE,
	ACCESS,
	EVICT_PREPARE,
	TASK_INIT,
	BIND,
	TASK_DESTROY,
	TIMESLICE_CONTROL,
	HOOKS,
};

static const char *const names[HOOKS] = {
	[PREFETCH] = "gpu_page_prefetch",
	[PREFETCH_ITER] = "gpu_page_prefetch_iter",
	[ACTIVATE] = "gpu_block_activate",
	[ACCESS] = "gpu_block_access",
	[EVICT_PREPARE] = "gpu_evict_prepare",
	[TASK_INIT] = "on_task_init",
	[BIND] = "on_bind",
	[TASK_DESTROY] = "on_task_destroy",
	[TIMESLICE_CONTROL] = "on_timeslice_control",
};

static atomic64_t calls[HOOKS];

#define CALL(table, hook, number, ...)				\
	({							\
		typeof(*(table)) *policy;			\
		int answer = 0;					\
								\
		rcu_read_lock();				\
		policy = rcu_dereference(table);		\
		if (policy && policy->hook) {			\
			answer = policy->hook(__VA_ARGS__);	\
			atomic64_inc(&calls[number]);		\
		}						\
		rcu_read_unlock();				\
		answer;						\
	})

int accel_lab_page_prefetch(uvm_page_index_t page, uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t *max,
			    uvm_bpf_prefetch_decision_t *decision)
{
	return CALL(mem_ops, gpu_page_prefetch, PREFETCH, page, tree, max, decision);
}

int accel_lab_page_prefetch_iter(uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t *max,
				 uvm_va_block_region_t *current_region, unsigned int counter,
				 uvm_bpf_prefetch_decision_t *decision)
{
	return CALL(mem_ops, gpu_page_prefetch_iter, PREFETCH_ITER, tree, max, current_region, counter, decision);
}

int accel_lab_block_activate(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	return CALL(mem_ops, gpu_block_activate, ACTIVATE, pmm, chunk, decision);
}

int accel_lab_block_access(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	return CALL(mem_ops, gpu_block_access, ACCESS, pmm, chunk, decision);
}

int accel_lab_evict_prepare(uvm_pmm_gpu_t *pmm)
{
	return CALL(mem_ops, gpu_evict_prepare, EVICT_PREPARE, pmm, &pmm->root_chunks.va_block_used,
		    &pmm->root_chunks.va_block_unused);
}

int accel_lab_task_init(struct nv_gpu_task_init_ctx *ctx)
{
	return CALL(sched_ops, on_task_init, TASK_INIT, ctx);
}

int accel_lab_bind(struct nv_gpu_bind_ctx *ctx)
{
	return CALL(sched_ops, on_bind, BIND, ctx);
}

int accel_lab_task_destroy(struct nv_gpu_task_destroy_ctx *ctx)
{
	return CALL(sched_ops, on_task_destroy, TASK_DESTROY, ctx);
}

int accel_lab_timeslice_control(struct nv_gpu_timeslice_control_ctx *ctx)
{
	return CALL(sched_ops, on_timeslice_control, TIMESLICE_CONTROL, ctx);
}

void accel_lab_hooks_show(struct seq_file *out)
{
	enum hook hook;

	for (hook = 0; hook < HOOKS; hook++)
		seq_printf(out, "%s %lld\n", names[hook], atomic64_read(&calls[hook]));
}

/* The kernel undoes these registrations when the module goes, which an attached policy prevents. */
int accel_lab_hooks_register(void)
{
	return register_btf_kfunc_id_set(BPF_PROG_TYPE_STRUCT_OPS, &kfuncs) ?:
	       register_btf_kfunc_id_set(BPF_PROG_TYPE_KPROBE, &sleepable_kfuncs) ?:
	       register_btf_kfunc_id_set(BPF_PROG_TYPE_SYSCALL, &sleepable_kfuncs) ?:
	       register_bpf_struct_ops(&mem_table, gpu_mem_ops) ?:
	       register_bpf_struct_ops(&sched_table, nv_gpu_sched_ops);
}
