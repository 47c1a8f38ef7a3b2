// SPDX-License-Identifier: GPL-2.0
/*
 * Rings behind the kernel's DRM scheduler. A ring runs one job at a time, and a job is a timer; but the shared ring takes
 * many jobs, whose tasks share its engine by time slices (shared.c).
 */
#include <drm/drm_file.h>
#include <drm/drm_syncobj.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "accel_lab.h"
#include "kernel_versions.h"

static unsigned int timeout_ms = 2000;
module_param(timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "time after which a job that has not ended is reset");

static const char *const ring_names[ACCEL_LAB_RINGS] = { "compute", "copy", "shared" };

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

struct job {
	struct drm_sched_job base;
	struct client *client;
	unsigned int ring;
	u32 duration_us;
	bool hangs;
	struct accel_lab_job record;
	struct run *run; /* NULL before it runs */
};

#define SHARED_JOBS 64 /* on the shared ring at a time */

#define COUNT(number, client, what)				\
	do {							\
		atomic64_inc(&rings[number].counts.what);	\
		atomic64_inc(&(client)->counts[number].what);	\
	} while (0)

static unsigned int number_of(const struct run *run)
{
	return run->ring - rings;
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

/* The client may be gone when this returns. */
static void signal(struct run *run, int error)
{
	run->record.ended_ns = ktime_get_ns();
	run->record.error = error;
	if (run->record.cookie)
		accel_lab_records_add(&run->client->jobs, &run->record);
	if (error)
		dma_fence_set_error(&run->fence, error);
	dma_fence_signal(&run->fence);
}

/* Takes over the engine's reference. */
void accel_lab_run_ended(struct run *run, int error)
{
	if (error)
		COUNT(number_of(run), run->client, cancelled);
	else
		COUNT(number_of(run), run->client, done);
	signal(run, error);
	dma_fence_put(&run->fence);
}

static enum hrtimer_restart finish(struct hrtimer *timer)
{
	struct run *run = container_of(timer, struct run, timer);

	run->record.busy_ns = ktime_get_ns() - run->record.started_ns;
	accel_lab_run_ended(run, 0);
	return HRTIMER_NORESTART;
}

/* What the scheduler calls */

static void start(struct run *run, const struct job *job)
{
	if (job->ring == ACCEL_LAB_SHARED) {
		run->left_ns = max(job->duration_us, 1u) * (u64)NSEC_PER_USEC;
		accel_lab_shared_run(job->client, run);
		return;
	}
	run->record.started_ns = ktime_get_ns();
	run->record.slices = 1;
	hrtimer_start(&run->timer, ns_to_ktime((u64)job->duration_us * NSEC_PER_USEC), HRTIMER_MODE_REL);
}

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
	run->client = job->client;
	run->record = job->record;
	dma_fence_init(&run->fence, &fence_ops, &run->lock, ring->context, atomic64_inc_return(&ring->last));
	hrtimer_setup(&run->timer, finish, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	job->run = run;
	dma_fence_get(&run->fence); /* for the scheduler; the first is the job's */
	COUNT(job->ring, job->client, run);
	if (!job->hangs) {
		dma_fence_get(&run->fence); /* for the engine */
		start(run, job);
	}
	return &run->fence;
}

/* Never called for the shared ring. */
static enum drm_gpu_sched_stat timed_out(struct drm_sched_job *base)
{
	struct job *job = container_of(base, struct job, base);
	struct run *run = job->run;

	drm_sched_stop(base->sched, base);
	if (hrtimer_cancel(&run->timer))
		dma_fence_put(&run->fence);
	if (!dma_fence_is_signaled(&run->fence)) { /* else it ended just now */
		COUNT(job->ring, job->client, timed_out);
		signal(run, -ETIME);
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
		COUNT(job->ring, job->client, cancelled);
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
	COUNT(job->ring, job->client, queued);
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
	    submit->duration_us > ACCEL_LAB_MOST_US || submit->flags & ~ACCEL_LAB_HANG ||
	    (submit->ring == ACCEL_LAB_SHARED && submit->flags))
		return -EINVAL;
	error = submit->ring == ACCEL_LAB_SHARED ? accel_lab_shared_join(client) : 0;
	if (!error && submit->cookie)
		error = accel_lab_records_start(&client->jobs);
	if (error)
		return error;
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
		job->record = (struct accel_lab_job){ .cookie = submit->cookie, .queued_ns = ktime_get_ns() };
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

	accel_lab_shared_start();
	for (ring = 0; ring < ACCEL_LAB_RINGS; ring++) {
		struct drm_sched_init_args options = {
			.ops = &backend,
			.num_rqs = DRM_SCHED_PRIORITY_COUNT,
			.credit_limit = ring == ACCEL_LAB_SHARED ? SHARED_JOBS : 1,
			.timeout = ring == ACCEL_LAB_SHARED ? MAX_SCHEDULE_TIMEOUT : msecs_to_jiffies(timeout_ms),
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
	accel_lab_shared_stop();
}
