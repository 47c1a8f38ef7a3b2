"""Generic packages name no subject of traces: what is about one is in its folder of `accel_magic/subsystems`.

The names are those of the subsystems, their presets and their drivers. Docstrings and comments may have them.
"""

import ast
import functools
import re

import pytest

from accel_magic import subsystems
from tests.support import sources
from tests.support.sources import PACKAGE

GENERIC = ("analysis", "api", "broker", "engine", "kernel", "probes", "recording", "result_bases", "results", "views")
ALSO = {"ivpu"}
"""Names that no registered subsystem, preset or driver has, alone."""
OF_OTHER_ROOMS = {
    "cuda": "`devices/cuda` is a room below, and a value of `--device`",
    "opencl": "`devices/opencl` is a room below, and a value of `--device`",
    "steps": "an English word; also the steps of a replay and of `range`",
}
EXAMPLE = "an example of the probe language, or of a line to try"
EXCEPTIONS = {
    ("analysis/gpu/host_checks.py", "torch"): EXAMPLE,
    ("api/doctor/uses.py", "npu"): "the name of the lab's kernel, and what is in it",
    ("api/flame_options.py", "iaprof"): "help of the public options that it reads",
    ("api/flame_options.py", "xe"): "the public option of this name",
    ("api/gpu_options.py", "host_api"): "the public option of this name",
    ("api/gpu_recording.py", "host_api"): "a GPU recording has the calls of one provider, by type",
    ("api/gpu_options.py", "nvidia"): EXAMPLE,
    ("api/gputrace.py", "host_api"): "the public option of this name",
    ("api/option_fixes.py", "nvidia"): "what users write instead of `--device cuda`",
    ("api/options.py", "intel_vpu"): EXAMPLE,
    ("api/options.py", "ivpu"): EXAMPLE,
    ("kernel/features.py", "npu"): EXAMPLE,
    ("kernel/features.py", "openvino"): EXAMPLE,
    ("probes/grammar.py", "intel_vpu"): EXAMPLE,
    ("probes/grammar.py", "ivpu"): EXAMPLE,
    ("recording/stored_layout.py", "openvino"): "reads the layers in files without `observed`",
    ("results/driver_result.py", "nvidia"): EXAMPLE,
}
"""Files with a name that they may have, and why. One that no longer has it is an error: remove it here then."""


@functools.cache
def names():
    """All names of subjects, in the spelling of `words`."""
    found = {*ALSO}
    for subsystem in subsystems.registered().values():
        found |= {subsystem.name, *(preset.name for preset in subsystem.presets)}
        found |= {driver.module for driver in subsystem.drivers}
    return found - OF_OTHER_ROOMS.keys()


def texts(tree):
    """Identifiers, names of modules and texts of a module's code, without docstrings."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in documentation:
                yield text
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text):
                yield text
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
                yield text
            case ast.keyword(arg=str(text)):
                yield text
            case ast.ImportFrom(module=str(text)):
                yield text
            case ast.alias(name=text):
                yield text


@functools.cache
def words(text):
    """The words of a text or an identifier, lower case; names of several words as they are, too."""
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text.replace("OpenVINO", "openvino").replace("OpenVino", "openvino"))
    return {*re.findall(r"[a-z0-9]+", parts.lower()), *re.findall(r"[a-z0-9_]+", text.lower())}


def found_in(place, tree):
    """The names in the code of a file, as (its place in the package, name)."""
    return {(place, name) for part in texts(tree) for name in words(part) & names()}


def test_generic_packages_name_no_subject():
    found = set()
    for room in GENERIC:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            found |= found_in(path.relative_to(PACKAGE).as_posix(), sources.tree(path))

    assert found - EXCEPTIONS.keys() == set()
    assert EXCEPTIONS.keys() - found == set(), "these exceptions are not needed any more"


def test_the_names_are_those_of_all_subjects():
    assert names() >= {"npu", "openvino", "drm", "host_api", "xe", "i915", "amdgpu", "intel_vpu", "hip", "torch"}


@pytest.mark.parametrize(
    "code",
    [
        "import accel_magic.subsystems.npu",
        "from accel_magic.subsystems import drm",
        "def is_npu(): pass",
        "class NpuTables: pass",
        "x = 'kprobe:intel_vpu:*'",
        "x.openvino",
        "f(xe=1)",
        "def f(amdgpu): pass",
        "class OpenVinoTrace: pass",
    ],
)
def test_a_name_is_found_wherever_it_is_in_code(code):
    assert found_in("a.py", ast.parse(code))


@pytest.mark.parametrize("code", ["'''npu'''", "def f():\n    '''npu'''", "x = 'input'", "# npu\nx = 1", "xen = index"])
def test_documentation_and_other_words_are_not_names(code):
    assert found_in("a.py", ast.parse(code)) == set()
