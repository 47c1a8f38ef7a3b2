"""What works on this machine, what does not, and what mends it: `%accel_doctor`, `python -m accel_magic doctor`."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from packaging.requirements import Requirement

from accel_magic._version import __version__
from accel_magic.errors import MachineError
from accel_magic.kernel import features, find_bcc
from accel_magic.views import doctor as views

if TYPE_CHECKING:
    from collections.abc import Iterator

Status = Literal["ok", "warning", "missing", "info"]

_ROOT = Path("/")
_NEWEST_TESTED_PYTHON = (3, 14)
_DRIVERS = {
    "intel_vpu": "Intel NPU",
    "xe": "Intel GPU, new driver",
    "i915": "Intel GPU",
    "amdgpu": "AMD GPU",
    "nvidia": "NVIDIA GPU",
}
_DEVICE_NODES = ("dev/accel/accel*", "dev/dri/renderD*", "dev/nvidia[0-9]*", "dev/nvidiactl")
# What goes on working without each of them; a package not named here is needed for any tracing.
_WITHOUT_PACKAGE = {
    "ipykernel": "the magics in a terminal IPython and accel_magic.traces in a script work without",
    "ipython": "accel_magic.traces in a script works without",
    "ipywidgets": "cells are traced without, and show no live counters",
    "bokeh": "cells are traced without, and results have no figures",
}
_PACKAGES = ("ipykernel", "ipython", "ipywidgets", "bokeh", "pandas")
_LOAD_BCC = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("bcc", sys.argv[1] + "/__init__.py")
sys.modules["bcc"] = bcc = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bcc)
bcc.BPF
"""


@dataclass(frozen=True)
class Check:
    """One line of the report.

    Attributes:
        name: What was looked at.
        status: `missing`: prevents any tracing; `warning`: something cannot be traced or shown, the rest works; `info`:
            good to know, nothing to mend; `ok`.
        detail: What was found, and what works instead.
        fix: The command or the change that mends it; empty when there is nothing to mend.

    """

    name: str
    status: Status
    detail: str
    fix: str = ""


@dataclass(frozen=True)
class Report:
    """The checks of this machine, as text (`str`, `repr`), HTML and JSON."""

    checks: tuple[Check, ...]

    @property
    def exit_status(self) -> int:
        """1 when something prevents any tracing here, else 0."""
        return int(any(check.status == "missing" for check in self.checks))

    @property
    def verdict(self) -> str:
        """One line: whether tracing works here."""
        missing = [check.name for check in self.checks if check.status == "missing"]
        if missing:
            return f"live tracing does not work here; to mend: {', '.join(missing)}"
        warnings = [check.name for check in self.checks if check.status == "warning"]
        return "live tracing works here" + (f", with limits: {', '.join(warnings)}" if warnings else "")

    @property
    def text(self) -> str:
        """Plain text, at most 110 columns where words allow."""
        return views.text(self)

    @property
    def html(self) -> str:
        """A self-contained HTML fragment, everything escaped."""
        return views.html(self)

    def to_json(self) -> str:
        """JSON object: `accel_magic`, `kernel`, `machine`, `verdict`, `exit_status`, and `checks` as in `Check`."""
        data: dict[str, Any] = {
            "accel_magic": __version__,
            "kernel": features.kernel_release(),
            "machine": features.machine(),
            "verdict": self.verdict,
            "exit_status": self.exit_status,
            "checks": [asdict(check) for check in self.checks],
        }
        return json.dumps(data, indent=2)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        return {"text/plain": self.text, "text/html": self.html}


def report(*, xe: bool = False) -> Report:
    """Check this machine and this process; what iaprof needs for Intel's Xe GPUs where asked, or such a GPU is here."""
    return Report(checks(xe=xe))


