"""The map of Level Zero calls: everything it names exists, and submission is described correctly for each kernel."""

from __future__ import annotations

import pytest

from accel_magic.npu_interface.level_zero import BY_NAME, CALLS, ENTRIES, HANDLERS
from accel_magic.probes import captures

DRM_HANDLERS = {
    "drm_gem_close_ioctl",
    "drm_gem_mmap",
    "drm_getcap",
    "drm_prime_fd_to_handle_ioctl",
    "drm_prime_handle_to_fd_ioctl",
    "drm_version",
}


def test_calls_are_unique_and_use_only_known_entries():
    assert len(BY_NAME) == len(CALLS)
    assert {entry for call in CALLS for entry in call.ever} <= set(ENTRIES)
    assert len(HANDLERS) == len(ENTRIES)


def test_functions_below_an_ioctl_exist_in_the_driver(driver_functions):
    known = {name.partition(".")[0] for functions in driver_functions.values() for name in functions}
    known |= {"ivpu_bo_pin", "dma_fence_init", "dma_fence_signaled", "dma_fence_wait_start", "dma_fence_wait_end"}

    for entry in ENTRIES.values():
        assert set(entry.below + entry.sometimes + entry.later) <= known
        assert entry.handler in known | DRM_HANDLERS


def test_functions_always_called_by_an_ioctl_exist_in_every_kernel_with_it(functions):
    known = {name.partition(".")[0] for name in functions} | {"dma_fence_init"}

    for entry in ENTRIES.values():
        if entry.handler in known:
            assert set(entry.below) <= known, entry.name


@pytest.mark.parametrize(("managed", "submit"), [(True, "CMDQ_SUBMIT"), (False, "SUBMIT")])
def test_work_is_submitted_by_the_kernels_ioctl(managed, submit):
    execute = BY_NAME["zeCommandQueueExecuteCommandLists"]

    assert execute.always(managed=managed) == (submit,)
    assert execute.ever >= {"SUBMIT", "CMDQ_SUBMIT"}
    assert BY_NAME["zeCommandQueueCreate"].always(managed=managed) == (("CMDQ_CREATE",) if managed else ())


def test_only_functions_of_the_loader_are_traced():
    for call in CALLS:
        assert call.traced == call.name.startswith("ze")
        assert call.traced or not call.captures


def test_column_names_do_not_conflict_with_those_of_other_events():
    columns = {capture.name for call in CALLS for capture in captures.parse(call.captures)}

    assert {name for name in columns if not name.startswith("ze_")} == {"size", "ptr", "lists"}
