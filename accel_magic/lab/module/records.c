// SPDX-License-Identifier: GPL-2.0
/* Records that wait until somebody takes them; what does not fit is dropped and counted. */
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "accel_lab.h"

#define MOST 16384
#define BATCH 64 /* copied at a time */

void accel_lab_records_init(struct records *records, u32 size)
{
	spin_lock_init(&records->lock);
	records->size = size;
}

/* From now on records are kept. */
int accel_lab_records_start(struct records *records)
{
	void *memory;

	if (READ_ONCE(records->at))
		return 0;
	memory = kvcalloc(MOST, records->size, GFP_KERNEL);
	if (!memory)
		return -ENOMEM;
	scoped_guard(spinlock_irqsave, &records->lock) {
		if (!records->at)
			swap(records->at, memory);
	}
	kvfree(memory);
	return 0;
}

void accel_lab_records_add(struct records *records, const void *record)
{
	guard(spinlock_irqsave)(&records->lock);
	if (!records->at)
		return;
	if (records->count == MOST) {
		records->lost++;
		return;
	}
	memcpy(records->at + (records->first + records->count++) % MOST * records->size, record, records->size);
}

/* Move up to BATCH records to a buffer. */
static u32 take_some(struct records *records, void *buffer, u32 most, u64 *lost)
{
	u32 count, i;

	guard(spinlock_irqsave)(&records->lock);
	count = min3(records->count, most, (u32)BATCH);
	for (i = 0; i < count; i++)
		memcpy(buffer + i * records->size, records->at + (records->first + i) % MOST * records->size,
		       records->size);
	records->first = (records->first + count) % MOST;
	records->count -= count;
	*lost = records->lost;
	return count;
}

int accel_lab_records_take(struct records *records, struct accel_lab_take *take)
{
	void *buffer = kmalloc_array(BATCH, records->size, GFP_KERNEL);
	u32 count;

	if (!buffer)
		return -ENOMEM;
	take->taken = 0;
	while ((count = take_some(records, buffer, take->count - take->taken, &take->lost))) {
		if (copy_to_user(u64_to_user_ptr(take->records) + (u64)take->taken * records->size, buffer,
				 (size_t)count * records->size)) {
			kfree(buffer);
			return -EFAULT;
		}
		take->taken += count;
	}
	kfree(buffer);
	return 0;
}

void accel_lab_records_free(struct records *records)
{
	void *memory = NULL;

	scoped_guard(spinlock_irqsave, &records->lock) {
		swap(records->at, memory);
		records->count = 0;
	}
	kvfree(memory);
}
