"""The preset's table against the functions of each kernel."""

from __future__ import annotations

import pytest

from accel_magic.errors import ProbeError
from accel_magic.npu_interface.level_zero import CALLS
from accel_magic.probes import captures, grammar, presets
from accel_magic.probes.globs import is_glob
from accel_magic.subsystems.npu.functions import FAMILIES, family_of
from accel_magic.subsystems.npu.preset import PRESET
from tests.support.errors import raises
from tests.support.plans import make_plan

PARTS = ("npu:files", "npu:memory", "npu:ipc", "npu:jobs", "npu:power", "npu:boot", "npu:api")
SILENT = (
    "ivpu_fence_get_driver_name",
    "ivpu_fence_get_timeline_name",
    "ivpu_hw_btrs_global_int_enable",
    "ivpu_ipc_msg_dump",
    "ivpu_jsm_msg_type_to_str",
    "ivpu_mmu_cmdq_cmd_write",
    "ivpu_pgtable_free_page",
    "ivpu_start_job_timeout_detection",
)


@pytest.fixture
def plan(machine):
    return make_plan(["npu"], root=machine())


@pytest.fixture
def points(plan):
    return {point.function.partition(".")[0]: point for point in plan.points}


def columns(point):
    """Columns of a point in the notation of `--args`."""
    return {
        f"{one.name}={one.source}{'' if one.offset is None else f'[{one.offset}]'}:{one.type}{'@' * one.at_return}"
        for one in point.captures
    }


def test_the_parts_are_the_documented_ones():
    assert presets.parts("npu") == PARTS


def test_every_probe_is_valid_and_can_provide_its_columns():
    for probe in PRESET.probes:
        spec = grammar.parse(probe.spec)
        given = captures.parse(probe.args)
        assert spec.kind == "tracepoint" or spec.name != "*"
        assert not given or spec.kind != "tracepoint"
        assert spec.latency or not any(one.on_return for one in given)
        assert not probe.total or probe.total in {one.name for one in given}


def test_columns_with_one_name_have_one_type():
    types = {}
    for probe in PRESET.probes:
        for one in captures.parse(probe.args):
            types.setdefault(one.name, set()).add(one.type)

    assert {name: found for name, found in types.items() if len(found) > 1} == {}


def test_missing_probes_are_reported_unless_an_alternative_is_present(plan, kernel):
    skipped = {left.function for left in plan.skipped}

    assert {name for name in skipped if name.startswith("intel_vpu:")} == set()
    assert "drm:drm_gem_close_ioctl" not in skipped
    # The machine of this test has no tracepoints and no Level Zero.
    assert {"vpu:job", "vpu:jsm", "vpu:pm", "dma_fence:dma_fence_init"} <= skipped
    assert f"libze_loader.so.1:zeInit and {sum(call.traced for call in CALLS)} more" in skipped


def test_every_plain_name_is_a_function_of_some_kernel(driver_functions):
    known = {name.partition(".")[0] for functions in driver_functions.values() for name in functions}
    named = {spec.name for probe in PRESET.probes if (spec := grammar.parse(probe.spec)).target == "intel_vpu"}

    # Not in Debian's builds: the first is called ivpu_bo_bind in newer kernels, the second is inlined.
    assert {name for name in named if not is_glob(name)} - known == {"ivpu_bo_pin", "ivpu_suspend"}


def test_every_glob_matches_something_in_every_kernel(machine):
    root = machine()
    for probe in PRESET.probes:
        spec = grammar.parse(probe.spec)
        if spec.target == "intel_vpu" and is_glob(spec.name):
            assert make_plan([probe.spec], root=root).points


def test_all_ioctls_of_the_driver_are_timed(points, functions):
    ioctls = {name for name in functions if name.endswith("_ioctl")}

    assert len(ioctls) >= 10
    for name in ioctls:
        assert points[name].latency
        assert "file=arg2:u64" in columns(points[name])


def test_submission_is_found_under_the_names_of_each_kernel(points, kernel):
    assert points["ivpu_submit_ioctl"].probe == "npu:jobs"
    assert ("ivpu_cmdq_submit_ioctl" in points) == (kernel != "6.12")
    done = {"6.12": "ivpu_job_signal_and_destroy", "6.18": "ivpu_job_signal_and_destroy", "7.2": "ivpu_job_signal"}
    assert columns(points[done[kernel]]) == {"job_id=arg1:u32", "job_status=arg2:u32"}
    thread = {"6.12": "ivpu_irq_thread_handler", "6.18": "ivpu_ipc_irq_work_fn", "7.2": "ivpu_ipc_irq_thread_handler"}
    assert points[thread[kernel]].latency


def test_buffer_probes_have_the_buffers_identifiers(points, kernel):
    made = points["ivpu_bo_create_ioctl"]

    assert made.total == "size"
    assert columns(made) == {
        "size=arg1[0]:u64",
        "flags=arg1[8]:u32",
        "handle=arg1[12]:u32@",
        "vpu_addr=arg1[16]:u64@",
        "file=arg2:u64",
    }
    for name in ("ivpu_bo_bind", "ivpu_bo_unbind_locked", "ivpu_gem_bo_free", "ivpu_gem_bo_open"):
        assert "bo=arg0:u64" in columns(points[name])
    assert columns(points["ivpu_mmu_context_map_page"]) == {"vpu_addr=arg2:u64"}
    assert ("ivpu_bo_create_from_userptr_ioctl" in points) == (kernel == "7.2")


def test_redundant_functions_are_not_traced(points):
    assert not set(SILENT) & set(points)


def test_everything_traced_is_in_a_family_and_a_part(plan):
    assert {family_of(point.function) for point in plan.points} <= set(FAMILIES)
    assert {point.probe for point in plan.points} == set(PARTS) - {"npu:api"}


def test_a_part_has_its_own_points_and_can_be_excluded(machine):
    root = machine()
    whole = {point.function for point in make_plan(["npu"], root=root).points}
    boot = make_plan(["npu:boot"], root=root).points
    without = {point.function for point in make_plan(["npu", "!npu:boot"], root=root).points}

    assert {"ivpu_boot", "ivpu_wait_for_ready"} <= {point.function for point in boot}
    assert {point.probe for point in boot} == {"npu:boot"}
    assert without < whole
    assert not {"ivpu_boot", "ivpu_wait_for_ready"} & without


def test_the_parts_jobs_and_power_both_trace_recovery(machine):
    root = machine()
    for part in ("npu:jobs", "npu:power"):
        points = make_plan([part], root=root).points
        recovery = next(point for point in points if point.function == "ivpu_pm_trigger_recovery")
        assert columns(recovery) == {"reason=arg1:str"}


def test_drm_may_be_built_in(machine):
    points = {point.function: point for point in make_plan(["npu:memory"], root=machine(built_in=("drm",))).points}

    assert points["drm_gem_close_ioctl"].target == ""
    assert columns(points["drm_gem_close_ioctl"]) == {"handle=arg1[0]:u32", "file=arg2:u64"}


def test_the_part_api_needs_the_loader_but_no_driver(machine):
    with raises("probe.no-library", ProbeError, match="libze_loader"):
        make_plan(["npu:api"], root=machine())
