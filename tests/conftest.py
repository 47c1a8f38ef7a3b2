"""What all tests share: thousands of them in one process would spend a part of their time on garbage collection."""

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

THOROUGH = os.environ.get("ACCEL_MAGIC_THOROUGH") == "1"

# How many examples generated tests try; none has a deadline, because the machine may be busy.
_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile("plain", max_examples=30, deadline=None, suppress_health_check=_CHECKS)
settings.register_profile("thorough", max_examples=400, deadline=None, suppress_health_check=_CHECKS)
settings.load_profile("thorough" if THOROUGH else "plain")

# A background job of a shell ignores interrupts, and so would this process and what it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what is only for a thorough run."""
    if THOROUGH:
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


@pytest.fixture
def only_new_garbage():
    """Let `gc.collect` look only at what the test makes: after thousands of tests the rest takes seconds each time."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """Let what was left alone be collected at the end."""
    gc.unfreeze()
