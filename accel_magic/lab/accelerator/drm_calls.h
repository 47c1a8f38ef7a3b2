// What the accelerator's programs need of DRM's interface.
#ifndef DRM_CALLS_H
#define DRM_CALLS_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define DRM_COMMAND_BASE 0x40
#define DRM_IOR(number, type) _IOR('d', number, type)
#define DRM_IOW(number, type) _IOW('d', number, type)
#define DRM_IOWR(number, type) _IOWR('d', number, type)

struct syncobj {
	__u32 handle;
	__u32 flags;
};

struct syncobj_wait {
	__u64 handles;
	__s64 until_ns; // CLOCK_MONOTONIC
	__u32 count;
	__u32 flags;
	__u32 first_signaled;
	__u32 padding;
};

#define DRM_IOCTL_SYNCOBJ_CREATE DRM_IOWR(0xBF, struct syncobj)
#define DRM_IOCTL_SYNCOBJ_WAIT DRM_IOWR(0xC3, struct syncobj_wait)

#endif