def checks(*, xe: bool = False) -> tuple[Check, ...]:
    """Make every check once; takes about half a second, most of it to see BCC load in its own interpreter."""
    return (
        _needed("platform", features.platform_error(), f"{platform.system()} {features.machine()}"),
        _needed("kernel", features.kernel_error(), f"{features.kernel_release()}: ring buffer and attach cookies"),
        _needed("privilege", features.privilege_error(), _privilege_detail()),
        _needed("tracefs", features.tracefs_error(), f"mounted at {features.tracefs().path}, readable"),
        _bcc(),
        *_foreign_bcc(),
        *_probes(),
        _btf(),
        _bpffs(),
        _lockdown(),
        _perf_event_paranoid(),
        _unprivileged_bpf(),
        _pid_namespace(),
        _python(),
        *(_package(name) for name in _PACKAGES),
        *(_driver(name, device) for name, device in _DRIVERS.items()),
        _device_nodes(),
        _gputrace(),
        _gputrace_device(),
        *_stacks(),
        *_iaprof(asked=xe),
    )


def _needed(name: str, error: MachineError | None, detail: str) -> Check:
    """Check something without which nothing can be traced; `detail` is what to say when it is there."""
    if error is None:
        return Check(name, "ok", detail)
    return Check(name, "missing", f"{error.what}: {error.why}", error.fix)


def _privilege_detail() -> str:
    held = ", ".join(sorted(features.capabilities().held))
    return f"{held}; the kernel loads programs and opens perf events for this process"


def _bcc() -> Check:
    try:
        found = find_bcc.find_bcc()
    except MachineError as error:
        return _needed("BCC", error, "")
    command = [str(found.interpreter), "-I", "-c", _LOAD_BCC, str(found.package)]
    try:
        loaded = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        failure = (loaded.stderr.strip().splitlines() or ["no message"])[-1] if loaded.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        failure = str(error)
    if failure:
        why = f"the one at {found.package} does not load in {found.interpreter}: {failure}"
        return _needed("BCC", MachineError("BCC is broken", why=why, fix=find_bcc.install_command()), "")
    return Check("BCC", "ok", f"{found.version} at {found.package}, loads in {found.interpreter}")


def _foreign_bcc() -> Iterator[Check]:
    """Name an unrelated package called bcc: a line only where there is one."""
    foreign = find_bcc.foreign_bcc()
    if foreign is not None:
        yield Check(
            "other bcc",
            "warning",
            f"{foreign.version} at {foreign.path} is not BCC (PyPI's package of that name is a lattice library); "
            "accel_magic does not use it, `import bcc` in your own code would",
            "pip uninstall bcc",
        )


def _probes() -> Iterator[Check]:
    kprobes, multi = features.has_kprobes(), features.has_kprobe_multi()
    if kprobes:
        yield Check("kprobes", "ok", "kernel functions can be traced")
    elif multi:
        yield Check("kprobes", "info", "none in this kernel; kprobe_multi traces kernel functions all the same")
    else:
        yield Check(
            "kprobes",
            "warning",
            "this kernel was built without them: functions of the kernel and of drivers cannot be traced; tracepoints, "
            "syscalls, uprobes and USDT can",
            "boot a kernel with CONFIG_KPROBES and CONFIG_FPROBE",
        )
    instead = "functions are attached one by one, which takes longer" if kprobes else "nor are there kprobes"
    yield _multi("kprobe_multi", multi, "thousands of kernel functions attach in one call", instead)
    yield from _uprobes()


def _uprobes() -> Iterator[Check]:
    uprobes, multi = features.has_uprobes(), features.has_uprobe_multi()
    use = "functions of libraries and programs can be traced, and USDT"
    if not uprobes:
        detail = "this kernel was built without them: libraries cannot be traced; tracepoints and syscalls can"
        yield Check("uprobes", "warning", detail, "boot a kernel with CONFIG_UPROBE_EVENTS")
    elif multi is None or not features.uprobe_refusal():
        yield Check("uprobes", "ok", use)
    elif multi:
        yield Check("uprobes", "ok", f"{use}, by way of uprobe_multi: the other way needs CAP_SYS_ADMIN in this kernel")
    else:
        detail = "this kernel wants CAP_SYS_ADMIN for them: libraries cannot be traced; tracepoints and syscalls can"
        yield Check("uprobes", "warning", detail, "add CAP_SYS_ADMIN, or boot Linux 6.6 or newer")
    instead = "functions are attached one by one, which takes longer" if uprobes else "nor are there uprobes"
    yield _multi("uprobe_multi", multi, "many functions of a library attach in one call", instead)


