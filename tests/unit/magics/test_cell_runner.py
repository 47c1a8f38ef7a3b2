"""A cell compiled as by IPython: values, line numbers, namespaces, and rejected code."""

import linecache
import traceback

import pytest
from IPython.core.interactiveshell import InteractiveShell

from accel_magic.errors import TraceStateError
from accel_magic.magics.cell_runner import compile_cell
from tests.support.errors import raises


@pytest.fixture(scope="module")
def shell():
    yield InteractiveShell.instance(colors="nocolor")
    InteractiveShell.clear_instance()


@pytest.fixture
def run(shell):
    def run_(cell, **names):
        namespace = {"get_ipython": shell.get_ipython, **names}
        return compile_cell(shell, "%%ktrace LINE\n", cell).run(namespace), namespace

    return run_


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1 + 1", 2),
        ("x = 3\nx * 2", 6),
        ("x = 3", None),
        ("", None),
        ("\n\n", None),
        ("# nothing", None),
        ("'text';", "text"),
        ("for i in range(3): pass", None),
        ("if True:\n    5", None),
    ],
)
def test_the_value_is_that_of_the_last_expression(run, cell, value):
    assert run(cell)[0] == value


def test_names_are_read_from_and_stored_in_the_namespace(run):
    value, namespace = run(
        "def double(x):\n    return factor * x\nresult = [double(i) for i in range(3)]\nresult", factor=2
    )

    assert value == [0, 2, 4]
    assert namespace["result"] == [0, 2, 4]
    assert namespace["double"](4) == 8


def test_magics_and_shell_commands_are_transformed(run):
    assert run("words = !echo one two\nlist(words)")[0] == ["one two"]


@pytest.mark.parametrize(("cell", "line"), [("1/0", 2), ("\n\n1/0", 4), ("x = 1\n\n\n1/0", 5), ("   \n\n  1/0", 4)])
def test_tracebacks_show_the_notebooks_line_numbers_and_source(run, cell, line):
    with pytest.raises(ZeroDivisionError) as caught:
        run(cell)

    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.lineno == line
    assert last.line == "1/0"
    assert linecache.getline(last.filename, 1) == "%%ktrace LINE\n"


def test_functions_defined_in_the_cell_keep_their_source(run):
    import inspect

    _, namespace = run("\ndef later():\n    return 7\n")

    assert inspect.getsource(namespace["later"]) == "def later():\n    return 7\n"


def test_a_syntax_error_has_the_notebooks_line(shell):
    with pytest.raises(SyntaxError) as caught:
        compile_cell(shell, "%%ktrace\n", "a = 1\nb = (")

    assert caught.value.lineno == 3


@pytest.mark.parametrize(
    "cell",
    [
        "await f()",
        "x = await f()\n1",
        "async with a: pass",
        "async for i in a: pass",
        "[i async for i in a]",
        "1\nawait f()",
    ],
)
def test_await_at_top_level_is_rejected_with_a_fix(shell, cell):
    with raises("line.top-level-await", TraceStateError) as caught:
        compile_cell(shell, "%%ktrace\n", cell)

    assert "accel_magic.trace" in caught.value.fix


def test_await_inside_a_function_is_allowed(run):
    assert run("async def f():\n    await g()\n5")[0] == 5


def test_future_statements_of_the_cell_work(run):
    _, namespace = run("from __future__ import annotations\ndef f(x: undefined): return x\nf(1)")
    assert namespace["f"].__annotations__ == {"x": "undefined"}


def test_the_shells_own_ast_transformers_apply(shell, run):
    import ast

    class Double(ast.NodeTransformer):
        def visit_Constant(self, node):
            return ast.copy_location(ast.Constant(node.value * 2), node)

    transformer = Double()
    shell.ast_transformers.append(transformer)
    try:
        assert run("21")[0] == 42
    finally:
        shell.ast_transformers.remove(transformer)


def test_interactivity_none_gives_no_value(shell, run):
    shell.ast_node_interactivity = "none"
    try:
        assert run("1 + 1")[0] is None
    finally:
        shell.ast_node_interactivity = "last_expr"
