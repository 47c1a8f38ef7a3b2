"""The presets `torch` and `steps`: their libraries are found, and what they attach to."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from accel_magic.errors import ProbeError
from accel_magic.probes import presets
from accel_magic.subsystems.steps import marks, torch
from tests.support.errors import raises
from tests.support.plans import make_plan

FUNCTIONS = {
    torch.MADE: {"work": "arg0", "operation": "arg3", "sequence": "arg4"},
    torch.ENQUEUED: {"group": "arg0", "work": "arg1"},
    torch.FINISHED: {"work": "arg0"},
    torch.FAILED: {"work": "arg0"},
    torch.GROUP_MADE: {"group": "arg0"},
    torch.GROUP_NAMED: {"group_name": "arg1"},
    torch.WAIT: {"work": "arg0"},
    torch.WAIT_FOR_ALL: {},
    torch.RECORDED: {"name": "arg1"},
}


@pytest.fixture
def pytorch(compiled, monkeypatch, tmp_path, kernel_root):
    """Install a package `torch` whose library exports these functions; this Python can import it."""

    def build(functions):
        text = "".join(f"int {function}v(void) {{ return 0; }}\n" for function in functions)
        built = compiled(text, torch.LIBRARY, "-shared", "-fPIC")
        package = tmp_path / "site" / "torch"
        (package / "lib").mkdir(parents=True)
        (package / "__init__.py").write_text("raise RuntimeError('imported')")
        built.rename(package / "lib" / torch.LIBRARY)
        monkeypatch.syspath_prepend(str(package.parent))
        monkeypatch.delitem(sys.modules, "torch", raising=False)
        return package / "lib" / torch.LIBRARY, kernel_root()

    return build


def test_functions_are_found_in_the_installed_pytorch_without_importing_it(pytorch):
    path, root = pytorch(FUNCTIONS)

    plan = make_plan(["torch"], root=root)

    found = {
        point.function.removesuffix("v"): {one.name: one.source for one in point.captures} for point in plan.points
    }
    assert found == FUNCTIONS
    assert {point.target for point in plan.points} == {str(path)}
    # Exceptions pass through these functions, and a return probe would end the process then.
    assert not any(point.latency for point in plan.points)
    assert (plan.skipped, plan.notes) == ((), ())


def test_without_pytorch_the_error_says_how_to_get_it(kernel_root, monkeypatch):
    lost = replace(torch.PRESET, places={torch.LIBRARY: lambda: None})
    monkeypatch.setattr(presets, "_sources", [lambda: {"torch": lost}])

    with raises("probe.no-library", ProbeError) as caught:
        make_plan(["torch"], root=kernel_root())

    assert caught.value.fix == torch.PRESET.install[torch.LIBRARY]


def test_steps_are_traced_in_a_process_that_has_not_loaded_the_library(kernel_root):
    (point,) = make_plan(["steps"], root=kernel_root()).points

    assert (point.kind, point.function) == ("usdt", "accel_magic:step")
    assert point.semaphore > 0
    assert point.target == str(presets.place_of(marks.LIBRARY))
    assert [(one.name, one.source, one.type) for one in point.captures] == [("step", "arg0", "s64")]
