"""Presets of GPU and NPU drivers that were never seen: against tracepoints and functions written from their sources."""

from __future__ import annotations

import pytest

from accel_magic.errors import MachineError
from accel_magic.probes import captures, grammar, presets
from accel_magic.probes.matching import make_plan
from accel_magic.probes.presets import drm, nvidia
from tests.support.errors import raises
from tests.unit.probes.presets.conftest import FORMATS

MODULES = {
    "xe": {"xe"},
    "i915": {"i915"},
    "amdgpu": {"amdgpu"},
    "amdxdna": {"amdxdna"},
    "habanalabs": {"habanalabs"},
    "nvidia": {"nvidia", "nvidia_uvm"},
}
LEFT_OUT = {
    "xe": {"xe_guc_ctb_h2g", "xe_pm_runtime_get_ioctl", "xe_drm_ioctl"},
    "i915": {"i915_driver_probe"},
    "amdgpu": {"amdgpu_device_rreg"},
    "amdxdna": {"amdxdna_debug_point", "amdxdna_probe"},
    "habanalabs": {"hl_device_open"},
    "nvidia": {"nvidia_ioctl", "nvidia_isr", "uvm_ioctl"},
}
"""Functions and tracepoints that cost more than they show, or repeat others."""


def named(plan):
    return {(point.kind, point.function) for point in plan.points}


@pytest.fixture
def plan_of(machine_with):
    return lambda name: make_plan([name], root=machine_with(name))


@pytest.mark.parametrize("name", MODULES)
def test_the_drivers_ioctls_and_tracepoints_are_traced(plan_of, name):
    lines = [line for line in (FORMATS / f"{name}.txt").read_text().splitlines() if not line.startswith("#")]
    tracepoints = {line.partition(":")[2] for line in lines if ":" in line and not line.startswith(" ")}
    functions = {line.strip() for line in lines[lines.index(f"[{name}]") :] if line.startswith(" ")}
    plan = plan_of(name)

    traced = {function for kind, function in named(plan) if kind == "tracepoint"}
    assert traced == tracepoints - LEFT_OUT[name]
    timed = {point.function for point in plan.points if point.kind == "kprobe"}
    assert {function for function in functions if "ioctl" in function or function.startswith("uvm_")} - timed == {
        function for function in LEFT_OUT[name] if function in functions and "ioctl" in function
    }
    assert all(point.latency for point in plan.points if point.kind == "kprobe")
    assert not {function for _, function in named(plan)} & LEFT_OUT[name]


@pytest.mark.parametrize("name", MODULES)
def test_every_part_has_a_place(plan_of, name):
    assert {point.probe for point in plan_of(name).points} == set(presets.parts(name))


@pytest.mark.parametrize("name", MODULES)
def test_without_the_driver_the_module_to_load_is_named(machine_with, name):
    with raises("probe.module-not-loaded", MachineError, match=f"kernel module {name} is not loaded"):
        make_plan([name], root=machine_with("drm-6.17"))


@pytest.mark.parametrize("name", MODULES)
def test_a_driver_without_tracepoints_is_traced_by_its_functions(machine_with, name):
    root = machine_with(name)
    for folder in (root / "sys/kernel/tracing/events").glob("*/*/format"):
        folder.unlink()
        folder.parent.rmdir()

    assert {point.kind for point in make_plan([name], root=root).points} == {"kprobe"}


def test_low_level_requests_of_i915_are_listed_with_the_kernels_that_have_them(plan_of):
    skipped = {one.function: one.why for one in plan_of("i915").skipped}

    assert skipped["i915:i915_request_in"] == "kernels built with CONFIG_DRM_I915_LOW_LEVEL_TRACEPOINTS have it"


def test_jobs_of_amdxdna_can_be_joined_with_those_of_the_scheduler(plan_of):
    point = next(point for point in plan_of("amdxdna").points if point.function == "xdna_job")

    assert {"fence_context", "fence_seqno"} <= {field.name for field in point.fields}


def test_a_driver_and_the_scheduler_are_traced_together(machine_with):
    plan = make_plan(["drm", "xe"], root=machine_with("drm-6.17", "xe"))

    assert {point.target for point in plan.points} == {"gpu_scheduler", "dma_fence", "gpu_sched", "drm", "xe"}


def test_ioctls_are_named_by_their_number():
    assert drm.ioctl_name(0xC01C64C3) == "DRM_IOCTL_SYNCOBJ_WAIT"
    assert drm.ioctl_name(0xC0106444) == "driver ioctl 0x04"
    assert drm.ioctl_name(0x641F) == "DRM ioctl 0x1f"
    assert nvidia.ioctl_name(0xC020462A) == "NV_ESC_RM_CONTROL"
    assert nvidia.ioctl_name(0x46FE) == "NVIDIA ioctl 0xfe"


@pytest.mark.parametrize("name", ["drm", "opencl", "hip", *MODULES])
def test_every_probe_is_valid_and_its_columns_have_one_type(name):
    types = {}
    for probe in presets.probes(name):
        spec = grammar.parse(probe.spec)
        for one in captures.parse(probe.args):
            assert spec.kind != "tracepoint"
            assert spec.latency or not one.on_return
            types.setdefault(one.name, set()).add(one.type)

    assert {column: found for column, found in types.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", MODULES)
def test_recorded_formats_say_that_no_such_hardware_was_seen(name):
    assert "Written by hand: nobody has read these on a machine" in (FORMATS / f"{name}.txt").read_text()
