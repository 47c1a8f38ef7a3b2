"""The presets `opencl` and `hip`, on libraries that export the same functions."""

from __future__ import annotations

import pytest

from accel_magic.errors import ProbeError
from accel_magic.probes import libraries, presets
from accel_magic.subsystems.host_api import hip, opencl
from tests.support.errors import raises
from tests.support.plans import make_plan

FILES = {"opencl": ("libOpenCL.so.1", opencl), "hip": ("libamdhip64.so.6", hip)}


@pytest.fixture
def library(compiled, monkeypatch, kernel_root):
    """Build the library of a preset with some functions; it is found as the loader does."""

    def build(name, functions):
        text = "".join(f"int {function}(void) {{ return 0; }}\n" for function in functions)
        path = compiled(text, FILES[name][0], "-shared", "-fPIC")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(path.parent))
        return kernel_root()

    return build


@pytest.mark.parametrize("name", FILES)
def test_all_calls_are_measured_by_category(library, name):
    calls = FILES[name][1].CALLS
    root = library(name, [function for functions in calls.values() for function in functions])

    points = make_plan([name], root=root).points

    assert {(point.probe, point.function) for point in points} == {
        (f"{name}:{kind}", function) for kind, functions in calls.items() for function in functions
    }
    assert all(point.kind == "uprobe" and point.latency for point in points)
    assert {str(point.scope) for point in points} == {"self"}


@pytest.mark.parametrize(("name", "only"), [("opencl", "clFinish"), ("hip", "hipMalloc")])
def test_a_library_with_few_of_the_calls_is_traced_without_complaint(library, name, only):
    plan = make_plan([name], root=library(name, [only]))

    assert [point.function for point in plan.points] == [only]
    assert plan.skipped == ()


@pytest.mark.parametrize("name", FILES)
def test_without_the_library_the_error_says_how_to_get_it(name, kernel_root, monkeypatch):
    monkeypatch.setattr(libraries, "_from_loader", lambda _name: None)  # it may be installed here
    with raises("probe.no-library", ProbeError) as caught:
        make_plan([name], root=kernel_root())

    assert caught.value.fix == presets.how_to_install(FILES[name][1].LIBRARY)


def test_launches_and_transfers_have_their_sizes(library):
    functions = [function for calls in hip.CALLS.values() for function in calls]
    points = {point.function: point for point in make_plan(["hip"], root=library("hip", functions)).points}

    assert {one.name for one in points["hipModuleLaunchKernel"].captures} >= {"grid_x", "block_z", "stream"}
    assert {one.name: one.source for one in points["hipMemcpyAsync"].captures} == {
        "bytes": "arg2",
        "kind": "arg3",
        "stream": "arg4",
    }
    made = {one.name: one for one in points["hipMalloc"].captures}
    assert made["address"].at_return
