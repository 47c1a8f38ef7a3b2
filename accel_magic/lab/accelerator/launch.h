#ifndef LAUNCH_H
#define LAUNCH_H

#include "accel_lab_uapi.h"

int cuLaunchKernel(int node, const struct accel_lab_submit *job);

#endif
