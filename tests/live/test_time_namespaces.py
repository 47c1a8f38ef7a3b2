"""Traces of a process in a time namespace, compared with its shifted clock."""

import json

import pytest

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("nothing_attached")]

SCRIPT = """
import json, os, sys, threading, time
from pathlib import Path
import accel_magic
from accel_magic.recording import handover

with accel_magic.trace("t:syscalls:sys_enter_getppid", "offcpu", "latency:t:syscalls:sys_enter_clock_nanosleep") as t:
    os.sched_yield()
    before = time.monotonic_ns()
    os.getppid()
    asleep = time.monotonic_ns()
    time.sleep(0.02)
    after = time.monotonic_ns()
    thread = threading.Thread(target=time.sleep, args=(0.5,), daemon=True)
    thread.start()
    time.sleep(0.02)
recording = t.result.recording
handover.write(recording, Path(sys.argv[1]))
events = handover.read(Path(sys.argv[1])).events.columns
own = [columns["time_ns"].values + recording.start_ns for columns in (recording.events.columns, events)]
assert (own[0] == own[1]).all()
frame = t.result.events.assign(at=own[0])
frame = frame[frame["pid"] == os.getpid()]
main = frame[frame["tid"] == frame["pid"]]
open_wait = frame[(frame["function"] == "wait") & (frame["tid"] != frame["pid"])]["duration_ns"].max()
print(json.dumps({
    "span": [before, asleep, after],
    "called": main.loc[main["function"] == "sys_enter_getppid", "at"].tolist(),
    "slept": main.loc[main["function"] == "sys_enter_clock_nanosleep", "at"].tolist(),
    "waited": main.loc[(main["function"] == "wait") & (main["duration_ns"] > 15e6), "at"].tolist(),
    "unfinished_wait_ns": int(open_wait), "duration_ns": recording.duration_ns, "notes": t.result.recording.notes,
}))
"""


@pytest.mark.parametrize("offset_s", ["5000", "-100"])
def test_times_of_events_are_on_the_clock_of_the_traced_process(unshare, python, tmp_path, offset_s):
    inside = unshare("--time", "--fork", "--monotonic", offset_s)

    told = json.loads(python(SCRIPT, tmp_path / "handed-over", before=inside))

    before, asleep, after = told["span"]
    (called,) = told["called"]
    assert before <= called <= asleep
    for times in (told["slept"], told["waited"]):
        assert sum(asleep <= time <= after for time in times) == 1
    # A wait that had not ended is recorded until the end of the trace.
    assert 0 < told["unfinished_wait_ns"] < told["duration_ns"]
    assert told["notes"] == []
