"""Output of `perf script` with any set of fields, compared with what `perf report` sums from the same recording."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from functools import cache

import pytest

import accel_magic
from accel_magic.result_bases.profile import ProfileResult

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed"),
]

RECORDINGS = {
    "chains": ("-g", "-e", "cpu-clock"),
    "flat": ("-e", "cpu-clock"),
    "machine": ("-a", "-g", "-e", "cpu-clock"),
    "events": ("-g", "-e", "cpu-clock", "-e", "task-clock", "-e", "syscalls:sys_enter_getppid"),
    "flat-events": ("-e", "cpu-clock", "-e", "task-clock"),
    "faults": ("-g", "-e", "page-faults:u"),
}
PERIODS = {"chains": "1000000", "flat": "1000000", "machine": "1000000", "faults": "10"}
NAMES = ("#pool", "9 lives", "{group}", "pool 5", "dead", "a [0] 1.5: x:", "two  (spaces)")
"""As in programs/sampled.c."""
EVERYWHERE = (
    (),
    ("-F", "+misc"),
    ("-F", "+pid"),
    ("-F", "+srcline"),
    ("-F", "+flags"),
    ("-F", "-comm"),
    ("-F", "-tid"),
    ("-F", "-time"),
    ("-F", "-event"),
    ("-F", "-period"),
    ("-F", "-dso"),
    ("-F", "-symoff"),
    ("-F", "comm,tid,time,event,period,ip,dso"),
    ("-F", "comm,pid,tid,time,event,ip,sym,dso"),
    ("-F", "comm,pid,time,period,event,ip,sym"),
    ("-F", "comm,tid,period,event,ip,sym,dso"),
    ("-F", "comm,tid,time,misc,event,ip,sym"),
    ("-F", "comm,time,event,ip,sym"),
    ("-F", "comm,event,ip,sym"),
    ("-F", "tid,time,event,period,ip,sym,dso"),
    ("-F", "pid,tid,time,period,event,ip,sym"),
    ("-F", "time,event,ip,sym,dso"),
    ("-F", "time,ip,sym"),
    ("-F", "event,period,ip,sym"),
    ("-F", "event,ip"),
    ("-F", "comm,time,period,ip,sym,dso"),
    ("-F", "tid,period,ip,sym"),
    ("-F", "comm,tid,ip,sym"),
    ("-F", "comm,period,ip"),
    ("-F", "comm,ip,sym,dso"),
    ("-F", "period,ip,sym"),
    ("-F", "ip,sym,dso"),
    ("-F", "ip"),
    ("--ns",),
    ("--reltime",),
    ("--header",),
    ("-G",),
    ("--show-task-events",),
    ("--show-mmap-events", "--show-task-events"),
    ("--show-switch-events", "--show-lost-events"),
    ("--no-inline", "-F", "+misc,+pid"),
)
SETS = [
    *(("chains", options) for options in EVERYWHERE),
    *(("flat", options) for options in EVERYWHERE[::6]),
    *(("machine", ("-F", f"cpu,{fields}")) for fields in ("comm,ip,sym", "tid,time,event,ip", "event,period,ip,sym")),
    *(("events", options) for options in ((), ("-F", "+misc"), ("-F", "-time"), ("-F", "-event"), ("-G",))),
    *(("flat-events", options) for options in ((), ("-F", "-tid"), ("-F", "-period"))),
    *(("faults", options) for options in ((), ("-F", "-period"), ("-F", "comm,event,period,ip,sym"))),
]
MORE_SETS = [
    (name, options)
    for name in ("flat", "machine", "events", "flat-events")
    for options in EVERYWHERE
    if (name, options) not in SETS and (name == "flat" or options != ("-F", "+srcline"))  # slow: a process per address
]


@pytest.fixture(scope="module")
def recorded(build, tmp_path_factory):
    """Return a function that records the program and returns perf's file."""
    program = build("sampled", "-O1", "-g", "-fno-omit-frame-pointer")
    folder = tmp_path_factory.mktemp("perf")

    @cache
    def record(name):
        data = folder / f"{name}.data"
        command = ["perf", "record", "-q", "-c", PERIODS.get(name, "100000"), "-o", data]
        done = subprocess.run([*command, *RECORDINGS[name], program], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"perf cannot record here: {done.stderr[-200:]}")
        assert f"threads {len(NAMES)}" in done.stdout
        return data

    return record


