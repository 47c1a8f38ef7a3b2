"""Files of a user in a file system that is a program of that user, and stops answering."""

import json
import os
from pathlib import Path

import pytest

from accel_magic.broker import mounts
from tests.support import callers, slow_files, users
from tests.support.kernel_objects import kernel_objects

LIBC = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
ASKED = """
from accel_magic.broker import broker_client
from accel_magic.broker.broker_messages import (
    AttachedTrace, AttachRequest, Detached, DetachRequest, FilePlaces, FilePoint
)
from accel_magic.probes.plan import TraceRequest
from accel_magic.codec import Descriptor, descriptors_of
calls = AttachRequest(request=TraceRequest(("tracepoint:syscalls:sys_enter_getppid",), mode="count"))
mapped = broker_client.connection().ask(calls, AttachedTrace)
for one in descriptors_of(mapped): os.close(one)
answer("attached")
sys.stdin.readline()
places = {0: FilePlaces((FilePoint("path", "x", offset=64, file=0),))}
request = TraceRequest(("uprobe:path:x",), mode="count")
try:
    asked = AttachRequest(request=request, places=places, files=(Descriptor(FILE),))
    broker_client.connection().ask(asked, AttachedTrace)
    answer("")
except AccelMagicError as error:
    answer(error.code)
shown = broker_client.connection().ask(calls, AttachedTrace)
for one in descriptors_of(shown): os.close(one)
broker_client.connection().ask(DetachRequest(trace=shown.trace), Detached)
answer("attached")
sys.stdin.readline()
"""


@pytest.fixture(params=slow_files.KINDS)
def slow(request):
    """A file of the first user in such a file system."""
    with slow_files.mounted(request.param, users.FIRST, LIBC) as found:
        if isinstance(found, str):
            pytest.skip(f"users of this machine cannot mount a file system: {found}")
        yield found


def state(pid):
    """The state of a process: `Z` after its main thread has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_file_system_that_does_not_answer_holds_up_no_request_and_no_probe(broker, slow):
    before, others = kernel_objects(), {*broker.sessions()}
    process = broker.start(ASKED.replace("FILE", str(slow.file)), forked=False, pass_fds=[slow.file])
    slow.close()
    assert json.loads(process.stdout.readline()) == ["attached"]
    (session,) = {*broker.sessions()} - others
    assert kernel_objects() - before
    slow.stop_answering()
    process.stdin.write("\n")
    process.stdin.flush()

    assert json.loads(process.stdout.readline()) == ["broker.file-system"]
    assert json.loads(process.stdout.readline()) == ["attached"]
    callers.until(slow.waiting)  # for closing the file, at the latest
    callers.until(lambda: state(session) == "Z")
    callers.until(lambda: not kernel_objects() - before)
    assert session in broker.sessions()

    slow.answer()
    process.communicate("\n", timeout=callers.DEADLINE_S)
    callers.until(lambda: not {*broker.sessions()} - others)


def test_files_of_local_file_systems_are_accepted_and_files_of_mounts_that_nobody_shows_are_not(tmp_path):
    (tmp_path / "file").write_text("x")
    with (tmp_path / "file").open() as known, Path("/proc/self/stat").open() as proc:
        assert mounts.refusal([known.fileno(), proc.fileno()], os.getpid()) is None
        memory = os.memfd_create("x")
        refused = mounts.refusal([known.fileno(), memory], os.getpid())
    os.close(memory)
    assert refused is not None
    assert refused.code == "broker.file-system"
