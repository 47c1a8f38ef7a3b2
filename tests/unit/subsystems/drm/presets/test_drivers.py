"""Presets of drivers whose devices were never seen: against what real kernels' drivers offer to tracers without one."""

from __future__ import annotations

import re

import pytest

from accel_magic.errors import MachineError
from accel_magic.probes import captures, grammar, presets
from accel_magic.subsystems.drm.presets import drm, nvidia
from tests.support.errors import raises
from tests.support.plans import make_plan
from tests.unit.subsystems.drm.presets.conftest import FORMATS, events, functions

DRIVERS = ("xe", "i915", "amdgpu", "amdxdna", "habanalabs")
RECORDED = sorted(path.stem for name in DRIVERS for path in FORMATS.glob(f"{name}-*.txt"))
"""Names of recordings: driver-kernel."""
MACHINES = [*RECORDED, "nvidia"]
MUST = {
    "xe": "xe_sched_job_create xe_sched_job_run xe_sched_job_timedout xe_exec_queue_create xe_exec_queue_submit "
    "xe_hw_fence_create xe_hw_fence_signal xe_bo_move xe_vma_bind",
    "i915": "i915_request_queue i915_request_add i915_request_retire i915_request_wait_begin i915_gem_object_create "
    "i915_vma_bind i915_gem_evict",
    "amdgpu": "amdgpu_cs_ioctl amdgpu_sched_run_job amdgpu_cs amdgpu_bo_create amdgpu_vm_flush amdgpu_iv",
    "amdxdna": "xdna_job mbox_set_tail mbox_set_head mbox_irq_handle",
    "habanalabs": "habanalabs_mmu_map habanalabs_mmu_unmap habanalabs_dma_alloc habanalabs_dma_free",
}
"""Tracepoints that every recorded kernel has and that are traced."""
LEFT_OUT = re.compile(
    r"xe_(pm|guc|reg|gt|tlb|eu|lrc|vm|sched_msg)_\w+|i915_(reg_rw|context_\w+|ppgtt_\w+)|amdxdna_debug_point|"
    r"amdgpu_(device_[rw]reg|reset_reg_dumps|ib_pipe_sync|pasid_\w+|cleaner_shader|isolation)|"
    r"habanalabs_([rw]reg32|elbi_\w+|comms_\w+|dma_(un)?map_page)"
)
"""Tracepoints that cost more than they show, or are about power, registers and firmware."""
OTHER_IOCTLS = re.compile(
    r"\w+_compat_ioctl|\w+_drm_ioctl|kfd_ioctl|\w*_ioctl_\w+|\w*(debugfs|intel_|ioc32|pm_runtime|reject_pin)\w*|"
    r"i915_perf_((add|remove)_config_)?ioctl|xe_(oa|eu)_\w+|svm_ioctl|hl_interrupt_wait_ioctl|(perf_|)trace_\w+"
)
"""Functions called ioctl that dispatch others, belong to displays, debugging or profilers, or repeat one."""


def named(plan):
    return {(point.kind, point.function) for point in plan.points}


@pytest.fixture
def plan_of(machine_with):
    return lambda machine: make_plan([machine.partition("-")[0]], root=machine_with(machine))


def test_every_driver_was_recorded_on_several_kernels():
    assert {name: sum(one.startswith(f"{name}-") for one in RECORDED) for name in DRIVERS} == {
        **dict.fromkeys(DRIVERS, 3),
        "amdxdna": 2,  # newer than Linux 6.12
    }


@pytest.mark.parametrize("machine", RECORDED)
def test_tracepoints_of_the_recorded_kernel_are_traced(plan_of, machine):
    traced = {function for kind, function in named(plan_of(machine)) if kind == "tracepoint"}

    assert traced >= set(MUST[machine.partition("-")[0]].split())
    assert {event for event in events(machine).keys() - traced if not LEFT_OUT.fullmatch(event)} == set()
    assert {event for event in traced if LEFT_OUT.fullmatch(event)} == set()


@pytest.mark.parametrize("machine", RECORDED)
def test_every_ioctl_of_the_recorded_driver_is_measured(plan_of, machine):
    points = [point for point in plan_of(machine).points if point.kind == "kprobe"]
    ioctls = {name for name in functions(machine) if name.endswith("_ioctl") and not OTHER_IOCTLS.fullmatch(name)}

    assert ioctls - {point.function for point in points} == set()
    assert {point.function for point in points} <= functions(machine)
    assert all(point.latency for point in points)


