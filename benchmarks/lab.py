"""Kernel functions of the real NPU driver in the lab: attaching, detaching, and a cold start."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError
from accel_magic.lab import image, npu
from accel_magic.lab.vm.lab import Lab
from accel_magic.lab.vm.lab_settings import Settings
from benchmarks.arithmetic import Measured
from benchmarks.peers import PeerError, require

if TYPE_CHECKING:
    from collections.abc import Iterator

KERNELS = ("6.12", "7.2")
PROBE = "intel_vpu:ivpu_*"
PEER = "bpftrace, one function at a time"
_GUEST = Path(__file__).with_name("lab_guest.py")
_COLD = Path(__file__).with_name("lab_cold.py")
_PEER_S = 200.0


def _kernels(*, quick: bool) -> Iterator[str]:
    """Kernels whose image exists or can be built; prints those that are skipped."""
    for kernel in KERNELS[-1:] if quick else KERNELS:
        try:
            image.build(kernel)
        except MachineError as error:
            print(f"skipping the lab with {kernel}: {error}", file=sys.stderr)
            continue
        yield kernel


def attaching(*, quick: bool) -> Iterator[Measured]:
    """Attach all functions of the driver on each kernel, compared with bpftrace in the same guest."""
    for kernel in _kernels(quick=quick):
        with Lab(Settings(kernel=kernel, deadline_s=600.0)) as lab:
            yield from _attaching(lab, kernel, rounds=2 if quick else 5)


def _attaching(lab: Lab, kernel: str, *, rounds: int) -> Iterator[Measured]:
    done = lab.run([sys.executable, str(_GUEST), PROBE, str(rounds)], timeout=60)
    if done.status:
        raise PeerError(f"the guest's part failed: {done.stderr.decode()}")
    report = json.loads(done.text)
    theirs = _peer(lab, report["functions"])
    count = f"{report['functions']} functions of intel_vpu, {kernel}"
    attach, detach = tuple(report["attach_s"]), tuple(report["detach_s"])
    both = tuple(map(sum, zip(attach, detach, strict=True)))
    note = f"{theirs.probe}; the peer ran once; start-up and our compilation are not included"
    yield Measured(f"lab-attach-{kernel}", f"attach {count}", "s", attach, bar=0.5)
    yield Measured(f"lab-detach-{kernel}", f"detach {count}", "s", detach, bar=0.2)
    peers = (theirs.attach_s + theirs.detach_s,) * len(both)
    what = f"attach and detach {count}"
    yield Measured(f"lab-bpftrace-{kernel}", what, "s", both, PEER, peers, "speedup", 50, note)
    peers = (theirs.attach_s,) * len(attach)
    what = f"attach {count}, compared with the peer"
    yield Measured(f"lab-alone-{kernel}", what, "s", attach, PEER, peers, "speedup", note=note)
    for part, values in report["parts_s"].items():
        require(min(values) > 0, f"this part of attaching did not run: {part}")
        yield Measured(f"lab-{part}-{kernel}", f"part of attaching, {kernel}: {part}", "s", tuple(values))
    first = (report["first_s"],)
    yield Measured(f"lab-first-{kernel}", f"the first attach of a process, {kernel}", "s", first)


@dataclass(frozen=True)
class _Peer:
    """One run of bpftrace: its probe, seconds until everything was attached, and from then until it ended."""

    probe: str
    attach_s: float
    detach_s: float
    text: str


def _peer(lab: Lab, functions: int) -> _Peer:
    """Attach the functions one by one, as bpftrace does for `module:glob` with `@[probe]`.

    Raises:
        PeerError: bpftrace attached fewer functions, or none.

    """
    start = _bpftrace(lab, "BEGIN", "BEGIN { }")
    # Releases before 0.19 do not support modules in kprobes; the glob alone matches the same functions.
    for probe in (f"kprobe:{PROBE}", f"kprobe:{PROBE.partition(':')[2]}"):
        peer = _bpftrace(lab, probe, f"{probe} {{ @[probe] = count(); }}")
        if found := re.search(r"Attach(?:ing|ed) (\d+) probes", peer.text):
            if int(found[1]) < functions * 0.95:  # it skips a few clones
                raise PeerError(f"bpftrace attached {found[1]} functions, not {functions}")
            return replace(peer, attach_s=peer.attach_s - start.attach_s, detach_s=peer.detach_s - start.detach_s)
    raise PeerError(f"bpftrace attached nothing: {peer.text}")


def _bpftrace(lab: Lab, probe: str, program: str) -> _Peer:
    """Run bpftrace around a command that prints its start time, at which everything is attached."""
    now = "/bin/cut -d' ' -f1 /proc/uptime"
    script = f"{now}; bpftrace -e \"$1\" -c '/bin/cut -c1-12 /proc/uptime' 2>&1; {now}"
    done = lab.run(["sh", "-c", script, "sh", program], timeout=_PEER_S)
    begin, *attached, end = map(float, re.findall(r"^(\d+\.\d\d)\b", done.text, re.MULTILINE))
    middle = attached[0] if attached else end
    return _Peer(probe, middle - begin, end - middle, done.text)


def cold(*, quick: bool) -> Iterator[Measured]:
    """Time from starting QEMU to a DataFrame of a traced job, in a new process."""
    for kernel in _kernels(quick=quick):
        with tempfile.TemporaryDirectory() as folder:
            load = npu.compile_load(folder)
            times = []
            for _ in range(1 if quick else 3):
                begin = time.monotonic()
                command = [sys.executable, str(_COLD), kernel, str(load)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise PeerError(f"the cold run failed: {done.stderr}")
                events = int(done.stdout)
                times.append(time.monotonic() - begin)
                if not events:
                    raise PeerError("the job was not traced")
        what = f"cold start of the lab to a DataFrame of a traced job, {kernel}"
        yield Measured(f"lab-cold-{kernel}", what, "s", tuple(times), bar=10.0)
