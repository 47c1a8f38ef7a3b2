// The library of the lab's tenants, in the place of CUDA's: policies probe its launches.
#include <sys/ioctl.h>

#include "launch.h"

int cuLaunchKernel(int node, const struct accel_lab_submit *job)
{
	return ioctl(node, DRM_IOCTL_ACCEL_LAB_SUBMIT, job);
}
