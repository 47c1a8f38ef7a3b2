// SPDX-License-Identifier: GPL-2.0
/* Rings behind the kernel's DRM scheduler. A ring runs one job at a time, and a job is a timer. */
#include <drm/drm_file.h>
#include <drm/drm_syncobj.h>
#include <linux/dma-fence.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "accel_lab.h"
#include "kernel_versions.h"

static unsigned int timeout_ms = 2000;
module_param(timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "time after which a job that has not ended is reset");

static const char *const ring_names[ACCEL_LAB_RINGS] = { "compute", "copy" };

static const enum drm_sched_priority priorities[ACCEL_LAB_PRIORITIES] = {
	[ACCEL_LAB_LOW] = DRM_SCHED_PRIORITY_LOW,
	[ACCEL_LAB_NORMAL] = DRM_SCHED_PRIORITY_NORMAL,
	[ACCEL_LAB_HIGH] = DRM_SCHED_PRIORITY_HIGH,
};

static struct ring {
	struct drm_gpu_scheduler scheduler;
	u64 context; /* of the fences */
	atomic64_t last; /* their last number */
	struct accel_lab_ring_counts counts;
} rings[ACCEL_LAB_RINGS];

/* A job on a ring. The fence is first, because it is freed with it. */
struct run {
	struct dma_fence fence;
	spinlock_t lock;
	struct hrtimer timer; /* has a reference while it is active */
	struct ring *ring;
	struct accel_lab_ring_counts *counts; /* of the client, which the job holds */
};

struct job {
	struct drm_sched_job base;
	struct client *client;
	unsigned int ring;
	u32 duration_us;
	bool hangs;
	struct run *run; /* NULL before it runs */
};

#define COUNT(ring, client_counts, what)			\
	do {							\
		atomic64_inc(&(ring)->counts.what);		\
		atomic64_inc(&(client_counts)->what);		\
	} while (0)

static struct accel_lab_ring_counts *counts_of(struct job *job)
{
	return &job->client->counts[job->ring];
}

/* Fences: until the last is gone, the module cannot be unloaded. */

static const char *driver_name(struct dma_fence *fence)
{
	return "accel_lab";
}

static const char *timeline_name(struct dma_fence *fence)
{
	return container_of(fence, struct run, fence)->ring->scheduler.name;
}

static void release(struct dma_fence *fence)
{
	dma_fence_free(fence);
	module_put(THIS_MODULE);
}

static const struct dma_fence_ops fence_ops = {
	.get_driver_name = driver_name,
	.get_timeline_name = timeline_name,
	.release = release,
};

static enum hrtimer_restart finish(struct hrtimer *timer)
{
	struct run *run = container_of(timer, struct run, timer);

	COUNT(run->ring, run->counts, done);
	dma_fence_signal(&run->fence);
	dma_fence_put(&run->fence);
	return HRTIMER_NORESTART;
}

/* What the scheduler calls */

static struct dma_fence *run_job(struct drm_sched_job *base)
{
	struct job *job = container_of(base, struct job, base);
	struct ring *ring = &rings[job->ring];
	struct run *run = kzalloc(sizeof(*run), GFP_KERNEL);

	if (!run)
		return ERR_PTR(-ENOMEM);
	__module_get(THIS_MODULE);
	spin_lock_init(&run->lock);
	run->ring = ring;
	run->counts = counts_of(job);
	dma_fence_init(&run->fence, &fence_ops, &run->lock, ring->context, atomic64_inc_return(&ring->last));
	hrtimer_setup(&run->timer, finish, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	job->run = run;
	dma_fence_get(&run->fence); /* for the scheduler; the first is the job's */
	COUNT(ring, run->counts, run);
	if (!job->hangs) {
		dma_fence_get(&run->fence);
		hrtimer_start(&run->timer, ns_to_ktime((u64)job->duration_us * NSEC_PER_USEC), HRTIMER_MODE_REL);
	}
	return &run->fence;
}

static enum drm_gpu_sched_stat timed_out(struct drm_sched_job *base)
{
	struct job *job = container_of(base, struct job, base);
	struct run *run = job->run;

