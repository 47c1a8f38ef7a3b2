"""Every error has a code, all codes have the same form, and the pages docs/errors*.md list them all."""

import ast
import functools
import re
from collections import Counter

import pytest

from accel_magic import errors
from accel_magic.errors import AccelMagicError
from accel_magic.gpu.verifier import blocks, budget, findings, simt
from accel_magic.result_bases import profile
from accel_magic.results import flame_result, gpu_result, program_result, trace_result
from accel_magic.subsystems.iaprof import result
from tests.support import sources
from tests.support.sources import PACKAGE

SHOWN = re.compile(r"^\| `([^`]+)` \| .+ \|$", re.MULTILINE)
FORM = re.compile(r"[a-z]+(\.[a-z0-9-]+)+")


@functools.cache
def modules():
    return {path: sources.tree(path) for path in sources.modules()}


def name_of(node):
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def subclasses(base):
    """Names of this class and all its subclasses."""
    bases = {
        node.name: {name_of(base) for base in node.bases}
        for tree in modules().values()
        for node in sources.walked(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {base.__name__}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def values(node):
    """Possible codes of an expression, with `{}` in place of formatted values."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, ast.JoinedStr):
        return {"".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)}
    return {value for child in ast.iter_child_nodes(node) for value in values(child) if "." in value}


def assigned(target, value):
    """Pairs of target and value of an assignment."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=False))
    return [(target, value)]


def stated(node):
    """Yield the expressions for codes directly in this node."""
    if isinstance(node, ast.Call) and not name_of(node.func).startswith("CustomJS"):
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "code")
        if name_of(node.func) == "Refused":
            yield node.args[0]
    elif isinstance(node, ast.FunctionDef):
        both = node.args
        named = [*both.posonlyargs, *both.args]
        defaults = [*zip(named[len(named) - len(both.defaults) :], both.defaults, strict=True)]
        defaults += [*zip(both.kwonlyargs, both.kw_defaults, strict=True)]
        yield from (value for argument, value in defaults if argument.arg == "code" and value is not None)
    elif isinstance(node, ast.Dict):
        yield from (
            value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and key.value == "code" and not isinstance(value, ast.Attribute)
        )
    elif isinstance(node, ast.Assign):
        yield from (
            value
            for target in node.targets
            for name, value in assigned(target, node.value)
            if name_of(name) == "code" and isinstance(value, ast.Constant) and "." in str(value.value)
        )


@functools.cache
def codes():
    """Find every code in the sources."""
    return {
        value
        for tree in modules().values()
        for node in sources.walked(tree)
        for expression in stated(node)
        for value in values(expression)
    }


FILLED_IN = {
    "flame.{}": {"interval", "eu-stall-subsample"},
    "result.no-{}": {
        word.replace("_", "-")
        for module in (flame_result, gpu_result, result, profile, program_result, trace_result)
        for kind in vars(module).values()
        for word in getattr(kind, "LACKS", ())
    },
}
"""Possible values for the braces."""


def all_codes():
    templates = {code for code in codes() if "{}" in code}
    assert templates == set(FILLED_IN), "a code contains a formatted value: add its possible values to FILLED_IN"
    filled = {code.replace("{}", word) for code in templates for word in FILLED_IN[code]}
    rules = {*findings.RULES, *simt.RULES, *(rule.id for rule in (budget.INSTRUCTIONS, budget.STACK, budget.MEMORY))}
    rules.add(blocks.THREAD_HELPER.id)
    return codes() - templates | filled | {f"gpu.verifier.{rule}" for rule in rules}


def test_an_error_requires_a_code():
    with pytest.raises(TypeError, match="code"):
        AccelMagicError("it is wrong")

    assert errors.ProbeError("it is wrong", code="probe.wrong").code == "probe.wrong"


def test_every_error_of_the_package_is_created_with_a_code():
    kinds = subclasses(AccelMagicError)
    own_code = {"IoctlError", "DriverError", "PolicyRefusedError"}
    without = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path, tree in modules().items()
        for node in sources.walked(tree)
        if isinstance(node, ast.Call)
        and name_of(node.func) in kinds - own_code
        and not {"code", None} & {keyword.arg for keyword in node.keywords}
    ]

    assert kinds > own_code
    assert len(kinds) >= 12
    assert without == []


def test_codes_consist_of_an_area_and_a_reason():
    found = all_codes()

    assert len(found) > 200
    assert [code for code in sorted(found) if not FORM.fullmatch(code)] == []


def test_the_documentation_lists_exactly_the_existing_codes():
    pages = sorted((PACKAGE.parent / "docs").glob("errors*.md"))
    listed = Counter(code for page in pages for code in SHOWN.findall(page.read_text(encoding="utf-8")))

    assert len(pages) == 3

    assert [code for code, times in listed.items() if times > 1] == []
    assert sorted(all_codes() - set(listed)) == []
    assert sorted(set(listed) - all_codes()) == []
