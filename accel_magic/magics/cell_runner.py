"""Running the user's cell like `%%time`: same namespace, line numbers and last value."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel_magic.errors import TraceStateError

if TYPE_CHECKING:
    from types import CodeType


@dataclass(frozen=True)
class CompiledCell:
    """A compiled cell: its statements, and its last expression if it ends in one."""

    body: CodeType
    last: CodeType | None

    def run(self, namespace: dict[str, Any]) -> object:
        """Run it and return the value of the last expression."""
        __tracebackhide__ = True
        exec(self.body, namespace)  # noqa: S102 - the user's own cell
        return eval(self.last, namespace) if self.last is not None else None  # noqa: S307


def compile_cell(shell: Any, head: str, cell: str) -> CompiledCell:
    """Compile the cell below its magic lines, so that tracebacks show the notebook's line numbers and source.

    Args:
        shell: The IPython shell.
        head: Everything above the code, including the final newline.
        cell: The code.

    Raises:
        SyntaxError: As for any cell; nothing has been attached by then.
        TraceStateError: The cell awaits at top level.

    """
    # The magic lines come first; IPython removes empty lines after them.
    empty = cell[: len(cell) - len(cell.lstrip())].count("\n")
    source = "\n" * (head.count("\n") + empty) + shell.transform_cell(cell)
    name = _name_of_running_cell(shell) or shell.compile.cache(source, shell.execution_count)
    text = head + cell
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    tree = shell.transform_ast(ast.parse(source, name))
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and shell.ast_node_interactivity != "none":
        last = ast.Expression(tree.body.pop().value)
    flags = shell.compile.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    body_code = compile(tree, name, "exec", flags=flags, dont_inherit=True)
    last_code = compile(last, name, "eval", flags=flags, dont_inherit=True) if last is not None else None
    if any(code is not None and code.co_flags & inspect.CO_COROUTINE for code in (body_code, last_code)):
        raise TraceStateError(
            "a traced cell cannot use await at top level",
            why="the notebook's event loop is busy running the magic itself",
            fix="trace inside the cell instead: `with accel_magic.trace(...) as t: await ...`, then `t.result`",
            code="line.top-level-await",
        )
    return CompiledCell(body_code, last_code)


def _name_of_running_cell(shell: Any) -> str | None:
    """The file name that IPython gave to the running cell: tracebacks of its traced body use it too."""
    frame = sys._getframe()  # noqa: SLF001 - the documented way to reach a caller
    while frame is not None:
        if frame.f_globals is shell.user_global_ns and frame.f_code.co_name == "<module>":
            return frame.f_code.co_filename
        frame = frame.f_back  # type: ignore[assignment]
    return None