def _multi(name: str, offered: bool | None, use: str, instead: str) -> Check:
    if offered is None:
        return Check(name, "info", "cannot be told without the privilege to load BPF programs")
    return Check(name, "ok", use) if offered else Check(name, "info", f"not in this kernel: {instead}")


def _btf() -> Check:
    if features.has_btf():
        return Check("BTF", "ok", "the kernel describes its types at /sys/kernel/btf/vmlinux")
    return Check("BTF", "info", "none in this kernel; only your own programs that read kernel structs would need it")


def _bpffs() -> Check:
    mounted = features.bpffs()
    if mounted is not None:
        return Check("bpffs", "ok", f"mounted at {mounted}")
    detail = "not mounted; accel_magic pins nothing and works without"
    return Check("bpffs", "info", detail, "mount -t bpf bpf /sys/fs/bpf (for other tools)")


def _lockdown() -> Check:
    state = features.lockdown()
    if state == "confidentiality":
        detail = "confidentiality: kprobes, most of tracefs and reading kernel memory from BPF are refused"
        return Check("lockdown", "warning", detail, "boot with lockdown=integrity, or without lockdown")
    if state:
        return Check("lockdown", "ok", f"{state}: does not hinder tracing")
    detail = "unknown, since securityfs does not tell; only lockdown `confidentiality` would hinder tracing"
    return Check("lockdown", "info", detail, "mount -t securityfs securityfs /sys/kernel/security (to see it)")


def _perf_event_paranoid() -> Check:
    value = features.perf_event_paranoid()
    if value is None:
        return Check("perf_event_paranoid", "info", "this kernel has no such setting")
    refusal = features.perf_event_refusal()
    if not refusal:
        return Check("perf_event_paranoid", "ok", f"{value}; perf_event_open works for this process")
    detail = f"{value}; perf_event_open is refused to this process ({os.strerror(refusal)}), see privilege"
    return Check("perf_event_paranoid", "info", detail)


def _unprivileged_bpf() -> Check:
    value = features.unprivileged_bpf_disabled()
    detail = "this kernel has no such setting" if value is None else f"{value}; tracing needs privilege at any value"
    return Check("unprivileged_bpf_disabled", "info", detail)


def _pid_namespace() -> Check:
    initial = features.initial_pid_namespace()
    if initial is None:
        return Check("PID namespace", "info", "unknown: /proc does not tell")
    if initial:
        return Check("PID namespace", "ok", "the initial one: process ids are those that the kernel reports")
    detail = (
        "not the initial one (a container): the kernel programs see the host's process ids, not the ones shown here"
    )
    return Check("PID namespace", "warning", detail, "start the container with --pid=host")


def _gputrace() -> Check:
    """Check what `%%gputrace` needs; `%%ktrace` works without."""
    from accel_magic.gpu import requirements

    found = requirements.look()
    if found.missing:
        what = "; ".join(dict.fromkeys(what for what, _ in found.missing))
        fix = "; ".join(dict.fromkeys(fix for _, fix in found.missing))
        return Check("%%gputrace", "info", f"does not work: {what}", fix)
    works = f"works, on the CPU device (simulated): {', '.join(found.there)}"
    if found.wanting:
        wanting, fixes = zip(*found.wanting, strict=True)
        return Check("%%gputrace", "info", "; ".join([works, *wanting]), "; ".join(fixes))
    return Check("%%gputrace", "ok", works)


def _gputrace_device() -> Check:
    """Say which GPUs `%%gputrace` could use; the CPU device is always there."""
    from accel_magic.gpu import requirements

    gpus = requirements.look_for_gpus()
    if gpus.found:
        return Check("%%gputrace --device cuda", "ok", "; ".join(gpus.found))
    return Check("%%gputrace --device cuda", "info", f"{gpus.why}; kernels run on the CPU device (simulated)", gpus.fix)


def _stacks() -> Iterator[Check]:
    """Check what `--stacks` can take, besides the kernel's."""
    from accel_magic.kernel import python_layout
    from accel_magic.kernel.symbols import frame_pointers

    try:
        python_layout.layout()
    except MachineError as error:
        yield Check("Python stacks", "info", f"{error.what}: {error.why}", error.fix)
    else:
        yield Check("Python stacks", "ok", "the frames of this Python can be followed")
    kept, why = frame_pointers()
    yield Check("native stacks", *(("ok", why) if kept else ("info", f"{why}: they end early in it")))


