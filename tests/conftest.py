"""Fixtures and settings for all tests, including less frequent garbage collection for long runs."""

import ctypes
import gc
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

import accel_magic.subsystems  # noqa: F401 - it provides the presets
from tests.support import environment
from tests.support.thorough import THOROUGH

environment.own()

pytest_plugins = [
    "tests.support.any_profile",
    "tests.support.flame_recordings",
    "tests.support.iaprof_sample",
    "tests.support.kernel_root",
    "tests.support.ptx_kernels",
    "tests.support.traced",
]

# Number of examples in generated tests; without deadlines, because the machine may be busy.
_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile("plain", max_examples=12, deadline=None, suppress_health_check=_CHECKS)
settings.register_profile("thorough", max_examples=400, deadline=None, suppress_health_check=_CHECKS)
settings.load_profile("thorough" if THOROUGH else "plain")

# A background job of a shell ignores SIGINT, and so would this process and its children.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Deselect tests marked `thorough`, except in thorough runs."""
    if THOROUGH:
        return
    out = [item for item in items if item.get_closest_marker("thorough")]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


def pytest_collection_finish():
    """Freeze imported and collected objects, and collect garbage less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


class _SignalStack(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]


def pytest_runtest_setup():
    """Let signals do in each test what they do in a new process.

    OpenVINO can leave a stack for signal handlers set that it has unmapped, if two `Core`s have compiled models, or
    another thread deletes one: then a signal ends the process. An interrupt in hypothesis's callback for the garbage
    collector is lost.
    """
    for callback in list(gc.callbacks):
        if (getattr(callback, "__module__", None) or "").startswith("hypothesis."):
            gc.callbacks.remove(callback)
    if "openvino" in sys.modules:
        disabled = _SignalStack(flags=2)  # SS_DISABLE
        assert ctypes.CDLL(None).sigaltstack(ctypes.byref(disabled), None) == 0


@pytest.fixture
def only_new_garbage():
    """Freeze existing objects so that `gc.collect` is fast: after thousands of tests it would take seconds."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish():
    """Save what coverage.py has measured: pytest-xdist kills its workers when they take long to exit."""
    coverage = sys.modules.get("coverage")
    if coverage is not None and (current := coverage.Coverage.current()) is not None:
        current.stop()
        current.save()


def pytest_unconfigure():
    """Unfreeze all objects at the end."""
    gc.unfreeze()
