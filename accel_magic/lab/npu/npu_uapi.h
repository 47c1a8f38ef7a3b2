/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the intel_vpu driver's interface that npu_load uses, transcribed from the kernel's documented ABI
 * (include/uapi/drm/ivpu_accel.h and drm.h), because the installed kernel headers of many machines are older.
 * accel_magic/lab/npu/uapi.py has the same layouts in Python; tests/unit/lab checks both against fixed numbers.
 */
#ifndef ACCEL_MAGIC_NPU_UAPI_H
#define ACCEL_MAGIC_NPU_UAPI_H

#include <stdint.h>
#include <sys/ioctl.h>

/* Device parameters, read with GET_PARAM. */
enum npu_param_id {
	NPU_PARAM_DEVICE_ID = 0,
	NPU_PARAM_DEVICE_REVISION = 1,
	NPU_PARAM_PLATFORM_TYPE = 2,
	NPU_PARAM_CORE_CLOCK_RATE = 3,
	NPU_PARAM_NUM_CONTEXTS = 4,
	NPU_PARAM_CONTEXT_BASE_ADDRESS = 5,
	NPU_PARAM_FW_API_VERSION = 8,    /* index: which interface of the firmware; 0 is the boot interface */
	NPU_PARAM_ENGINE_HEARTBEAT = 9,  /* index: the engine */
	NPU_PARAM_UNIQUE_INFERENCE_ID = 10,
	NPU_PARAM_TILE_CONFIG = 11,
	NPU_PARAM_SKU = 12,
	NPU_PARAM_CAPABILITIES = 13,     /* index: one of npu_capability */
};

enum npu_capability {
	NPU_CAP_METRIC_STREAMER = 1,
	NPU_CAP_DMA_MEMORY_RANGE = 2,
	NPU_CAP_MANAGE_CMDQ = 3,         /* CMDQ_CREATE, CMDQ_DESTROY, CMDQ_SUBMIT work; Linux 6.12 lacks them */
};

enum npu_buffer_flag {
	NPU_BO_SHAVE_MEM = 0x1,          /* in the address range of the compute cores, above 4 GB */
	NPU_BO_MAPPABLE = 0x2,
	NPU_BO_DMA_MEM = 0x4,
	NPU_BO_CACHED = 0x0,
	NPU_BO_WC = 0x20000,
};

enum npu_priority {
	NPU_PRIORITY_DEFAULT,
	NPU_PRIORITY_IDLE,
	NPU_PRIORITY_NORMAL,
	NPU_PRIORITY_FOCUS,
	NPU_PRIORITY_REALTIME,
};

enum npu_engine { NPU_ENGINE_COMPUTE = 0 };

/* Job status reported by BO_WAIT. */
enum npu_job_status { NPU_JOB_SUCCESS = 0, NPU_JOB_ABORTED = 0x100 };

struct npu_version {
	int32_t major, minor, patch;
	uint64_t name_size;              /* in: available, out: needed */
	uint64_t name;                   /* pointers are 64-bit integers */
	uint64_t date_size, date;
	uint64_t description_size, description;
};

struct npu_param {
	uint32_t param, index;
	uint64_t value;
};

struct npu_bo_create {
	uint64_t size;
	uint32_t flags;
	uint32_t handle;                 /* out */
	uint64_t address;                /* out: in the NPU's address space */
};

struct npu_bo_info {
	uint32_t handle;
	uint32_t flags;                  /* out, as are all following fields */
	uint64_t address;
	uint64_t mmap_offset;
	uint64_t size;                   /* multiple of the page size */
};

struct npu_submit {
	uint64_t buffers;                /* pointer to uint32_t handles, starting with the command buffer's */
	uint32_t buffer_count;
	uint32_t engine;
	uint32_t flags;
	uint32_t commands_offset;
	uint32_t priority;
	uint32_t pad;
};

struct npu_bo_wait {
	uint32_t handle;
	uint32_t flags;
	int64_t deadline_ns;             /* CLOCK_MONOTONIC, absolute */
	uint32_t job_status;             /* out */
	uint32_t pad;
};

struct npu_cmdq_create {
	uint32_t queue;                  /* out */
	uint32_t priority;
	uint32_t flags;
};

struct npu_cmdq_destroy {
	uint32_t queue;
};

struct npu_cmdq_submit {
	uint64_t buffers;
	uint32_t buffer_count;
	uint32_t queue;
	uint32_t flags;
	uint32_t commands_offset;
	uint32_t preempt_buffer_index;
	uint32_t reserved;
};

struct npu_gem_close {
	uint32_t handle;
	uint32_t pad;
};

/* 'd' is DRM's ioctl type; driver-specific calls start at 0x40. */
#define NPU_IOCTL_VERSION      _IOWR('d', 0x00, struct npu_version)
#define NPU_IOCTL_GEM_CLOSE    _IOW('d', 0x09, struct npu_gem_close)
#define NPU_IOCTL_GET_PARAM    _IOWR('d', 0x40, struct npu_param)
#define NPU_IOCTL_BO_CREATE    _IOWR('d', 0x42, struct npu_bo_create)
#define NPU_IOCTL_BO_INFO      _IOWR('d', 0x43, struct npu_bo_info)
#define NPU_IOCTL_SUBMIT       _IOW('d', 0x45, struct npu_submit)
#define NPU_IOCTL_BO_WAIT      _IOWR('d', 0x46, struct npu_bo_wait)
#define NPU_IOCTL_CMDQ_CREATE  _IOWR('d', 0x4b, struct npu_cmdq_create)
#define NPU_IOCTL_CMDQ_DESTROY _IOW('d', 0x4c, struct npu_cmdq_destroy)
#define NPU_IOCTL_CMDQ_SUBMIT  _IOW('d', 0x4d, struct npu_cmdq_submit)

/* Fault request to the lab's device, at the start of a job's command buffer. Real hardware does not know it. */
#define NPU_FAULT_MAGIC 0x464c4d41u

enum npu_fault_kind { NPU_FAULT_NONE, NPU_FAULT_SLOW, NPU_FAULT_HANG, NPU_FAULT_LOSE, NPU_FAULT_DUPLICATE };

struct npu_fault {
	uint32_t magic;
	uint32_t kind;
	uint64_t argument;               /* slow: microseconds until the job is done */
};

#endif
