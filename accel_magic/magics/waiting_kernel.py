"""The notebook's Python kernel in a snapshot of the lab: it has imported and traced everything once, and waits.

    python -P -m accel_magic.magics.lab_kernel --wait
    python -P -m accel_magic.magics.lab_kernel --wait --files FILE

The first form prints `WAITING` and reads one line of JSON from standard input, in the guest that is restored: what it
becomes (`become`). It then is `lab_kernel`, of a lab of its own. The second form writes to FILE, as JSON, which files
of the Python environment it has read.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accel_magic.lab.guest import WAITING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MODULES: Final = (
    *("IPython.core.completer", "IPython.core.debugger", "IPython.core.oinspect", "IPython.core.ultratb", "jedi"),
    *("ipykernel.comm", "ipykernel.kernelapp", "ipykernel.zmqshell", "ipywidgets"),
    *("numpy", "pandas", "pyarrow.parquet", "bokeh.embed", "bokeh.models", "bokeh.plotting", "bokeh.resources"),
    *("concurrent.futures", "multiprocessing", "pickle", "sqlite3", "uuid", "zoneinfo", "encodings.idna"),
)
"""What notebooks use besides what the cells below import."""
_DRIVER: Final = Path("/sys/module/intel_vpu")
_TRACE: Final = """
%%ktrace tracepoint:syscalls:sys_enter_openat {} -o traced
for _ in range(20):
    open("/proc/version").close()
time.sleep(0.3)
"""
_CELLS: Final = (
    "%load_ext accel_magic\nfrom accel_magic.lab import npu\nimport pandas, numpy, time\nnpu.load, npu.faulty_jobs",
    _TRACE.strip().format("intel_vpu:ivpu_*" if _DRIVER.exists() else ""),
    "traced",
    "traced.events.head()",
    "traced.counts",
    "traced.diagnose()",
    "print(traced)",
    *(["%%ktrace intel_vpu:ivpu_*\npass"] if _DRIVER.exists() else []),
    "import accel_magic\n[getattr(accel_magic, name) for name in accel_magic.__all__ if name != 'last']",
    "%unload_ext accel_magic",
)
_OF_THE_KERNEL: Final = (
    *("accel_magic.kernel.bpf_syscalls", "accel_magic.kernel.btf", "accel_magic.kernel.features"),
    *("accel_magic.kernel.load", "accel_magic.magics", "accel_magic.probes.filters"),
    *("accel_magic.probes.kernel_functions", "accel_magic.recording.stored_layout", "accel_magic.subsystems"),
    "accel_magic.views.templates",
)
"""Modules whose caches stay: they are of this package, of the guest's kernel, or keyed by its modules."""
_PR_SET_DUMPABLE: Final = 4
_READING: Final = ("r", "rb", None)


class _FilesRead:
    """Collects the paths of files that this process opens."""

    def __init__(self) -> None:
        self._opened: set[str] = set()
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        reads = event == "ctypes.dlopen" or (event == "open" and arguments[1] in _READING)
        if reads and isinstance(arguments[0], str):
            self._opened.add(arguments[0])

    def write(self, target: Path) -> None:
        """Write the absolute paths of what was opened, mapped or imported, and the search path, as JSON."""
        files = {path for path in self._opened if path.startswith("/")}
        for module in list(sys.modules.values()):
            for name in ("__file__", "__cached__"):
                if isinstance(path := getattr(module, name, None), str):
                    files.add(path)
        for line in Path("/proc/self/maps").read_text().splitlines():
            *_, path = line.split(None, 5)
            if path.startswith("/"):
                files.add(path)
        target.write_text(json.dumps({"files": sorted(files), "path": [path for path in sys.path if path]}))


def warm_up() -> None:
    """Import what notebooks need, and run cells that a notebook begins with in a kernel that is then closed.

    Raises:
        RuntimeError: A cell failed.

    """
    for name in _MODULES:
        importlib.import_module(name)
    from ipykernel.ipkernel import IPythonKernel
    from ipykernel.kernelapp import IPKernelApp
    from ipykernel.zmqshell import ZMQInteractiveShell

    with tempfile.TemporaryDirectory() as folder:
        os.environ["IPYTHONDIR"] = folder
        options = ["--HistoryManager.hist_file=:memory:", "--IPKernelApp.capture_fd_output=False"]
        app: Any = IPKernelApp.instance()
        app.initialize(["-f", f"{folder}/kernel.json", *options])
        for cell in _CELLS:
            error = app.shell.run_cell(cell).error_in_exec
            if error is not None:
                raise RuntimeError(f"{cell}: {error!r}")
        app.shell.run_cell("1 / 0")
        app.kernel.do_complete("import o", 8)
        app.kernel.do_inspect("print", 5)
        app.close()
        del os.environ["IPYTHONDIR"]
    for singleton in (IPKernelApp, IPythonKernel, ZMQInteractiveShell):
        singleton.clear_instance()
    _forget()


def _forget() -> None:
    """Forget what is of the cells that ran, and what this package has found out about the machine."""
    from ipywidgets import Widget

    from accel_magic.api import block
    from accel_magic.kernel.bcc import compiler
    from accel_magic.recording.reader import reader_client
    from accel_magic.views import drawn_elsewhere
    from accel_magic.views.figures import bokehjs

    Widget.close_all()
    block.keep(None)
    bokehjs.forget_front_end()
    compiler.stop()
    drawn_elsewhere.stop()
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "accel_magic" and not name.startswith(_OF_THE_KERNEL):
            for value in list(vars(module).values()):
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()
    reader_client.shared()  # a process, which the first trace would start
    gc.collect()
    gc.freeze()


def become(request: Mapping[str, Any]) -> None:
    """Become the kernel of one lab.

    Args:
        request: `environment`, all its variables; `cwd`; `user`, ids of a user and a group, or null for root.

    """
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["user"] is not None:
        from accel_magic.recording.reader import reader_client

        reader_client.end()  # it is root's
        user, group = request["user"]
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # as of a process that was started as this user
    os.chdir(request["cwd"])
    import random
    import time

    time.tzset()
    random.seed()
    sys.modules["numpy"].random.seed()
    tempfile.tempdir = None
    importlib.invalidate_caches()
    sys.path_importer_cache.clear()


def run(arguments: Sequence[str], serve: Callable[[Sequence[str], str], None]) -> None:
    """Wait, and serve what the restored guest is for; or write which files were read.

    Args:
        arguments: Those after `--wait`.
        serve: Serves a notebook, with ipykernel's arguments and how the guest started.

    """
    files = _FilesRead() if arguments else None
    # Both are the agent's pipes; the cells that run first must not use them.
    source, output = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    warm_up()
    if files is not None:
        files.write(Path(arguments[1]))
        os._exit(0)
    os.write(output, WAITING)
    with os.fdopen(source, "rb", buffering=0, closefd=False) as lines:
        request = json.loads(lines.readline())
    os.dup2(source, 0)
    os.dup2(output, 1)
    for descriptor in (source, output, nothing):
        os.close(descriptor)
    become(request)
    sys.argv[1:] = request["arguments"]
    serve(request["arguments"], "restored from a snapshot")
