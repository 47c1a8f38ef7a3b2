"""The doctor's checks on simulated machines."""

import errno
import importlib.metadata
import os
import sys
import tomllib
from pathlib import Path

import pytest

from accel_magic.api import doctor
from accel_magic.api.doctor import Check, bcc, devices, gpu, kernel, python
from accel_magic.errors import MachineError
from accel_magic.gpu.adapters import nvrtc
from accel_magic.kernel import features
from accel_magic.kernel.bcc import bcc_location
from accel_magic.kernel.bcc.bcc_location import BccInstall, ForeignBcc


def named(name, checks):
    (check,) = [check for check in checks if check.name == name]
    return check


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "kernel_release", lambda: "6.8.0-45-generic")
    return tmp_path


def put(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_report_has_every_documented_check(monkeypatch):
    names = [check.name for check in doctor.report().checks]

    assert {"platform", "kernel", "privilege", "tracefs", "BCC", "kprobes", "kprobe_multi", "uprobes"} <= set(names)
    assert {"uprobe_multi", "BTF", "bpffs", "lockdown", "perf_event_paranoid", "PID namespace"} <= set(names)
    assert {"Python", "ipykernel", "ipython", "ipywidgets", "bokeh", "pandas", "device nodes"} <= set(names)
    assert [n for n in names if n.startswith("driver")] == [
        f"driver {n}" for n in ("intel_vpu", "amdxdna", "xe", "i915", "amdgpu", "nvidia")
    ]
    assert {"Level Zero loader", "NPU user-mode driver", "OpenVINO"} <= set(names)
    assert len(names) == len(set(names))


def test_a_blocker_is_reported_with_its_reason_and_fix(monkeypatch):
    error = MachineError(
        "tracefs is not mounted", why="tracepoints live there", fix="mount it", code="machine.no-tracefs"
    )
    monkeypatch.setattr(features, "tracefs_error", lambda: error)

    line = named("tracefs", kernel.requirements())

    assert line == Check("tracefs", "missing", "tracefs is not mounted: tracepoints live there", "mount it")


def test_bcc_that_does_not_load_is_missing_with_its_last_error_line(monkeypatch, tmp_path):
    put(tmp_path / "bcc/__init__.py", "raise OSError('libclang-14.so.1: cannot open shared object file')\n")
    found = BccInstall(Path(sys.executable), tmp_path / "bcc", "0.26.0")
    monkeypatch.setattr(bcc_location, "find_bcc", lambda: found)

    check = named("BCC", bcc.checks())

    assert check.status == "missing"
    assert "libclang-14.so.1: cannot open shared object file" in check.detail
    assert check.fix


def test_bcc_with_a_missing_interpreter_is_missing(monkeypatch, tmp_path):
    found = BccInstall(tmp_path / "python3", tmp_path / "bcc", "0.26.0")
    monkeypatch.setattr(bcc_location, "find_bcc", lambda: found)

    check = named("BCC", bcc.checks())

    assert check.status == "missing"
    assert str(tmp_path / "python3") in check.detail


def test_an_unrelated_bcc_is_a_warning_and_does_not_prevent_tracing(monkeypatch):
    monkeypatch.setattr(bcc_location, "foreign_bcc", lambda: ForeignBcc("bcc 0.1.10", Path("/venv/bcc")))

    check = named("other bcc", bcc.checks())

    assert check.status == "warning"
    assert "bcc 0.1.10 at /venv/bcc" in check.detail
    assert check.fix == "pip uninstall bcc"


@pytest.mark.parametrize(
    ("answers", "statuses"),
    [
        ((True, True, True, True), ["ok", "ok", "ok", "ok"]),
        ((True, False, True, False), ["ok", "info", "ok", "info"]),
        ((False, False, False, False), ["warning", "info", "warning", "info"]),
        ((False, True, True, True), ["info", "ok", "ok", "ok"]),
        ((True, None, True, None), ["ok", "info", "ok", "info"]),
    ],
)
def test_missing_probe_kinds_are_warnings_and_slower_attaching_is_information(monkeypatch, answers, statuses):
    names = ("has_kprobes", "has_kprobe_multi", "has_uprobes", "has_uprobe_multi")
    for name, answer in zip(names, answers, strict=True):
        monkeypatch.setattr(features, name, lambda answer=answer: answer)

    monkeypatch.setattr(features, "uprobe_refusal", lambda: 0)

    lines = [check for check in kernel.checks() if "probe" in check.name]

    assert [line.name for line in lines] == ["kprobes", "kprobe_multi", "uprobes", "uprobe_multi"]
    assert [line.status for line in lines] == statuses
    if statuses[0] == "warning":
        assert "tracepoints" in lines[0].detail


@pytest.mark.parametrize(("multi", "status"), [(True, "ok"), (False, "warning"), (None, "ok")])
def test_uprobes_that_need_cap_sys_admin_need_uprobe_multi(monkeypatch, multi, status):
    monkeypatch.setattr(features, "has_uprobes", lambda: True)
    monkeypatch.setattr(features, "has_uprobe_multi", lambda: multi)
    monkeypatch.setattr(features, "uprobe_refusal", lambda: errno.EACCES)

    uprobes = named("uprobes", kernel.checks())

    assert uprobes.status == status
    assert ("CAP_SYS_ADMIN" in uprobes.detail) is (multi is not None)


@pytest.mark.parametrize(
    ("state", "status"), [("none", "ok"), ("integrity", "ok"), ("confidentiality", "warning"), ("", "info")]
)
def test_only_lockdown_confidentiality_is_a_warning(monkeypatch, state, status):
    monkeypatch.setattr(features, "lockdown", lambda: state)

    assert named("lockdown", kernel.checks()).status == status


@pytest.mark.parametrize(("initial", "status"), [(True, "ok"), (False, "warning"), (None, "info")])
def test_another_pid_namespace_is_a_warning(monkeypatch, initial, status):
    monkeypatch.setattr(features, "initial_pid_namespace", lambda: initial)

    assert named("PID namespace", kernel.checks()).status == status


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("6.28.0", "warning"),
        ("6.29.0", "ok"),
        ("7.0.1", "warning"),
        ("7.1.0", "ok"),
        ("7.2.0a1", "ok"),
        (None, "warning"),
    ],
)
def test_a_packages_version_is_compared_with_the_requirement(monkeypatch, version, status):
    def installed(name):
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["ipykernel>=6.29,!=7.0.*", "x; extra == 'gpu'"])
    monkeypatch.setattr(importlib.metadata, "version", installed)

    check = named("ipykernel", python.checks())

    assert check.status == status
    assert ("pip install" in check.fix) is (status == "warning")


