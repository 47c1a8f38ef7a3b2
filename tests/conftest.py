"""What all tests share: thousands of them in one process would spend a part of their time on garbage collection."""

import gc
import os
import signal

import pytest

# A background job of a shell ignores interrupts, and so would this process and what it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what is only for a thorough run."""
    if os.environ.get("ACCEL_MAGIC_THOROUGH") == "1":
        return
    out = [item for item in items if item.get_closest_marker("thorough")]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


def pytest_collection_finish():
    """Leave what was imported and collected alone, and look at the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_unconfigure():
    """Let what was left alone be collected at the end."""
    gc.unfreeze()
