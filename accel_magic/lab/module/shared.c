// SPDX-License-Identifier: GPL-2.0
/*
 * The engine that tasks share by time slices. It goes through the runlist again and again: a task that has jobs keeps the
 * engine until its time slice has passed or none is left. On the runlist, all tasks of an interleave level come once
 * before each task of the level below. accel_magic/policies/runlist.py models the same.
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/limits.h>
#include <linux/slab.h>

#include "accel_lab.h"
#include "kernel_versions.h"

#define MOST_ENTRIES (1 << 16)

static DEFINE_MUTEX(changing); /* for the members, who is bound and the length of the runlist */
static LIST_HEAD(members);

static DEFINE_SPINLOCK(lock); /* for what follows, and the jobs of clients */
static struct client **runlist;
static u32 entries, next;
static struct client *owner; /* of the engine; NULL: it is idle */
static u64 since_ns, slice_end_ns;
static struct hrtimer timer;

/* The runlist */

struct list {
	struct client **entries;
	u32 count;
};

/* All of `above`, and then a member of the level; for each of them. */
static int add_level(struct list *list, u32 level, u32 own)
{
	u64 count = (u64)own * (list->count + 1);
	struct client *client, **made, **at;

	if (count > MOST_ENTRIES)
		return -ENOSPC;
	made = at = kvcalloc(count, sizeof(*made), GFP_KERNEL);
	if (!made)
		return -ENOMEM;
	list_for_each_entry(client, &members, member) {
		if (client->task.interleave != level)
			continue;
		if (list->count)
			memcpy(at, list->entries, list->count * sizeof(*at));
		at += list->count;
		*at++ = client;
	}
	kvfree(list->entries);
	*list = (struct list){ made, count };
	return 0;
}

static int rebuild(void)
{
	struct client *client;
	struct list list = {};
	u64 below = U64_MAX; /* levels from here on are done */
	int error = 0;

	for (;;) {
		u32 level = 0, own = 0;

		list_for_each_entry(client, &members, member) {
			if (client->task.interleave >= below || (own && client->task.interleave < level))
				continue;
			own = client->task.interleave == level ? own + 1 : 1;
			level = client->task.interleave;
		}
		if (!own)
			break;
		error = add_level(&list, level, own);
		if (error)
			break;
		below = level;
	}
	if (error) {
		kvfree(list.entries);
		return error;
	}
	scoped_guard(spinlock_irqsave, &lock) {
		swap(runlist, list.entries);
		entries = list.count;
		next = 0;
	}
	kvfree(list.entries);
	return 0;
}

int accel_lab_shared_join(struct client *client)
{
	int error;

	guard(mutex)(&changing);
	if (client->is_bound)
		return 0;
	list_add_tail(&client->member, &members);
	error = rebuild();
	if (error)
		list_del(&client->member);
	else
		client->is_bound = true;
	return error;
}

/* Slices */

static struct run *first_of(struct client *client)
{
	return list_first_entry(&client->runs, struct run, link);
}

/* The owner's first job gets the engine, for the rest of the slice at most. */
static void start_job(u64 now)
{
	struct run *run = first_of(owner);

	since_ns = now;
	run->record.slices++;
	if (!run->record.started_ns)
		run->record.started_ns = now;
	hrtimer_start(&timer, ns_to_ktime(min(slice_end_ns, now + run->left_ns)), HRTIMER_MODE_ABS);
}

static void give_to_next(u64 now)
{
	u32 tried;

	owner = NULL;
	for (tried = 0; tried < entries && !owner; tried++) {
		if (!list_empty(&runlist[next]->runs))
			owner = runlist[next];
		next = (next + 1) % entries;
	}
	if (!owner)
		return;
	slice_end_ns = now + owner->task.timeslice_us * NSEC_PER_USEC;
	start_job(now);
}

/* Go on at this time; a job that has ended is moved to a list. */
static void proceed(u64 now, struct list_head *ended)
{
	struct run *run;
	u64 ran;

	if (!owner)
		return;
	run = first_of(owner);
	ran = now - since_ns;
	run->record.busy_ns += ran;
	run->left_ns -= min(ran, run->left_ns);
	since_ns = now;
	if (!run->left_ns)
		list_move_tail(&run->link, ended);
	else if (now < slice_end_ns) { /* too early */
		hrtimer_start(&timer, ns_to_ktime(min(slice_end_ns, now + run->left_ns)), HRTIMER_MODE_ABS);
		return;
	}
	if (now < slice_end_ns && !list_empty(&owner->runs))
		start_job(now);
	else
		give_to_next(now);
}

static void end_all(struct list_head *ended, int error)
{
	struct run *run, *following;

	list_for_each_entry_safe(run, following, ended, link) {
		list_del(&run->link);
		accel_lab_run_ended(run, error);
	}
}

static enum hrtimer_restart on_timer(struct hrtimer *unused)
{
	LIST_HEAD(ended);

	scoped_guard(spinlock_irqsave, &lock)
		proceed(ktime_get_ns(), &ended);
	end_all(&ended, 0);
	return HRTIMER_NORESTART; /* proceed() has started it again */
}

void accel_lab_shared_run(struct client *client, struct run *run)
{
	bool dropped;

	scoped_guard(spinlock_irqsave, &lock) {
		dropped = client->is_dropped;
		if (!dropped)
			list_add_tail(&run->link, &client->runs);
		if (!dropped && !owner)
			give_to_next(ktime_get_ns());
	}
	if (dropped)
		accel_lab_run_ended(run, -ECANCELED);
}

/* The client's file is closed: its jobs end, and those that are still to come end at once. */
void accel_lab_shared_drop(struct client *client)
{
	LIST_HEAD(ended);
	u32 from, to = 0;

	guard(mutex)(&changing);
	scoped_guard(spinlock_irqsave, &lock) {
		client->is_dropped = true;
		list_splice_init(&client->runs, &ended);
		for (from = 0; from < entries; from++) /* what remains if there is no memory for a new list */
			if (runlist[from] != client)
				runlist[to++] = runlist[from];
		entries = to;
		next = 0;
		if (owner == client)
			give_to_next(ktime_get_ns());
	}
	end_all(&ended, -ECANCELED);
	if (!client->is_bound)
		return;
	client->is_bound = false;
	list_del(&client->member);
	rebuild();
}

void accel_lab_shared_set_timeslice(struct client *client, u64 timeslice_us)
{
	guard(spinlock_irqsave)(&lock);
	client->task.timeslice_us = timeslice_us;
}

/* A task loses the engine until its next turn. */
int accel_lab_preempt(u32 hclient, u32 htsg)
{
	struct client *client;
	LIST_HEAD(ended);
	int error = -EIO;

	scoped_guard(mutex, &changing) {
		list_for_each_entry(client, &members, member) {
			if ((u32)client->id != hclient || (u32)client->task.tsg_id != htsg)
				continue;
			error = 0;
			guard(spinlock_irqsave)(&lock);
			if (owner != client)
				break;
			client->task.preempted++;
			slice_end_ns = ktime_get_ns();
			proceed(slice_end_ns, &ended);
			break;
		}
	}
	end_all(&ended, 0);
	return error;
}

void accel_lab_shared_start(void)
{
	hrtimer_setup(&timer, on_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}

void accel_lab_shared_stop(void)
{
	hrtimer_cancel(&timer);
	kvfree(runlist);
}
