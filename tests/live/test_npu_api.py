"""The preset's part `npu:api` with a mock Level Zero loader: columns have the caller's arguments and results."""

import ctypes
import subprocess

import pytest

import accel_magic
from accel_magic.npu_interface.level_zero import CALLS

# The parameters are those of the Level Zero specification; handles are pointers.
SOURCE = """
#include <stddef.h>
#include <stdint.h>

#define CALL(name, ...) __attribute__((noinline)) int name(__VA_ARGS__)
#define MADE(where) do { *(where) = (void *)(uintptr_t)++made; } while (0)

static volatile uintptr_t made = 0x7000;

CALL(zeContextCreate, void *driver, const void *desc, void **context) { MADE(context); return 0; }
CALL(zeMemAllocHost, void *context, const void *desc, size_t size, size_t alignment, void **p) { MADE(p); return 0; }
CALL(zeMemAllocDevice, void *context, const void *desc, size_t size, size_t alignment, void *device, void **p)
{ MADE(p); return 0; }
CALL(zeMemAllocShared, void *context, const void *desc, const void *host, size_t size, size_t alignment, void *device,
     void **p) { MADE(p); return 0; }
CALL(zeMemFree, void *context, void *p) { made++; return 0; }
CALL(zeCommandListCreate, void *context, void *device, const void *desc, void **list) { MADE(list); return 0; }
CALL(zeCommandListAppendMemoryCopy, void *list, void *to, const void *from, size_t size, void *event, uint32_t events,
     void **wait) { made++; return 0; }
CALL(zeCommandListAppendMemoryFill, void *list, void *to, const void *pattern, size_t each, size_t size, void *event,
     uint32_t events, void **wait) { made++; return 0; }
CALL(zeCommandQueueCreate, void *context, void *device, const void *desc, void **queue) { MADE(queue); return 0; }
CALL(zeCommandQueueExecuteCommandLists, void *queue, uint32_t count, void **lists, void *fence) { made++; return 0; }
CALL(zeFenceCreate, void *queue, const void *desc, void **fence) { MADE(fence); return 0; }
CALL(zeFenceHostSynchronize, void *fence, uint64_t timeout) { made++; return 1; }
CALL(zeEventPoolCreate, void *context, const void *desc, uint32_t devices, void **device, void **pool)
{ MADE(pool); return 0; }
CALL(zeEventCreate, void *pool, const void *desc, void **event) { MADE(event); return 0; }
CALL(zeEventHostSynchronize, void *event, uint64_t timeout) { made++; return 0; }
CALL(zeDriverGetExtensionFunctionAddress, void *driver, const char *name, void **function)
{ made += name[0]; MADE(function); return 0; }

void *run(void)
{
	void *context, *host, *device, *shared, *list, *queue, *fence, *pool, *event, *function;
	void *const driver = (void *)0x11, *const npu = (void *)0x12;

	zeDriverGetExtensionFunctionAddress(driver, "ZE_extension_graph", &function);
	zeContextCreate(driver, NULL, &context);
	zeMemAllocHost(context, NULL, 1001, 64, &host);
	zeMemAllocDevice(context, NULL, 1002, 64, npu, &device);
	zeMemAllocShared(context, NULL, NULL, 1003, 64, npu, &shared);
	zeCommandListCreate(context, npu, NULL, &list);
	zeCommandListAppendMemoryCopy(list, device, host, 1004, NULL, 0, NULL);
	zeCommandListAppendMemoryFill(list, device, host, 8, 1005, NULL, 0, NULL);
	zeCommandQueueCreate(context, npu, NULL, &queue);
	zeFenceCreate(queue, NULL, &fence);
	zeCommandQueueExecuteCommandLists(queue, 3, &list, fence);
	zeFenceHostSynchronize(fence, UINT64_MAX);
	zeEventPoolCreate(context, NULL, 0, NULL, &pool);
	zeEventCreate(pool, NULL, &event);
	zeEventHostSynchronize(event, 77);
	zeMemFree(context, host);
	static void *all[9];
	all[0] = context, all[1] = host, all[2] = device, all[3] = list, all[4] = queue, all[5] = fence, all[6] = pool;
	all[7] = event, all[8] = shared;
	return all;
}
"""


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
