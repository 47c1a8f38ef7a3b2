"""Presets on the probe line, with a small table instead of the real one."""

import gc
import weakref
from dataclasses import replace

import pytest

from accel_magic.errors import MachineError, ProbeError
from accel_magic.probes import completion, presets
from accel_magic.probes.plan import Capture
from accel_magic.probes.presets import PresetProbe
from accel_magic.subsystems.npu.preset import PRESET
from tests.support.errors import raises
from tests.support.plans import make_plan

TABLE = (
    PresetProbe("npu:files", "latency:kprobe:intel_vpu:ivpu_ioctl", "size=arg1[0]:u64,id=arg1[8]:u32@return", "size"),
    PresetProbe("npu:files", "kprobe:intel_vpu:ivpu_o*"),
    PresetProbe("npu:jobs", "kprobe:intel_vpu:ivpu_submit", group="submit"),
    PresetProbe("npu:jobs", "kprobe:intel_vpu:ivpu_fw_check_api", group="submit"),
    PresetProbe("npu:jobs", "kprobe:intel_vpu:ivpu_lost"),
    PresetProbe("npu:api", "latency:uprobe:libze_nowhere:zeInit"),
)


@pytest.fixture(autouse=True)
def _table(monkeypatch):
    small = replace(PRESET, probes=TABLE, install={"libze_nowhere": "apt install libze-nowhere"})
    monkeypatch.setattr(presets, "_sources", [lambda: {"npu": small}])


@pytest.fixture
def root(kernel_root):
    return kernel_root()


def made(plan):
    return [(point.probe, point.function, point.latency) for point in plan.points]


def test_a_preset_expands_to_its_probes_labeled_by_part(root):
    assert made(make_plan(["npu"], root=root)) == [
        ("npu:files", "ivpu_ioctl", True),
        ("npu:files", "ivpu_open", False),
        ("npu:jobs", "ivpu_fw_check_api.constprop.0", False),
    ]


def test_a_part_expands_to_its_own_probes_only(root):
    assert made(make_plan(["npu:jobs"], root=root)) == [("npu:jobs", "ivpu_fw_check_api.constprop.0", False)]


def test_missing_probes_are_reported_unless_an_alternative_exists(root):
    skipped = {skipped.function: skipped.why for skipped in make_plan(["npu"], root=root).skipped}

    assert "intel_vpu:ivpu_submit" not in skipped
    assert "has no ivpu_lost" in skipped["intel_vpu:ivpu_lost"]
    assert "libze_nowhere:zeInit" in skipped


def test_a_preset_has_its_own_columns_and_total(root):
    ioctl, *others = make_plan(["npu"], args="size=arg3:u8,first=arg0:u64,r=retval:s32", root=root).points

    first, r = Capture("first", "arg0", "u64"), Capture("r", "retval", "s32")
    own = (Capture("size", "arg1", "u64", 0), Capture("id", "arg1", "u32", 8, at_return=True))
    assert ioctl.captures == (*own, first, r)
    assert ioctl.total == "size"
    assert others
    assert all(point.captures == (Capture("size", "arg3", "u8"), first) for point in others)


def test_a_part_can_be_excluded(root):
    assert made(make_plan(["npu", "!npu:files"], root=root)) == [("npu:jobs", "ivpu_fw_check_api.constprop.0", False)]
    with raises("probe.all-excluded", ProbeError):
        make_plan(["npu", "!npu"], root=root)


def test_a_preset_can_be_combined_with_other_probes(root):
    assert ("kprobe:vfs_read", "vfs_read", False) in made(make_plan(["kprobe:vfs_read", "npu:jobs"], root=root))


def test_a_preset_without_its_device_is_skipped_if_there_are_other_probes(kernel_root):
    root = kernel_root(modules="drm 1 0 - Live 0x0\n", kallsyms="ffffffff81000020 T vfs_read\n")
    for word in ("npu", "npu:jobs"):
        plan = make_plan([word, "kprobe:vfs_read"], root=root)

        assert made(plan) == [("kprobe:vfs_read", "vfs_read", False)]
        (note,) = plan.notes
        assert note.startswith("npu is skipped: ")
        assert "intel_vpu is not loaded" in note
    with raises("probe.module-not-loaded", MachineError, match="intel_vpu is not loaded"):
        make_plan(["npu"], root=root)
    with raises("probe.module-not-loaded", MachineError, match="intel_vpu is not loaded"):
        make_plan(["kprobe:intel_vpu:ivpu_open", "kprobe:vfs_read", "npu"], root=root)


