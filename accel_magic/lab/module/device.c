// SPDX-License-Identifier: GPL-2.0
/*
 * The lab accelerator: a render node without hardware, for gpu_ext's policies and the kernel's DRM scheduler.
 *
 * /sys/kernel/debug/accel_lab/ has the truth about what happened since the module was loaded:
 *   jobs     jobs by ring and client; client 0 is the sum of all, also of those that are forgotten
 *   clients  files of the render node: the open ones and the last closed ones, with their task
 *   memory   accesses, faults, migrations of all device memories
 *   hooks    calls of policies
 */
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_ioctl.h>
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "accel_lab.h"

#define MOST_CLOSED 64 /* files whose counts are kept */
#define DEFAULT_TIMESLICE_US 2000
#define DEFAULT_INTERLEAVE 1
#define MOST_POLICY_US 1000000 /* as in gpu_ext's driver */
#define MOST_INTERLEAVE 2

static DEFINE_MUTEX(lock); /* for the two below */
static LIST_HEAD(clients); /* oldest first */
static unsigned int closed;
static struct platform_device *platform;
static struct drm_device *device;
static struct dentry *folder;

/* Clients */

static void free_client(struct kref *references)
{
	struct client *client = container_of(references, struct client, references);

	accel_lab_records_free(&client->jobs);
	kfree(client);
}

void accel_lab_client_put(struct client *client)
{
	kref_put(&client->references, free_client);
}

static void forget(struct client *client)
{
	list_del(&client->list);
	accel_lab_client_put(client);
}

/* What a policy asked for, or else what it is otherwise. */
static u64 answer(struct client *client, const struct accel_lab_request *request, u64 least, u64 most, u64 otherwise)
{
	if (!request->attempted)
		return otherwise;
	if (!request->conflict && request->value >= least && request->value <= most)
		return request->value;
	client->task.refused++;
	return otherwise;
}

/* Ask the scheduling policy about the client's task, a time-slice group. */
static void start_task(struct client *client)
{
	struct accel_lab_task_request request = {
		.ctx = {
			.tsg_id = client->id,
			.default_timeslice = DEFAULT_TIMESLICE_US,
			.default_interleave = DEFAULT_INTERLEAVE,
		},
	};
	struct nv_gpu_bind_ctx bind = { .tsg_id = client->id, .channel_count = ACCEL_LAB_RINGS, .allow = 1 };
	struct accel_lab_task *task = &client->task;

	accel_lab_task_init(&request.ctx);
	task->tsg_id = client->id;
	task->timeslice_us = answer(client, &request.timeslice_us, 1, MOST_POLICY_US, DEFAULT_TIMESLICE_US);
	task->interleave = answer(client, &request.interleave, 0, MOST_INTERLEAVE, DEFAULT_INTERLEAVE);
	bind.timeslice_us = task->timeslice_us;
	bind.interleave_level = task->interleave;
	accel_lab_bind(&bind);
	task->rejected = !bind.allow;
}

/* The process asks for a time slice. As in gpu_ext's driver, a request that the policy answers with nonsense fails. */
static int control_timeslice(struct client *client, u64 *timeslice_us)
{
	struct accel_lab_timeslice_request request = {
		.ctx = {
			.tsg_id = client->id,
			.requested_timeslice_us = *timeslice_us,
			.hclient = client->id,
			.htsg = client->task.tsg_id,
			.phase = 1,
		},
	};
	u32 refused = client->task.refused;

	if (!*timeslice_us || *timeslice_us > ACCEL_LAB_MOST_US)
		return -EINVAL;
	if (*timeslice_us <= MOST_POLICY_US) { /* others are not the policy's business */
		accel_lab_timeslice_control(&request.ctx);
		*timeslice_us = answer(client, &request.timeslice_us, 1, MOST_POLICY_US, *timeslice_us);
		if (client->task.refused != refused)
			return -EINVAL;
	}
	accel_lab_shared_set_timeslice(client, *timeslice_us);
	return 0;
}

static int open_client(struct drm_device *drm, struct drm_file *file)
{
	struct client *client = kzalloc(sizeof(*client), GFP_KERNEL);
	int error;

	if (!client)
		return -ENOMEM;
	kref_init(&client->references);
	mutex_init(&client->memory_lock);
	INIT_LIST_HEAD(&client->runs);
	accel_lab_records_init(&client->jobs, sizeof(struct accel_lab_job));
	client->id = file->client_id;
	client->is_open = true;
	get_task_comm(client->process, current);
	error = accel_lab_entities_create(client);
	if (error) {
		kfree(client);
		return error;
	}
	start_task(client);
	file->driver_priv = client;
	guard(mutex)(&lock);
	list_add_tail(&client->list, &clients);
	return 0;
}

static void close_client(struct drm_device *drm, struct drm_file *file)
{
	struct client *client = file->driver_priv, *each;
	struct nv_gpu_task_destroy_ctx task = { .tsg_id = client->id };

	accel_lab_task_destroy(&task);
	accel_lab_shared_drop(client);
	accel_lab_entities_destroy(client);
	accel_lab_records_free(&client->jobs);
	accel_lab_memory_put(client->memory);
	guard(mutex)(&lock);
	client->memory = NULL;
	client->is_open = false;
	if (closed++ < MOST_CLOSED)
		return;
	closed--;
	list_for_each_entry(each, &clients, list) {
		if (!each->is_open) {
			forget(each);
			return;
		}
	}
}

/* ioctls */

/* The client's memory, which the caller puts; NULL if it has none. */
static struct memory *memory_of(struct drm_file *file)
{
	struct client *client = file->driver_priv;

	guard(mutex)(&client->memory_lock);
	if (client->memory)
		accel_lab_memory_get(client->memory);
	return client->memory;
}