@cache
def reported(data, keys="sym"):
    """Return what perf report sums: for each event, samples and periods by key."""
    command = ["perf", "report", "-i", data, "--stdio", "--no-children", "-g", "none", "-t", "|"]
    text = subprocess.run(
        [*command, "-s", keys, "-F", f"period,sample,{keys}"], capture_output=True, text=True, check=True
    ).stdout
    found = {}
    for line in text.splitlines():
        if header := re.match(r"# Samples: \S+ +of event '(.*)'", line):
            samples, periods = found[header[1]] = Counter(), Counter()
        elif (cells := line.split("|", 2)) and len(cells) == 3 and not line.startswith("#"):
            key = re.sub(r"^\[.\] ", "", cells[2].strip())
            samples[key] += int(cells[1])
            periods[key] += int(cells[0])
    return found


def fields_of(options):
    """Return the fields that perf prints of a sample."""
    fields = {"comm", "tid", "time", "event", "period", "ip", "sym", "dso"}
    for word in options[options.index("-F") + 1].split(",") if "-F" in options else ():
        if word[0] not in "+-":
            return set(options[options.index("-F") + 1].split(","))
        fields = fields - {word[1:]} if word[0] == "-" else fields | {word[1:]}
    return fields


@pytest.mark.parametrize(
    ("name", "options"),
    [*SETS, *(pytest.param(*more, marks=pytest.mark.thorough) for more in MORE_SETS)],
    ids=lambda part: part if isinstance(part, str) else " ".join(part),
)
def test_totals_of_every_event_and_of_each_symbol_are_perf_reports(recorded, tmp_path, name, options):
    data, fields = recorded(name), fields_of(options)
    done = subprocess.run(["perf", "script", "-i", data, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this perf cannot print it: {done.stderr[-200:]}")
    path = tmp_path / "perf.txt"
    path.write_text(done.stdout)
    truth = reported(data)
    by_comm = reported(data, "comm")

    result = accel_magic.open(path)

    assert isinstance(result, ProfileResult)
    assert result.lost == 0
    assert not [note for note in result.profile.notes if "not understood" in note]
    every = [result.profile, *result.profile.others]
    if "event" not in fields:
        counted = {"": tuple(sum((each[place] for each in truth.values()), Counter()) for place in (0, 1))}
        comms = {"": sum((samples for samples, _ in by_comm.values()), Counter())}
    else:
        counted, comms = truth, {event: samples for event, (samples, _) in by_comm.items()}
    assert {profile.event for profile in every} == set(counted)
    for profile in every:
        samples, periods = counted[profile.event]
        # By default perf prints no period of a tracepoint.
        weighed = "period" in fields and not profile.event.startswith("syscalls:") and "-event" not in options[1:]
        weighed |= "-event" in options[1:] and name != "events"
        truth_of = periods if weighed else samples
        assert len(profile.samples) == samples.total()
        assert profile.total == truth_of.total()
        table = profile.frame_table().groupby("name")[[f"own_{profile.unit}", f"total_{profile.unit}"]].sum()
        if "sym" in fields:
            assert int(table[f"own_{profile.unit}"].get("add", 0)) == truth_of["add"]
        if "comm" in fields:
            totals = profile.frame_table().query("kind == 'process'").set_index("name")[f"total_{profile.unit}"]
            if not weighed:
                assert totals.to_dict() == dict(comms[profile.event])
            assert set(totals.index) == set(comms[profile.event])
        assert profile.timed == ("time" in fields)
    if "comm" in fields:
        assert set(NAMES) <= set(result.frames.query("kind == 'process'")["name"])
