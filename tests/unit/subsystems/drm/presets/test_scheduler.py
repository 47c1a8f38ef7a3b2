"""The preset of the DRM scheduler, on kernels before and after its tracepoints were renamed."""

from __future__ import annotations

import pytest

from accel_magic.errors import MachineError
from accel_magic.probes import presets
from tests.support.errors import raises
from tests.support.plans import make_plan

OLD, NEW = "drm-6.12", "drm-7.2"
NAMES = {
    OLD: {"drm_sched_job", "drm_run_job", "drm_sched_process_job", "drm_sched_job_wait_dep"},
    NEW: {
        "drm_sched_job_queue",
        "drm_sched_job_run",
        "drm_sched_job_done",
        "drm_sched_job_add_dep",
        "drm_sched_job_unschedulable",
    },
}


def test_the_parts_are_the_documented_ones():
    assert presets.parts("drm") == ("drm:jobs", "drm:timeouts", "drm:fences", "drm:ioctls")


@pytest.mark.parametrize("kernel", [OLD, NEW])
def test_each_kernel_has_its_own_tracepoints(machine_with, kernel):
    points = make_plan(["drm"], root=machine_with(kernel)).points

    assert {point.function for point in points if point.target == "gpu_scheduler"} == NAMES[kernel]
    assert {point.function for point in points if point.target == "dma_fence"} == {
        "dma_fence_wait_start",
        "dma_fence_wait_end",
        "dma_fence_signaled",
    }


@pytest.mark.parametrize(
    ("kernel", "absent"),
    [
        (OLD, ("gpu_scheduler:drm_sched_job_queue and 4 more", "Linux 6.17 and newer have it")),
        (NEW, ("gpu_scheduler:drm_sched_job and 3 more", "kernels before Linux 6.17 have it")),
    ],
)
def test_tracepoints_of_other_kernels_are_listed_with_those_kernels(machine_with, kernel, absent):
    skipped = make_plan(["drm"], root=machine_with(kernel)).skipped

    assert [(one.function, one.why) for one in skipped] == [absent]


@pytest.mark.parametrize(
    ("kernel", "columns"),
    [
        (OLD, {"entity": "u64", "fence": "u64", "name": "string", "id": "u64", "job_count": "u32"}),
        (NEW, {"name": "string", "dev": "string", "fence_context": "u64", "fence_seqno": "u64", "client_id": "u64"}),
    ],
)
def test_columns_come_from_the_format_files(machine_with, kernel, columns):
    points = {point.function: point for point in make_plan(["drm"], root=machine_with(kernel)).points}

    for name in ("drm_sched_job", "drm_run_job") if kernel == OLD else ("drm_sched_job_queue", "drm_sched_job_run"):
        types = {field.name: field.type for field in points[name].fields}
        assert columns.items() <= types.items()
        assert types["hw_job_count"] == "s32"


@pytest.mark.parametrize("kernel", [OLD, NEW])
def test_timeouts_and_ioctls_are_timed(machine_with, kernel):
    points = {point.function: point for point in make_plan(["drm"], root=machine_with(kernel)).points}

    assert points["drm_sched_job_timedout"].latency
    assert points["drm_sched_job_timedout"].probe == "drm:timeouts"
    assert points["drm_ioctl"].latency
    assert [(one.name, one.source, one.type) for one in points["drm_ioctl"].captures] == [("ioctl", "arg1", "u32")]


def test_without_the_scheduler_the_module_to_load_is_named(machine_with):
    with raises("probe.module-not-loaded", MachineError, match="gpu_sched is not loaded") as caught:
        make_plan(["drm"], root=machine_with(NEW, without=("gpu_sched",)))

    assert "modprobe gpu_sched" in caught.value.fix


def test_fences_alone_need_no_scheduler(machine_with):
    points = make_plan(["drm:fences"], root=machine_with(NEW, without=("gpu_sched",))).points

    assert {point.target for point in points} == {"dma_fence"}


def test_a_scheduler_without_its_timeout_function_is_traced_without_it(machine_with):
    root = machine_with(NEW)
    listed = root / "sys/kernel/tracing/available_filter_functions"
    listed.write_text(listed.read_text().replace("drm_sched_job_timedout [gpu_sched]\n", ""))

    plan = make_plan(["drm"], root=root)

    assert {point.function for point in plan.points} >= NAMES[NEW]
    assert "gpu_sched:drm_sched_job_timedout" in [one.function for one in plan.skipped]
