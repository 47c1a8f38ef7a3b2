/* The calls that the layer wraps. */
#ifndef ACCEL_WRAPPED_H
#define ACCEL_WRAPPED_H

#include "opencl.h"

#define WRAPPED(X)                           \
	X(clCreateProgramWithSource)         \
	X(clCreateProgramWithBinary)         \
	X(clCreateProgramWithIL)             \
	X(clLinkProgram)                     \
	X(clBuildProgram)                    \
	X(clSetProgramSpecializationConstant) \
	X(clReleaseProgram)                  \
	X(clGetProgramInfo)                  \
	X(clCreateKernel)                    \
	X(clCreateKernelsInProgram)          \
	X(clCloneKernel)                     \
	X(clReleaseKernel)                   \
	X(clGetKernelInfo)                   \
	X(clGetKernelArgInfo)                \
	X(clSetKernelExecInfo)               \
	X(clEnqueueNDRangeKernel)            \
	X(clEnqueueTask)                     \
	X(clGetExtensionFunctionAddress)     \
	X(clGetExtensionFunctionAddressForPlatform)

#define DECLARE(name) name##_call wrapped_##name;
WRAPPED(DECLARE)
#undef DECLARE

/* Create a program from SPIR-V, by the platform's own call for it. */
Handle with_il(Handle context, const void *code, size_t size, int *error);

/* The user has created a program from SPIR-V. */
void programs_with_il(Handle program, Handle context, const void *code, size_t size);

#endif