@pytest.mark.parametrize("name", DRIVERS)
def test_every_name_in_a_preset_is_one_of_a_recorded_kernel(name):
    machines = [machine for machine in RECORDED if machine.startswith(f"{name}-")]
    there = set().union(*(functions(machine) | events(machine).keys() for machine in machines))
    low_level = {f"i915_request_{what}" for what in ("submit", "execute", "in", "out")}
    wanted = {probe.spec.rpartition(":")[2] for probe in presets.probes(name)}

    assert {one for one in wanted if "*" not in one} - there - low_level == set()


def test_nvidias_functions_are_measured(plan_of):
    points = plan_of("nvidia").points

    left_out = {"nvidia_ioctl", "nvidia_isr", "uvm_ioctl"}
    assert {point.function for point in points} == functions("nvidia") - left_out
    assert all(point.latency for point in points)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_part_has_a_place(plan_of, machine):
    assert {point.probe for point in plan_of(machine).points} == set(presets.parts(machine.partition("-")[0]))


@pytest.mark.parametrize("name", [*DRIVERS, "nvidia"])
def test_without_the_driver_the_module_to_load_is_named(machine_with, name):
    with raises("probe.module-not-loaded", MachineError, match=f"kernel module {name} is not loaded"):
        make_plan([name], root=machine_with("drm-7.2"))


@pytest.mark.parametrize("machine", MACHINES)
def test_a_driver_without_tracepoints_is_traced_by_its_functions(machine_with, machine):
    root = machine_with(machine)
    for folder in (root / "sys/kernel/tracing/events").glob("*/*/format"):
        folder.unlink()
        folder.parent.rmdir()

    assert {point.kind for point in make_plan([machine.partition("-")[0]], root=root).points} == {"kprobe"}


def test_low_level_requests_of_i915_are_listed_with_the_kernels_that_have_them(plan_of):
    skipped = {one.function: one.why for one in plan_of("i915-7.2").skipped}

    (why,) = {why for function, why in skipped.items() if "i915_request" in function}
    assert why == "kernels built with CONFIG_DRM_I915_LOW_LEVEL_TRACEPOINTS have it"


def test_jobs_of_amdxdna_can_be_joined_with_those_of_the_scheduler(plan_of):
    point = next(point for point in plan_of("amdxdna-7.2").points if point.function == "xdna_job")

    assert {"fence_context", "fence_seqno"} <= {field.name for field in point.fields}


@pytest.mark.parametrize("machine", ["amdgpu-6.12", "amdgpu-7.2"])
def test_fields_that_change_between_kernels_come_from_the_running_one(plan_of, machine):
    (point,) = [point for point in plan_of(machine).points if point.function == "amdgpu_sched_run_job"]

    assert ("sched_job_id" in {field.name for field in point.fields}) == (machine == "amdgpu-6.12")


def test_a_driver_and_the_scheduler_are_traced_together(machine_with):
    plan = make_plan(["drm", "xe"], root=machine_with("drm-7.2", "xe-7.2"))

    assert {point.target for point in plan.points} == {"gpu_scheduler", "dma_fence", "gpu_sched", "drm", "xe"}


def test_ioctls_are_named_by_their_number():
    assert drm.ioctl_name(0xC01C64C3) == "DRM_IOCTL_SYNCOBJ_WAIT"
    assert drm.ioctl_name(0xC0106444) == "driver ioctl 0x04"
    assert drm.ioctl_name(0x641F) == "DRM ioctl 0x1f"
    assert nvidia.ioctl_name(0xC020462A) == "NV_ESC_RM_CONTROL"
    assert nvidia.ioctl_name(0x46FE) == "NVIDIA ioctl 0xfe"


@pytest.mark.parametrize("name", ["drm", "opencl", "hip", *DRIVERS, "nvidia"])
def test_every_probe_is_valid_and_its_columns_have_one_type(name):
    types = {}
    for probe in presets.probes(name):
        spec = grammar.parse(probe.spec)
        for one in captures.parse(probe.args):
            assert spec.kind != "tracepoint"
            assert spec.latency or not one.on_return
            types.setdefault(one.name, set()).add(one.type)

    assert {column: found for column, found in types.items() if len(found) > 1} == {}


def test_each_list_says_where_it_comes_from():
    lists = [*FORMATS.iterdir()]
    assert lists
    for path in lists:
        expected = "Written by hand" if path.stem == "nvidia" else "by tools/record_driver_formats"
        assert expected in path.read_text()