def test_missing_pandas_prevents_tracing(monkeypatch):
    def installed(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", installed)

    assert named("pandas", python.checks()).status == "missing"


def test_packages_are_listed_without_comparison_in_a_source_tree(monkeypatch):
    def requires(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0")

    assert named("ipykernel", python.checks()).status == "info"


@pytest.mark.parametrize(
    ("files", "status", "words"),
    [
        ({"proc/modules": "xe 3000 1 - Live 0x0\n"}, "ok", "loaded"),
        ({"proc/modules": "xen 1 1 - Live 0x0\n", "sys/module/xe/version": ""}, "ok", "built into the kernel"),
        ({"sys/module/xe/version": ""}, "ok", "built into the kernel"),
        ({}, "info", "cannot load modules"),
        ({"proc/modules": ""}, "info", "without /lib/modules/6.8.0-45-generic"),
        ({"proc/modules": "", "lib/modules/6.8.0-45-generic/modules.dep": "k/xen.ko: k/a.ko\n"}, "info", "not among"),
        (
            {"proc/modules": "", "lib/modules/6.8.0-45-generic/modules.dep": "k/drm/xe/xe.ko.zst: k/drm.ko.zst\n"},
            "info",
            "but available",
        ),
    ],
)
def test_a_driver_is_loaded_built_in_available_or_absent(root, files, status, words):
    for path, text in files.items():
        put(root / path, text)

    check = named("driver xe", devices.checks(root))

    assert check.status == status
    assert words in check.detail
    assert check.fix.startswith("modprobe xe") is (words == "but available")


def test_a_modules_file_name_may_have_hyphens(root):
    put(root / "proc/modules")
    put(root / "lib/modules/6.8.0-45-generic/modules.dep", "k/accel/ivpu/intel-vpu.ko:\n")

    assert named("driver intel_vpu", devices.checks(root)).fix.startswith("modprobe intel_vpu")


def test_device_nodes_are_listed(root):
    for name in ("accel/accel0", "dri/renderD128", "dri/card0", "nvidia0", "nvidiactl", "nvidia-caps/cap1"):
        put(root / "dev" / name)

    check = named("device nodes", devices.checks(root))

    assert check.status == "ok"
    assert check.detail == ", ".join(
        str(root / "dev" / name) for name in ("accel/accel0", "dri/renderD128", "nvidia0", "nvidiactl")
    )


def test_device_nodes_that_cannot_be_opened_are_a_warning(root, monkeypatch):
    put(root / "dev/accel/accel0")
    put(root / "dev/dri/renderD128")
    monkeypatch.setattr(os, "supports_effective_ids", set())
    monkeypatch.setattr(os, "access", lambda path, mode, *, effective_ids: "render" in str(path))

    check = named("device nodes", devices.checks(root))

    assert check.status == "warning"
    assert f"may not open {root / 'dev/accel/accel0'}" in check.detail
    assert "render" in check.fix


def test_no_device_is_no_defect_and_what_works_is_named(root):
    check = named("device nodes", devices.checks(root))

    assert check.status == "info"
    assert "recordings" in check.detail


def test_gputrace_without_nvrtc_works_for_kernels_that_need_none(monkeypatch):
    before = gpu.checks()[0]
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(()))
    after = gpu.checks()[0]

    assert "CUDA C" not in before.detail
    if before.status == "ok":
        assert after.status == "info"
        assert "kernels in CUDA C cannot be compiled" in after.detail
        assert after.fix == "pip install nvidia-cuda-nvrtc"


def test_all_is_every_other_extra():
    extras = tomllib.loads(Path(__file__).parents[4].joinpath("pyproject.toml").read_text())["project"]
    extras = extras["optional-dependencies"]
    (everything,) = extras.pop("all")

    assert everything == f"accel-magic[{','.join(sorted(extras))}]"
    assert any(line.startswith("nvidia-cuda-nvrtc") for line in extras["gpu"])
    assert any(line.startswith("distributed") for line in extras["cluster"])
