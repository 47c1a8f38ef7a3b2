"""The preset's part `npu:api` with a mock Level Zero loader: columns have the caller's arguments and results."""

import ctypes
import subprocess
from pathlib import Path

import pytest

import accel_magic
from accel_magic.npu_interface.level_zero import CALLS

# The parameters are those of the Level Zero specification; handles are pointers.
SOURCE = (Path(__file__).parent / "programs" / "loader.c").read_text("utf-8")


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Events of one run by function, and what the calls made."""
    folder = tmp_path_factory.mktemp("loader")
    (folder / "loader.c").write_text(SOURCE)
    library = folder / "libze_loader.so.1"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, folder / "loader.c"], check=True)
    code = ctypes.CDLL(str(library))
    code.run.restype = ctypes.POINTER(ctypes.c_uint64)
    with accel_magic.trace("npu:api") as t:
        all_ = code.run()
    names = ("context", "host", "device", "list", "queue", "fence", "pool", "event", "shared")
    events = t.result.events.set_index("function")
    return t.result, events, dict(zip(names, all_[: len(names)], strict=True))


def test_each_loader_call_is_timed_once_and_missing_calls_are_not_reported(traced):
    result, events, _ = traced

    assert len(events) == 16
    assert events.index.is_unique
    assert events["duration_ns"].notna().all()
    assert set(events["probe"]) == {"npu:api"}
    assert set(events.index) <= {call.name for call in CALLS if call.traced}
    assert result.plan.skipped == ()


@pytest.mark.parametrize(
    ("function", "column", "value"),
    [
        ("zeMemAllocHost", "size", 1001),
        ("zeMemAllocDevice", "size", 1002),
        ("zeMemAllocShared", "size", 1003),
        ("zeCommandListAppendMemoryCopy", "size", 1004),
        ("zeCommandListAppendMemoryFill", "size", 1005),
        ("zeCommandQueueExecuteCommandLists", "lists", 3),
        ("zeFenceHostSynchronize", "ze_timeout_ns", 2**64 - 1),
        ("zeEventHostSynchronize", "ze_timeout_ns", 77),
        ("zeDriverGetExtensionFunctionAddress", "ze_name", "ZE_extension_graph"),
        ("zeFenceHostSynchronize", "retval", 1),
    ],
)
def test_a_calls_arguments_are_its_columns(traced, function, column, value):
    _, events, _ = traced

    assert events.loc[function, column] == value


@pytest.mark.parametrize(
    ("functions", "column", "what"),
    [
        (["zeContextCreate"], "ze_context", "context"),
        (["zeMemAllocHost", "zeMemFree"], "ptr", "host"),
        (["zeMemAllocDevice"], "ptr", "device"),
        (["zeMemAllocShared"], "ptr", "shared"),
        (
            ["zeCommandListCreate", "zeCommandListAppendMemoryCopy", "zeCommandListAppendMemoryFill"],
            "ze_list",
            "list",
        ),
        (["zeCommandQueueCreate", "zeFenceCreate", "zeCommandQueueExecuteCommandLists"], "ze_queue", "queue"),
        (["zeFenceCreate", "zeCommandQueueExecuteCommandLists", "zeFenceHostSynchronize"], "ze_fence", "fence"),
        (["zeEventPoolCreate"], "ze_event_pool", "pool"),
        (["zeEventCreate", "zeEventHostSynchronize"], "ze_event", "event"),
    ],
)
def test_an_object_is_followed_from_the_call_that_created_it(traced, functions, column, what):
    _, events, made = traced

    assert made[what] > 0x7000
    assert [events.loc[function, column] for function in functions] == [made[what]] * len(functions)
