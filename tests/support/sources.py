"""Syntax trees of source files, each parsed once per process."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import accel_magic

PACKAGE = Path(accel_magic.__file__).parent


@functools.cache
def tree(path):
    """The syntax tree of a file; nobody changes it."""
    return ast.parse(path.read_text("utf-8"))


def nodes(path):
    """All nodes of a file's tree."""
    return walked(tree(path))


@functools.cache
def walked(root):
    """All nodes of a tree, which take longer to find than to look at."""
    return tuple(ast.walk(root))


@functools.cache
def modules():
    """The Python files of the package, sorted."""
    return tuple(sorted(PACKAGE.rglob("*.py")))
