"""Each group of benchmarks fails if what it measures does not happen: an idle workload, or a trace of nothing."""

import contextlib
import importlib
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.live
THOROUGH = pytest.mark.thorough

IDLE = {
    "syscall(SYS_getppid);": ";",
    "traced_function();\n": ";\n",
    "run_tasks(domain, handle, chunk);": ";",
}
"""What the traced program does, and what it does instead."""


@pytest.fixture
def benchmarks(monkeypatch):
    """The benchmarks' modules by name."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def idle_program(benchmarks, patch, folder):
    """The traced program makes no calls, and writes times as usual."""
    text = (ROOT / "benchmarks" / "loop.c").read_text()
    for does, instead in IDLE.items():
        assert text.count(does) == 1
        text = text.replace(does, instead)
    (folder / "idle.c").write_text(text)
    subprocess.run(["cc", "-O2", "-o", folder / "idle", folder / "idle.c"], check=True)
    patch.setattr(benchmarks("workloads"), "program", lambda: folder / "idle")


def stripped_program(benchmarks, patch, folder):
    """The traced program's functions have no names."""
    source = ROOT / "benchmarks" / "loop.c"
    subprocess.run(["cc", "-O2", "-s", "-o", folder / "stripped", source], check=True)
    patch.setattr(benchmarks("workloads"), "program", lambda: folder / "stripped")


def other_probe(module):
    """All traces of a module of benchmarks are of something that does not happen."""

    def apply(benchmarks, patch, _):
        trace = importlib.import_module("accel_magic").trace
        rare = "tracepoint:syscalls:sys_enter_reboot"
        holder = benchmarks(module)
        target = holder if hasattr(holder, "trace") else holder.accel_magic
        patch.setattr(target, "trace", lambda *_, **options: trace(rare, **options))

    return apply


def changed(module, name, **replaced):
    """A text of a module of benchmarks, with pieces replaced: `was=..., instead=...`."""

    def apply(benchmarks, patch, _):
        text = getattr(benchmarks(module), name)
        assert replaced["was"] in text
        patch.setattr(benchmarks(module), name, text.replace(replaced["was"], replaced["instead"]))

    return apply


def idle(module, name, result=None):
    """A function of a module of benchmarks does nothing."""
    return lambda benchmarks, patch, _: patch.setattr(benchmarks(module), name, lambda *_, **__: result)


def small_idle_cluster(benchmarks, patch, folder):
    """Two processes that call nothing."""
    patch.setattr(benchmarks("cluster"), "WORKERS", 2)
    changed("cluster", "SCRIPT", was="    call()", instead="    pass")(benchmarks, patch, folder)


def uncollected(benchmarks, patch, _):
    """Libraries find no collector of ITT tasks."""
    patch.setenv(benchmarks("itt").collector.VARIABLE, "/nosuch.so")
    patch.setattr(benchmarks("itt").collector, "install", lambda: None)