def test_a_preset_without_any_existing_probe_raises_the_reason(root):
    with raises("probe.no-library", ProbeError, match="libze_nowhere"):
        make_plan(["npu:api"], root=root)


def test_a_missing_library_is_reported_with_its_package(root):
    with raises("probe.no-library", ProbeError) as refused:
        make_plan(["npu:api"], root=root)
    assert refused.value.fix == "apt install libze-nowhere"


def test_a_driver_that_is_not_loaded_is_an_error(kernel_root):
    with raises("probe.module-not-loaded", MachineError, match="intel_vpu is not loaded") as refused:
        make_plan(["npu"], root=kernel_root(modules="drm 1 0 - Live 0x0\n", kallsyms="ffffffff81000020 T vfs_read\n"))
    assert "NPU lab" in refused.value.fix


def test_words_that_only_resemble_a_preset_are_probes(root):
    for word in ("npu:ivpu_*", "npux", "latency:npu"):
        with pytest.raises((ProbeError, MachineError)):
            make_plan([word], root=root)


def test_tab_completes_presets_and_their_parts(root):
    assert {"npu", "npu:"} <= set(completion.complete("np", root=root))
    assert completion.complete("npu:", root=root) == ["npu:api", "npu:files", "npu:jobs"]
    assert completion.complete("!npu:j", root=root) == ["!npu:jobs"]
    assert completion.complete("latency:npu", root=root) == []


def test_missing_probes_do_not_keep_callers_alive(root):
    class Large:
        pass

    def plan():
        local = Large()
        make_plan(["npu"], root=root)
        return weakref.ref(local)

    gc.collect()
    gc.disable()
    try:
        assert plan()() is None
    finally:
        gc.enable()


COUNTED = (
    PresetProbe("npu:calls", "tracepoint:syscalls:sys_enter_read", counted=True),
    PresetProbe("npu:calls", "latency:tracepoint:syscalls:sys_enter_write", counted=True),
    PresetProbe("npu:calls", "kprobe:intel_vpu:ivpu_o*", counted=True),
    PresetProbe("npu:calls", "itt:one*:*"),
    PresetProbe("npu:faults", "itt:one*:*", page_faults=True),
)


@pytest.fixture
def counted(monkeypatch, root):
    for number, name in enumerate(("enter_read", "enter_write", "exit_write")):
        folder = root / "sys/kernel/tracing/events/syscalls" / f"sys_{name}"
        folder.mkdir(parents=True)
        (folder / "format").write_text(f"name: sys_{name}\nID: {700 + number}\nformat:\n")
    small = replace(PRESET, probes=COUNTED)
    monkeypatch.setattr(presets, "_sources", [lambda: {"npu": small}])


@pytest.mark.usefixtures("counted")
def test_what_a_preset_only_counts_is_of_the_traced_process_and_has_no_events(root):
    plan = make_plan(["npu"], root=root, pid=77)
    kernel = [(point.function, point.latency, point.counted, str(point.scope)) for point in plan.kernel_points]

    assert kernel == [
        ("sys_enter_read", False, True, "self"),
        ("sys_enter_write", True, True, "self"),
        ("ivpu_open", False, True, "self"),
    ]
    assert {point.scope.pid for point in plan.kernel_points} == {77}
    assert plan.records_events
    assert not any(map(plan.records, plan.kernel_points))
    assert [(point.page_faults, plan.records(point)) for point in plan.task_points] == [(True, True)]


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("turned", [False, True])
def test_a_probe_of_the_users_own_for_the_same_place_has_events(root, turned):
    own = ["tracepoint:syscalls:sys_enter_read", "tracepoint:syscalls:sys_enter_write", "kprobe:ivpu_open"]
    plan = make_plan([*own, "npu"] if turned else ["npu", *own], root=root)
    found = {point.function: point for point in plan.kernel_points}

    assert not any(point.counted for point in plan.kernel_points)
    assert found["sys_enter_write"].latency
    assert (found["ivpu_open"].probe, str(found["ivpu_open"].scope)) == ("kprobe:ivpu_open", "all")
