"""A notebook on the lab's kernel, from a snapshot and booted: to its first prompt and result, and its memory."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client import KernelManager

from accel_magic.errors import MachineError
from accel_magic.lab import image, snapshot
from accel_magic.lab.image import snapshots
from benchmarks.arithmetic import Measured
from benchmarks.peers import PeerError, require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_KERNEL = "accel-magic-npu-lab"
_LIMIT_S = 300.0
_LOAD = "%load_ext accel_magic\nfrom accel_magic.lab import npu"
_TRACE = """%%ktrace intel_vpu:ivpu_* -o traced
import time
begin = time.monotonic()
load = npu.load(jobs=20)
spent = time.monotonic() - begin"""
_CHECK = "print(len(traced.events), load.ok, spent)"
_SETTLE_S = 10.0
_LABS = 10
_TICK = os.sysconf("SC_CLK_TCK")
_OF_LABS = (b"accel_magic-lab-", b"keeper.py", b"compile_server.py")


@dataclass
class Started:
    """One notebook: seconds to its first prompt, from there to its result without the workload, and of CPU time."""

    manager: KernelManager
    client: Any
    prompt_s: float
    result_s: float = 0.0
    cpu_s: float = 0.0
    restored: bool = field(default=False)

    def run(self, code: str) -> str:
        """Run a cell that must succeed; returns what it prints."""
        printed: list[str] = []

        def take(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        reply = self.client.execute_interactive(code, timeout=_LIMIT_S, output_hook=take)["content"]
        require(reply["status"] == "ok", f"a cell failed: {reply}")
        return "".join(printed)

    def trace(self) -> None:
        """Load the extension and trace 20 jobs."""
        begin = time.monotonic()
        self.run(_LOAD)
        self.run(_TRACE)
        whole = time.monotonic() - begin
        events, jobs, spent = self.run(_CHECK).split()
        require(int(events) > 20 and int(jobs) == 20, "the jobs were not traced")
        self.result_s = whole - float(spent)

    def close(self) -> None:
        """End its lab."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def _start(folder: str) -> Started:
    begin = time.monotonic()
    manager = KernelManager(kernel_name=_KERNEL)
    manager.start_kernel(cwd=folder)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=_LIMIT_S)
    prompt_s = time.monotonic() - begin
    return Started(manager, client, prompt_s, restored=manager.provisioner._guest.lab.restored)  # noqa: SLF001


@contextmanager
def _labs(number: int, *, restored: bool) -> Iterator[list[Started]]:
    """Notebooks that start at the same time, each in its folder."""
    os.environ[snapshots.VARIABLE] = "use" if restored else "off"
    started: list[Started] = []
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder, str(place)) for place in range(number)]
        for place in places:
            place.mkdir()
        try:
            _at_once([lambda place=place: started.append(_start(str(place))) for place in places])
            require(len(started) == number, "a lab did not start")
            require(all(one.restored == restored for one in started), "a lab did not start as intended")
            yield started
        finally:
            for one in started:
                one.close()


def _at_once(works: Sequence[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _processes() -> list[Path]:
    """The processes of all labs: keepers, emulated NPUs, QEMUs, and those that compile and draw for them."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_bytes()
        except OSError:
            continue
        if line.parent.name != str(os.getpid()) and any(text in words for text in _OF_LABS):
            found.append(line.parent)
    return found


def _cpu_s() -> float:
    """CPU time of the labs' processes and of those that they have waited for."""
    ticks = 0
    for process in _processes():
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICK


def _pss_mib() -> float:
    """Memory of the labs' processes: what they share with each other counts once."""
    total = 0
    for process in _processes():
        found = re.search(r"^Pss:\s+(\d+) kB", (process / "smaps_rollup").read_text(), re.MULTILINE)
        total += int(found[1]) if found else 0
    return total / 1024


def starting(*, quick: bool) -> Iterator[Measured]:
    """One lab at a time, restored and booted in turns, then ten restored at once."""
    os.environ[snapshots.VARIABLE] = "use"
    try:
        image.prepare()
        made = snapshot.build()
    except MachineError as error:
        raise PeerError(f"no snapshot: {error}") from error
    require(not _processes(), "another lab runs on this machine")
    rounds: dict[bool, list[Started]] = {True: [], False: []}
    for _ in range(1 if quick else 3):
        for restored in (True, False):
            with _labs(1, restored=restored) as (one,):
                one.trace()
                one.cpu_s = _cpu_s()
                rounds[restored].append(one)
    ours, booted = rounds[True], rounds[False]
    for name, what, value, bar in (
        ("prompt", "the lab's kernel is chosen, until the first prompt", lambda one: one.prompt_s, 2.5),
        ("result", "from there to the first result of %%ktrace, without the workload", lambda one: one.result_s, 4.0),
        ("cpu", "CPU time of a lab until then", lambda one: one.cpu_s, 10.0),
    ):
        times, theirs = tuple(map(value, ours)), tuple(map(value, booted))
        yield Measured(f"lab-start-{name}", what, "s", times, bar=bar)
        yield Measured(f"lab-start-{name}-booted", what, "s", times, "a lab that boots", theirs, "speedup")
    labs = 2 if quick else _LABS
    with _labs(labs, restored=True) as started:
        time.sleep(_SETTLE_S)
        at_rest = _pss_mib() / labs
        _at_once([one.trace for one in started])
        require(all(one.result_s for one in started), "a lab did not trace")
        time.sleep(_SETTLE_S)
        traced = _pss_mib() / labs
        prompts = tuple(one.prompt_s for one in started)
    together = f"{labs} labs at once"
    yield Measured("lab-start-memory", f"memory of each of {together}, at the prompt", "MiB", (at_rest,), bar=180.0)
    yield Measured("lab-start-memory-traced", "and after its first trace", "MiB", (traced,), bar=400.0)
    yield Measured("lab-start-together", f"first prompt of each of {together}", "s", prompts)
    yield Measured("lab-start-disk", "the snapshot on disk", "MiB", (made.disk_bytes() / 2**20,), bar=650.0)
    yield Measured("lab-start-build", "building it", "s", (made.built_s,), bar=180.0)
