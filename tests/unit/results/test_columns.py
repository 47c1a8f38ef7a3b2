"""The name of every column with a time, a duration or a size ends in its unit."""

import re

import pandas as pd
import pytest

from accel_magic.analysis.frames import LEADING
from accel_magic.errors import MachineError, ResultError
from tests.unit.results.conftest import traced_gpu

pytestmark = pytest.mark.component

UNITS = re.compile(r"(^|_)(ns|bytes|cycles|samples|calls|percent|MHz|per_s|per_job)$")
WITHOUT = {
    # How many of something, or how often.
    "only_counted",
    *("hits", "lost", "count", "rate", "unfinished", "waits", "threads", "runs", "launches", "sites", "warps", "lanes"),
    *("requests", "sectors", "passes", "fewest", "split", "taken", "functions", "stretches", "processes", "repeats"),
    *("pages", "created", "freed", "left", "outlived", "kept", "single_use", "jobs", "ioctls", "failed", "intervals"),
    *(
        "only_counted",
        "in_flight",
        "in_flight_mean",
        "in_flight_max",
        "submitted",
        "done",
        "jobs_lost",
        "refused",
        "buffer_count",
    ),
    *("completions", "wait_timeouts", "active", "stalled", "control", "pipestall", "send", "dist_acc", "sbid", "sync"),
    *("inst_fetch", "other", "tdr", "total", "blocks", "exits", "mean_lanes", "priority", "per_request", "value"),
    *(
        "recorded",
        "most_in_flight",
        "executions",
        "inferences",
        "tasks",
        "yields",
        "faults",
        "layers",
        "during_inferences",
    ),
    *("callers", "streams", "streams_used", "flops"),
    *("prompt_tokens", "generated_tokens", "tokens_per_second", "prefill_inferences", "detokenizer_inferences"),
    *("depth", "ring_depth", "depth_max", "dependencies", "blocked", "timeouts", "timed_out"),
    # Numbers that name something: ids, places, addresses, lines.
    *(
        "pid",
        "pids",
        "tid",
        "cpu",
        "stack",
        "line",
        "kernel",
        "launch",
        "thread",
        "block",
        "warp",
        "lane",
        "sm",
        "slot",
    ),
    *("site", "stream", "module", "device_launch", "interval", "kernel_id", "offset", "address", "row", "id", "parent"),
    *("inside", "root", "job", "bo", "handle", "flags", "vpu_addr", "file", "context", "seqno", "job_id", "ctx_id"),
    *("engine", "cmdq_id", "code", "first_row", "last_row", "msg_type", "request_id", "instrumented", "in_poll"),
    *("generation", "token", "inference"),
    *("begun_before", "significant", "retval", "page", "client", "on", "access"),
    *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"),
    # Parts of a whole, and how many times the baseline.
    *("share", "ratio"),
}
"""Numbers without a unit. Add a name only if it is a count, an identifier, a share or a ratio."""
NEUTRAL = re.compile(r"(^|_)(share|ratio|ratio_low|ratio_high|significant|registers|occupancy)(_before|_after)?$")
PACKAGES = ("accel_magic.results", "accel_magic.result_bases", "accel_magic.analysis", "accel_magic.subsystems")
USERS = ("maps", "history", "rings")
"""Tables whose columns are defined by a user's program."""


def tables_of(thing, path=(), seen=None):
    """Yield every data frame reachable from a result through public names, with its path."""
    seen = set() if seen is None else seen
    if isinstance(thing, pd.DataFrame):
        yield path, thing
    elif isinstance(thing, dict):
        for name, part in thing.items():
            yield from tables_of(part, (*path, str(name)), seen)
    elif type(thing).__module__.startswith(PACKAGES) and id(thing) not in seen:
        seen.add(id(thing))
        for name in {*dir(type(thing)), *({*dir(thing)} - {*vars(thing)})}:  # not attributes set by __init__
            if not name.startswith("_") and name not in USERS and not callable(getattr(type(thing), name, None)):
                try:
                    part = getattr(thing, name)
                except (ResultError, MachineError):  # not available for this kind, or on this machine
                    continue
                yield from tables_of(part, (*path, name), seen)


def without_unit(path, table, users):
    """Yield numeric columns and index levels that lack a unit but need one."""
    columns = {str(name): table[name] for name in table.columns}
    columns |= {str(name): table.index.get_level_values(name).to_series() for name in table.index.names if name}
    for name, values in columns.items():
        numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        plain = name.removeprefix("baseline_")
        if not numeric or UNITS.search(plain) or NEUTRAL.search(plain) or plain in WITHOUT:
            continue
        if path[-1] in ("events", "df", "samples") and name in users:
            continue
        yield name


def unnamed(result, *more):
    recording = getattr(result, "recording", None)
    events = getattr(recording, "events", None)
    users = set(events.columns) - set(LEADING) if events is not None else set()
    found = dict(tables_of(result))
    for name, part in more:
        found |= dict(tables_of(part, (name,)))
    assert found
    return {path: names for path, table in found.items() if (names := list(without_unit(path, table, users)))}


def test_all_tables_are_found_and_columns_without_a_unit_are_detected(results):
    paths = {path for path, _ in tables_of(results["npu"])}

    assert {("events",), ("latency",), ("waits",), ("losses",), ("npu", "jobs"), ("npu", "api")} <= paths
    table = pd.DataFrame({"mean": [1.0], "size": [1], "time_s": [0.1], "p50_ns": [1], "rate_ratio": [1.0]})
    assert list(without_unit(("x",), table, set())) == ["mean", "size", "time_s"]


@pytest.mark.parametrize("name", ["trace", "npu", "flame", "launches", "sampled", "iaprof", "profile in bytes"])
def test_columns_of_a_result_name_their_unit(results, name):
    result = results[name]
    more = [("compare", result.compare(result))]
    if name == "flame":
        more += [("by_stack", result.trace.by_stack()), ("stacks", result.trace.stacks)]
    if name == "npu":
        more.append(("throughput", result.npu.throughput()))

    assert unnamed(result, *more) == {}


def test_columns_of_a_gpu_trace_name_their_unit(gpu):
    assert unnamed(gpu, ("compare", gpu.compare(gpu))) == {}
    assert unnamed(gpu, ("compare", gpu.compare(traced_gpu(3, ("kernelcount",))))) == {}


def test_durations_of_the_recorded_flame_are_in_columns_that_name_their_unit(results):
    """Check by value: numbers similar to the trace's duration must be times."""
    flame = results["flame"]
    whole, checked = flame.recording.duration_ns, 0
    for path, table in tables_of(flame):
        for name in table.select_dtypes("number").columns:
            largest = table[name].abs().max()
            if path[-1] not in ("events", "df") and not pd.isna(largest) and whole / 10 < largest < whole * 10:
                assert UNITS.search(str(name)), (path, name)
                checked += 1
    assert checked > 10
