"""Kernel functions of the real NPU driver in the lab: attaching, detaching, and from a cold start to a result."""

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
from accel_magic.lab.vm.settings import Settings
from benchmarks.arithmetic import Measured
from benchmarks.peers import PeerError

if TYPE_CHECKING:
    from collections.abc import Iterator

KERNELS = ("6.12", "7.2")
PROBE = "intel_vpu:ivpu_*"
PEER = "bpftrace, function by function"
_GUEST = Path(__file__).with_name("lab_guest.py")
_COLD = Path(__file__).with_name("lab_cold.py")
_PEER_S = 200.0


def _kernels(*, quick: bool) -> Iterator[str]:
    """Kernels whose image is there or can be built; says which are left out."""
    for kernel in KERNELS[-1:] if quick else KERNELS:
        try:
            image.build(kernel)
        except MachineError as error:
            print(f"the lab with {kernel} is left out: {error}", file=sys.stderr)
            continue
        yield kernel


def attaching(*, quick: bool) -> Iterator[Measured]:
    """All functions of the driver, on each kernel, beside bpftrace in the same guest."""
    for kernel in _kernels(quick=quick):
        with Lab(Settings(kernel=kernel, deadline_s=600.0)) as lab:
            yield from _attaching(lab, kernel, rounds=2 if quick else 5)


def _attaching(lab: Lab, kernel: str, *, rounds: int) -> Iterator[Measured]:
    done = lab.run([sys.executable, str(_GUEST), PROBE, str(rounds)], timeout=60)
    if done.status:
        raise PeerError(f"the guest's part failed: {done.stderr.decode()}")
    told = json.loads(done.text)
    theirs = _peer(lab, told["functions"])
    count = f"{told['functions']} functions of intel_vpu, {kernel}"
    attach, detach = tuple(told["attach_s"]), tuple(told["detach_s"])
    both = tuple(map(sum, zip(attach, detach, strict=True)))
    note = f"{theirs.probe}; the peer ran once; start-up, and our compilation, are left out"
    yield Measured(f"lab-attach-{kernel}", f"attach {count}", "s", attach, bar=0.5)
    yield Measured(f"lab-detach-{kernel}", f"detach {count}", "s", detach, bar=0.2)
    peers = (theirs.attach_s + theirs.detach_s,) * len(both)
    what = f"attach and detach {count}"
    yield Measured(f"lab-bpftrace-{kernel}", what, "s", both, PEER, peers, "speedup", 50, note)
    peers = (theirs.attach_s,) * len(attach)
    what = f"attach {count}, beside the peer"
    yield Measured(f"lab-alone-{kernel}", what, "s", attach, PEER, peers, "speedup", note=note)
    for part, values in told["parts_s"].items():
        yield Measured(f"lab-{part}-{kernel}", f"of attaching, {kernel}: {part}", "s", tuple(values))
    first = (told["first_s"],)
    yield Measured(f"lab-first-{kernel}", f"the first attach of a process, {kernel}", "s", first)


@dataclass(frozen=True)
class _Peer:
    """One run of bpftrace: what it was given, and seconds until all was attached and from there to its end."""

    probe: str
    attach_s: float
    detach_s: float
    text: str


def _peer(lab: Lab, functions: int) -> _Peer:
    """Attach the functions one by one, as bpftrace's `module:glob` and its `@[probe]` do.

    Raises:
        PeerError: It did something else.

    """
    start = _bpftrace(lab, "BEGIN", "BEGIN { }")
    # Releases before 0.19 know no modules in kprobes; the same functions answer to the glob alone.
    for probe in (f"kprobe:{PROBE}", f"kprobe:{PROBE.partition(':')[2]}"):
        peer = _bpftrace(lab, probe, f"{probe} {{ @[probe] = count(); }}")
        if found := re.search(r"Attach(?:ing|ed) (\d+) probes", peer.text):
            if int(found[1]) < functions * 0.95:  # it passes a clone or two by
                raise PeerError(f"bpftrace attached {found[1]} functions, not {functions}")
            return replace(peer, attach_s=peer.attach_s - start.attach_s, detach_s=peer.detach_s - start.detach_s)
    raise PeerError(f"bpftrace attached nothing: {peer.text}")


def _bpftrace(lab: Lab, probe: str, program: str) -> _Peer:
    """Run it around a command that tells when it starts: then everything is attached."""
    now = "/bin/cut -d' ' -f1 /proc/uptime"
    script = f"{now}; bpftrace -e \"$1\" -c '/bin/cut -c1-12 /proc/uptime' 2>&1; {now}"
    done = lab.run(["sh", "-c", script, "sh", program], timeout=_PEER_S)
    begin, *attached, end = map(float, re.findall(r"^(\d+\.\d\d)\b", done.text, re.MULTILINE))
    middle = attached[0] if attached else end
    return _Peer(probe, middle - begin, end - middle, done.text)


def cold(*, quick: bool) -> Iterator[Measured]:
    """From QEMU's start to a DataFrame of a traced job, everything in processes that start for it."""
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