def _iaprof(*, asked: bool) -> Iterator[Check]:
    """Check what recording with iaprof needs: lines only where asked, or where there is a GPU for it."""
    from accel_magic.profiles.iaprof import requirements

    if not asked and not requirements.xe_gpus(_ROOT):
        return
    statuses: dict[bool | None, Status] = {True: "ok", False: "warning", None: "info"}
    for found in requirements.requirements(_ROOT):
        status = statuses[found.met] if found.needed or found.met else "info"
        yield Check(f"iaprof: {found.name}", status, found.detail, found.fix)


def _python() -> Check:
    detail = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] > _NEWEST_TESTED_PYTHON:
        newest = ".".join(map(str, _NEWEST_TESTED_PYTHON))
        return Check("Python", "info", f"{detail}; newer than the newest tested, {newest}")
    return Check("Python", "ok", detail)


def _requirements() -> dict[str, Requirement]:
    """What accel_magic requires, by package; empty where its own metadata is not installed (run from a source tree)."""
    try:
        lines = importlib.metadata.requires("accel-magic") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found = (Requirement(line) for line in lines)
    return {one.name: one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})}


def _package(name: str) -> Check:
    requirement = _requirements().get(name)
    wanted = str(requirement.specifier) if requirement is not None else ""
    fix = f"{sys.executable} -m pip install '{name}{wanted}'"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        if name in _WITHOUT_PACKAGE:
            return Check(name, "warning", f"not installed; {_WITHOUT_PACKAGE[name]}", fix)
        return Check(name, "missing", "not installed", fix)
    if requirement is None:
        return Check(
            name, "info", f"{version}; what is required is not known: accel-magic is not installed as a package"
        )
    if not requirement.specifier.contains(version, prereleases=True):
        return Check(name, "warning", f"{version}, and accel_magic requires {wanted}", fix)
    return Check(name, "ok", f"{version} (required: {wanted})")


def _driver(name: str, device: str) -> Check:
    label = f"driver {name}"
    modules = _read("proc/modules")
    if modules is not None and any(line.split(" ", 1)[0] == name for line in modules.splitlines()):
        return Check(label, "ok", f"{device}: loaded")
    if (_ROOT / "sys/module" / name).is_dir():
        return Check(label, "ok", f"{device}: built into the kernel")
    if modules is None:
        return Check(label, "info", f"{device}: not in this kernel, which loads no modules")
    folder = f"lib/modules/{features.kernel_release()}"
    listed = _read(f"{folder}/modules.dep")
    if listed is None:
        return Check(label, "info", f"{device}: not loaded; no /{folder} here to tell whether it could be")
    if any(Path(line.split(":", 1)[0]).name.split(".ko")[0].replace("-", "_") == name for line in listed.splitlines()):
        return Check(label, "info", f"{device}: not loaded, can be", f"modprobe {name} (where there is such a device)")
    return Check(label, "info", f"{device}: not loaded, and not among this kernel's modules")


def _device_nodes() -> Check:
    nodes = sorted(path for pattern in _DEVICE_NODES for path in _ROOT.glob(pattern))
    if not nodes:
        detail = (
            "no accelerator or GPU: neither /dev/accel/accel*, /dev/dri/renderD* nor /dev/nvidia*; what runs on the CPU"
        )
        return Check(
            "device nodes", "warning", f"{detail} can be traced, and recordings of other machines can be replayed"
        )
    # By effective ids, so that capabilities given to a service count.
    effective = os.access in os.supports_effective_ids
    closed = [path for path in nodes if not os.access(path, os.R_OK | os.W_OK, effective_ids=effective)]
    names = ", ".join(map(str, nodes))
    if closed:
        detail = f"{names}; this user may not open {', '.join(map(str, closed))}"
        return Check("device nodes", "warning", detail, "usermod -aG render,video USER, then log in again")
    return Check("device nodes", "ok", names)


def _read(path: str) -> str | None:
    try:
        return (_ROOT / path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