BROKEN = {
    "counting-idle": ("counting", idle_program),
    "counting-untraced": ("counting", other_probe("peers")),
    "recording-idle": ("recording", idle_program),
    "recording-untraced": ("recording", other_probe("peers")),
    "loss-idle": ("loss", idle_program),
    "functions-idle": ("functions", idle_program),
    "streaming-idle": ("streaming", idle_program),
    "streaming-untraced": ("streaming", other_probe("peers")),
    "consuming-idle": ("consuming", idle_program),
    "querying-empty": ("querying", idle("datasets", "_child", {"rows": {}, "seconds": 1.0, "mib": 1.0})),
    "cells-untraced": ("cells", changed("notebook", "FIRST", was="%%ktrace", instead="#")),
    "cells-idle": ("cells", changed("notebook", "EVENTS", was="os.getppid()", instead="pass")),
    "live-undisplayed": ("live", changed("notebook", "BUSY", was="--{live}", instead="--no-live")),
    "broker-idle": ("broker", changed("broker", "SCRIPT", was="os.getppid()", instead="pass")),
    "cluster-idle": ("cluster", small_idle_cluster),
    "itt-idle": ("itt", idle_program),
    "itt-uncollected": ("itt", uncollected),
    "itt-stacks-without-names": ("itt", stripped_program),
    "itt-first-untraced": ("itt", changed("itt", "FIRST", was='trace("openvino")', instead='trace("openvino:layers")')),
    "patching-idle": ("patching", changed("patching", "HITS", was="print(", instead="patching._least = min; print(")),
    "ocr-idle": ("ocr", changed("ocr", "PAGE", was='fill="black"', instead='fill="white"')),
    "ocr-uncollected": ("ocr", changed("ocr", "PAGE", was="    accel_magic.collect_tasks()", instead="    pass")),
    "llm-silent": (
        "llm",
        changed("language_model", "MODEL", was="max_new_tokens={tokens}", instead="max_new_tokens=8"),
    ),
    "llm-uncollected": (
        "llm",
        changed("language_model", "MODEL", was="    accel_magic.collect_tasks()", instead="    pass"),
    ),
    "iaprof-empty": ("iaprof", idle("iaprof", "_write")),
    "gpu-uninjected": ("gpu", idle("gpu", "_instrumented", "")),
    "gpu-simulated-idle": ("gpu-simulated", changed("gpu", "MATMUL", was="= sum;", instead="= 0;")),
    "opencl-idle": (
        "opencl",
        changed("opencl", "LAUNCHING", was="traced = {name: best(call)", instead="traced = {name: 1.0"),
    ),
    "opencl-fewer": ("opencl", changed("opencl", "LAUNCHING", was="items = {", instead="many -= 1; items = {")),
    "policies-idle": ("policies", lambda benchmarks, patch, _: patch.setattr(benchmarks("policies"), "BLOCKS", 1)),
    "stragglers-none": ("stragglers", lambda benchmarks, patch, _: patch.setattr(benchmarks("stragglers"), "LATE", 4)),
    "sampling-untraced": ("sampling", other_probe("flame_cost")),
    "flame-cost-idle": ("flame-cost", changed("flame_cost", "NOTEBOOK", was="sum(", instead="time.sleep(0.01); (")),
    "waiting-untraced": ("waiting", other_probe("flame_cost")),
    "flame-graph-empty": ("flame-graph", idle("flame", "figure_html", "")),
}


SECOND = {
    "recording-idle",
    "counting-untraced",
    "streaming-idle",
    "cells-idle",
    "itt-idle",
    "itt-first-untraced",
    "itt-stacks-without-names",
    "ocr-uncollected",
    "llm-uncollected",
    "opencl-fewer",
    "waiting-untraced",
}
"""Another fault of the same group, or the same fault where another group has it too: for thorough runs."""
NEEDS = {"ocr": "rapidocr", "llm": "openvino_genai", "opencl": "pyopencl"}
"""Packages without which a group is skipped."""


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[THOROUGH] if name in SECOND else []) for name in BROKEN])
def test_a_group_fails_if_what_it_measures_does_not_happen(name, benchmarks, monkeypatch, tmp_path, capsys):
    group, breaks = BROKEN[name]
    if group in NEEDS and find_spec(NEEDS[group]) is None:
        pytest.skip(f"{NEEDS[group]} is not installed")
    breaks(benchmarks, monkeypatch, tmp_path)

    assert benchmarks("run").main(["--quick", "--only", group]) == 1

    assert f"{group}: FAILED: " in capsys.readouterr().err
    assert left_behind() == []


def left_behind():
    """Command lines of this process's children that run benchmarks."""
    found, children = [], []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended
            children += (task / "children").read_text().split()
    for child in children:
        with contextlib.suppress(OSError):  # it has ended
            found.append(Path(f"/proc/{child}/cmdline").read_bytes())
    return [line for line in found if b"benchmarks" in line]


def test_each_group_is_broken_or_needs_another_machine(benchmarks):
    elsewhere = {"lab", "lab-cold", "lab-start", "npu", "gpu-device"}

    assert {group for group, _ in BROKEN.values()} | elsewhere == set(benchmarks("run").GROUPS)