static int memory_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct client *client = file->driver_priv;
	struct memory *memory = accel_lab_memory_create(data);

	if (IS_ERR(memory))
		return PTR_ERR(memory);
	scoped_guard(mutex, &client->memory_lock)
		swap(client->memory, memory);
	accel_lab_memory_put(memory);
	return 0;
}

static int replay_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct memory *memory = memory_of(file);
	int error = memory ? accel_lab_memory_replay(memory, data) : -ENXIO;

	accel_lab_memory_put(memory);
	return error;
}

static int counts_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct memory *memory = memory_of(file);

	if (!memory)
		return -ENXIO;
	accel_lab_memory_counts(memory, data);
	accel_lab_memory_put(memory);
	return 0;
}

static int faults_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct memory *memory = memory_of(file);
	int error = memory ? accel_lab_memory_faults(memory, data) : -ENXIO;

	accel_lab_memory_put(memory);
	return error;
}

static int map_memory(struct file *filp, struct vm_area_struct *vma)
{
	struct memory *memory = memory_of(filp->private_data);
	int error = memory ? accel_lab_memory_map(memory, vma) : -ENXIO;

	accel_lab_memory_put(memory);
	return error;
}

static int submit_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct client *client = file->driver_priv;

	return client->task.rejected ? -EPERM : accel_lab_submit(client, file, data);
}

static int task_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct client *client = file->driver_priv;

	*(struct accel_lab_task *)data = client->task;
	return 0;
}

static int jobs_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct client *client = file->driver_priv;

	return accel_lab_records_take(&client->jobs, data);
}

static int timeslice_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct accel_lab_timeslice *wanted = data;

	return control_timeslice(file->driver_priv, &wanted->timeslice_us);
}

static const struct drm_ioctl_desc ioctls[] = {
	DRM_IOCTL_DEF_DRV(ACCEL_LAB_MEMORY, memory_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(ACCEL_LAB_REPLAY, replay_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(ACCEL_LAB_COUNTS, counts_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(ACCEL_LAB_SUBMIT, submit_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(ACCEL_LAB_TASK, task_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(ACCEL_LAB_FAULTS, faults_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(ACCEL_LAB_JOBS, jobs_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(ACCEL_LAB_TIMESLICE, timeslice_ioctl, DRM_RENDER_ALLOW),
};

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = drm_open,
	.release = drm_release,
	.unlocked_ioctl = drm_ioctl,
	.mmap = map_memory,
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.fop_flags = FOP_UNSIGNED_OFFSET,
};

static const struct drm_driver driver = {
	.driver_features = DRIVER_RENDER | DRIVER_SYNCOBJ,
	.open = open_client,
	.postclose = close_client,
	.ioctls = ioctls,
	.num_ioctls = ARRAY_SIZE(ioctls),
	.fops = &operations,
	.name = "accel_lab",
	.desc = "accelerator of accel_magic's lab",
	.major = 1,
};

/* debugfs */

static int jobs_show(struct seq_file *out, void *unused)
{
	struct client *client;

	seq_puts(out, "ring client queued run done timed_out cancelled\n");
	accel_lab_engine_show(out);
	guard(mutex)(&lock);
	list_for_each_entry(client, &clients, list)
		accel_lab_counts_show(out, client->id, client->counts);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(jobs);

static int clients_show(struct seq_file *out, void *unused)
{
	struct client *client;

	seq_puts(out, "client open timeslice_us interleave rejected refused preempted process\n");
	guard(mutex)(&lock);
	list_for_each_entry(client, &clients, list) {
		seq_printf(out, "%llu %d %llu %u %u %u %u %s\n", client->id, client->is_open, client->task.timeslice_us,
			   client->task.interleave, client->task.rejected, client->task.refused,
			   client->task.preempted, client->process);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(clients);

static int memory_show(struct seq_file *out, void *unused)
{
	accel_lab_memory_show(out);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(memory);

static int hooks_show(struct seq_file *out, void *unused)
{
	accel_lab_hooks_show(out);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(hooks);

/* The module */

static int start(void)
{
	int error = accel_lab_hooks_register() ?: accel_lab_engine_start(&platform->dev);

	if (error)
		return error;
	error = drm_dev_register(device, 0);
	if (error)
		accel_lab_engine_stop();
	return error;
}

static int __init accel_lab_init(void)
{
	int error;

	platform = platform_device_register_simple("accel_lab", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(platform))
		return PTR_ERR(platform);
	device = drm_dev_alloc(&driver, &platform->dev);
	if (IS_ERR(device)) {
		platform_device_unregister(platform);
		return PTR_ERR(device);
	}
	error = start();
	if (error) {
		drm_dev_put(device);
		platform_device_unregister(platform);
		return error;
	}
	folder = debugfs_create_dir("accel_lab", NULL);
	debugfs_create_file("jobs", 0400, folder, NULL, &jobs_fops);
	debugfs_create_file("clients", 0400, folder, NULL, &clients_fops);
	debugfs_create_file("memory", 0400, folder, NULL, &memory_fops);
	debugfs_create_file("hooks", 0400, folder, NULL, &hooks_fops);
	return 0;
}

static void __exit accel_lab_exit(void)
{
	struct client *client, *next;

	debugfs_remove(folder);
	drm_dev_unregister(device);
	accel_lab_engine_stop();
	list_for_each_entry_safe(client, next, &clients, list)
		forget(client);
	drm_dev_put(device);
	platform_device_unregister(platform);
	rcu_barrier(); /* fences are freed by RCU; their memory outlives this module */
}

module_init(accel_lab_init);
module_exit(accel_lab_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Accelerator of accel_magic's lab: gpu_ext's policies and the DRM scheduler without a GPU");
