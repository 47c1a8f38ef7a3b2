"""Tests and benchmarks that name files, modules or codes as text fail when these are gone."""

import ast
import functools
import importlib
import re
from pathlib import Path

import pytest

import accel_magic
from tests.support import sources as files
from tests.support.paths import ROOT

FOLDERS = ("accel_magic", "tests", "benchmarks", "docs", "notebooks")
FILE = re.compile(rf"(?<![\w./{{}}-])(?:{'|'.join(FOLDERS)})/[\w./-]+\.(?:py|c|h|md|ipynb|toml)\b")
MADE_UP = re.compile(r"accel_magic/(\{\}[\w/]*|[\w/]*\{\}\w*)\.py\b")
MODULE = re.compile(r"accel_magic(\.\w+)+")
ELSEWHERE = {"accel_magic/bpf/", "accel_magic/workshop/material/"}
"""Folders that only a wheel has."""
VALUES = {"accel_magic.last"}
"""Names that exist only once something has been traced."""


@functools.cache
def sources():
    """The syntax trees of all other tests and benchmarks by path."""
    paths = {*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")} - {Path(__file__)}
    return {path.relative_to(ROOT): files.tree(path) for path in sorted(paths)}


def texts(tree):
    """Yield the texts in a syntax tree with their lines; formatted values are `{}`."""
    for node in files.walked(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)


def exists(name):
    """Whether a dotted name is a module of the package, or something in one."""
    if name in VALUES:
        return True
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        try:
            functools.reduce(getattr, parts[count:], found)
        except AttributeError:
            return False
        return True
    return False


@functools.cache
def named():
    """Each text of a test or benchmark that is a dotted name of the package: `{name: [places]}`."""
    found = {}
    for path, tree in sources().items():
        for line, text in texts(tree):
            if MODULE.fullmatch(text):
                found.setdefault(text, []).append(f"{path}:{line}")
    return found


def test_every_file_that_a_test_names_exists():
    found = [
        (f"{path}:{line}", name)
        for path, tree in sources().items()
        for line, text in texts(tree)
        for name in FILE.findall(text)
        if not name.startswith(tuple(ELSEWHERE))
    ]

    assert len(found) > 25
    assert [(place, name) for place, name in found if not (ROOT / name).exists()] == []


def test_no_test_makes_up_names_of_the_packages_files():
    """`module.__file__` is the file of a module, and fails to import if that is gone."""
    assert [
        (f"{path}:{line}", text)
        for path, tree in sources().items()
        for line, text in texts(tree)
        if MADE_UP.search(text)
    ] == []


def test_every_name_of_the_package_that_a_test_writes_as_text_exists():
    assert len(named()) > 30
    assert {name: places for name, places in named().items() if not exists(name)} == {}


def calls(tree, name):
    """Yield the calls of a function or method with this name."""
    for node in files.walked(tree):
        if isinstance(node, ast.Call) and name in (getattr(node.func, "attr", ""), getattr(node.func, "id", "")):
            yield node


def test_no_test_is_skipped_if_a_module_of_the_package_is_missing():
    skips = [(path, call) for path, tree in sources().items() for call in calls(tree, pytest.importorskip.__name__)]
    needed = [(path, call.lineno, ast.unparse(call.args[0])) for path, call in skips]

    assert len(needed) > 20
    assert [one for one in needed if accel_magic.__name__ in one[2]] == []


def repeated(function):
    """Yield the lines that check the code of an error which `raises` has checked."""
    caught = {
        item.optional_vars.id
        for node in ast.walk(function)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and list(calls(item.context_expr, "raises"))
        if isinstance(item.context_expr.func, ast.Name)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            checked = {ast.unparse(part) for part in ast.walk(node.test) if isinstance(part, ast.Attribute)}
            if checked & {f"{name}.value.code" for name in caught}:
                yield node.lineno


def test_no_test_checks_a_code_that_raises_has_checked():
    assert [
        f"{path}:{line}"
        for path, tree in sources().items()
        for function in files.walked(tree)
        if isinstance(function, ast.FunctionDef)
        for line in repeated(function)
    ] == []


def test_what_is_gone_is_found():
    """The checks above, on a test that names things that do not exist."""
    tree = ast.parse(
        "def test():\n"
        "    'accel_magic/block.py', f'accel_magic/{name}.py', 'accel_magic.api.block.Gone'\n"
        "    with raises('a.b') as caught: pass\n"
        "    assert caught.value.code == 'a.b'\n"
    )
    found = [text for _, text in texts(tree)]

    assert not (ROOT / FILE.findall(found[0])[0]).exists()
    assert any(map(MADE_UP.search, found))
    assert not exists("accel_magic.api.block.Gone")
    assert exists("accel_magic.api.block.Block")
    assert list(repeated(tree.body[0])) == [4]
    assert Path(accel_magic.__file__).is_relative_to(ROOT)