	drm_sched_stop(base->sched, base);
	if (hrtimer_cancel(&run->timer))
		dma_fence_put(&run->fence);
	if (!dma_fence_is_signaled(&run->fence)) { /* else it ended just now */
		COUNT(run->ring, run->counts, timed_out);
		dma_fence_set_error(&run->fence, -ETIME);
		dma_fence_signal(&run->fence);
	}
	accel_lab_restart(base->sched, -ETIME);
	return DRM_GPU_SCHED_STAT_RESET;
}

static void free_job(struct drm_sched_job *base)
{
	struct job *job = container_of(base, struct job, base);

	if (job->run)
		dma_fence_put(&job->run->fence);
	else
		COUNT(&rings[job->ring], counts_of(job), cancelled);
	drm_sched_job_cleanup(base);
	accel_lab_client_put(job->client);
	kfree(job);
	module_put(THIS_MODULE);
}

static const struct drm_sched_backend_ops backend = {
	.run_job = run_job,
	.timedout_job = timed_out,
	.free_job = free_job,
};

/* Submission */

/* Takes over the job and the syncobj. */
static int push(struct job *job, struct drm_file *file, u32 wait, struct drm_syncobj *signal)
{
	struct dma_fence *finished;
	int error = 0;

	if (wait)
		error = drm_sched_job_add_syncobj_dependency(&job->base, file, wait, 0);
	if (error) {
		drm_sched_job_cleanup(&job->base);
		return error;
	}
	kref_get(&job->client->references);
	__module_get(THIS_MODULE);
	COUNT(&rings[job->ring], counts_of(job), queued);
	drm_sched_job_arm(&job->base);
	finished = dma_fence_get(&job->base.s_fence->finished);
	drm_sched_entity_push_job(&job->base);
	if (signal)
		drm_syncobj_replace_fence(signal, finished);
	dma_fence_put(finished);
	return 0;
}

int accel_lab_submit(struct client *client, struct drm_file *file, const struct accel_lab_submit *submit)
{
	struct drm_syncobj *signal = NULL;
	struct job *job;
	int error;

	if (submit->ring >= ACCEL_LAB_RINGS || submit->priority >= ACCEL_LAB_PRIORITIES ||
	    submit->duration_us > ACCEL_LAB_MOST_US || submit->flags & ~ACCEL_LAB_HANG)
		return -EINVAL;
	if (submit->signal) {
		signal = drm_syncobj_find(file, submit->signal);
		if (!signal)
			return -ENOENT;
	}
	job = kzalloc(sizeof(*job), GFP_KERNEL);
	error = job ? drm_sched_job_init(&job->base, &client->entities[submit->ring][submit->priority], 1, client,
					 client->id) :
		      -ENOMEM;
	if (!error) {
		job->client = client;
		job->ring = submit->ring;
		job->duration_us = submit->duration_us;
		job->hangs = submit->flags & ACCEL_LAB_HANG;
		error = push(job, file, submit->wait, signal);
	}
	if (error)
		kfree(job);
	if (signal)
		drm_syncobj_put(signal);
	return error;
}

/* Entities: one for each ring and priority of a client. */

int accel_lab_entities_create(struct client *client)
{
	unsigned int ring, priority;

	for (ring = 0; ring < ACCEL_LAB_RINGS; ring++) {
		struct drm_gpu_scheduler *list[] = { &rings[ring].scheduler };

		for (priority = 0; priority < ACCEL_LAB_PRIORITIES; priority++) {
			int error = drm_sched_entity_init(&client->entities[ring][priority], priorities[priority],
							  list, 1, NULL);

			if (error) /* only for bad arguments: nothing is to be undone */
				return error;
		}
	}
	return 0;
}

/* Waits a moment for the jobs; those that have not started then never will. */
void accel_lab_entities_destroy(struct client *client)
{
	unsigned int ring, priority;

	for (ring = 0; ring < ACCEL_LAB_RINGS; ring++) {
		for (priority = 0; priority < ACCEL_LAB_PRIORITIES; priority++)
			drm_sched_entity_destroy(&client->entities[ring][priority]);
	}
}

void accel_lab_counts_show(struct seq_file *out, u64 client, const struct accel_lab_ring_counts *counts)
{
	unsigned int ring;

	for (ring = 0; ring < ACCEL_LAB_RINGS; ring++) {
		seq_printf(out, "%s %llu %lld %lld %lld %lld %lld\n", ring_names[ring], client,
			   atomic64_read(&counts[ring].queued), atomic64_read(&counts[ring].run),
			   atomic64_read(&counts[ring].done), atomic64_read(&counts[ring].timed_out),
			   atomic64_read(&counts[ring].cancelled));
	}
}

void accel_lab_engine_show(struct seq_file *out)
{
	struct accel_lab_ring_counts counts[ACCEL_LAB_RINGS];
	unsigned int ring;

	for (ring = 0; ring < ACCEL_LAB_RINGS; ring++)
		counts[ring] = rings[ring].counts;
	accel_lab_counts_show(out, 0, counts);
}

int accel_lab_engine_start(struct device *device)
{
	unsigned int ring;
	int error;

	for (ring = 0; ring < ACCEL_LAB_RINGS; ring++) {
		struct drm_sched_init_args options = {
			.ops = &backend,
			.num_rqs = DRM_SCHED_PRIORITY_COUNT,
			.credit_limit = 1,
			.timeout = msecs_to_jiffies(timeout_ms),
			.name = ring_names[ring],
			.dev = device,
		};

		rings[ring].context = dma_fence_context_alloc(1);
		error = drm_sched_init(&rings[ring].scheduler, &options);
		if (error) {
			while (ring--)
				drm_sched_fini(&rings[ring].scheduler);
			return error;
		}
	}
	return 0;
}

void accel_lab_engine_stop(void)
{
	unsigned int ring;

	for (ring = 0; ring < ACCEL_LAB_RINGS; ring++)
		drm_sched_fini(&rings[ring].scheduler);
}
