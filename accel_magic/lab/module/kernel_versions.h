/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between the kernels of the lab, 6.12 to 7.2: everything else is written for the newest. */
#ifndef ACCEL_LAB_KERNEL_VERSIONS_H
#define ACCEL_LAB_KERNEL_VERSIONS_H

#include <drm/gpu_scheduler.h>
#include <linux/btf.h>
#include <linux/hrtimer.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}

/* The jobs that were running get the error ECANCELED. */
static inline void accel_lab_restart(struct drm_gpu_scheduler *scheduler, int error)
{
	drm_sched_start(scheduler);
}
#else
static inline void accel_lab_restart(struct drm_gpu_scheduler *scheduler, int error)
{
	drm_sched_start(scheduler, error);
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define DRM_GPU_SCHED_STAT_RESET DRM_GPU_SCHED_STAT_NOMINAL
#endif

#ifndef KF_TRUSTED_ARGS /* newer kernels trust nothing else */
#define KF_TRUSTED_ARGS 0
#endif

#endif
