"""What the magics that trace a cell share: attaching around it, running it, handing its result over, playing back."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics
from IPython.display import display
from traitlets import Bool, Unicode
from traitlets.config import Configurable

from accel_magic.block import add_note
from accel_magic.errors import ProbeError, typed_shortage
from accel_magic.magics.cell import compile_cell
from accel_magic.magics.line import HelpRequested
from accel_magic.player import Player
from accel_magic.views import ahead

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.block import Steps
    from accel_magic.magics.cell import Cell
    from accel_magic.magics.line import Common


def in_kernel(shell: Any) -> bool:
    """Whether outputs go to a notebook front end, which can update them."""
    return getattr(shell, "kernel", None) is not None


@dataclass(frozen=True)
class Request:
    """What the user wrote: the magic's name, its line, the cell's code ('' for a line magic), the common options."""

    magic: str
    line: str
    cell: str
    common: Common


@dataclass(frozen=True)
class Ran:
    """How a cell went: its value, what it raised, and what came or failed while its trace was ended."""

    value: object
    error: BaseException | None
    came: BaseException | None


class TracedCells(Magics, Configurable):
    """Base of the magics that trace a cell.

    What they trace with is a Block, of which they call prepare, attach, go, stop and abort; a Player has these too.
    """

    live = Bool(True, help="show live counters in a notebook").tag(config=True)
    replay = Unicode("", help="play this recording instead of tracing; {output} in it is the name after -o").tag(
        config=True
    )

    shell: Any

    def read(
        self, magic: str, parse: Callable[[str], Any], line: str, cell: str | None
    ) -> tuple[Any, Request, bool] | None:
        """Parse a line; returns it, the request, and whether a live row is wanted; None after `--help`.

        Args:
            magic: The magic's name.
            parse: Gives a value with the common options as `common`.
            line: As it was written.
            cell: The cell's code; None of a line magic.

        Raises:
            ProbeError: A mistake on the line, or a line magic that would have to trace.

        """
        try:
            chosen = parse(line)
        except HelpRequested as help_text:
            print(help_text)
            return None
        common = chosen.common
        code = body_of(magic, cell, common)
        live = in_kernel(self.shell) and (self.live if common.live is None else common.live)
        if self.replay and common.replay is None:
            suffix = f"-{common.output}" if common.output else ""
            common = replace(common, replay=self.replay.replace("{output}", suffix))
        return chosen, Request(magic, line, code, common), live

    def trace_cell(self, request: Request, trace: Steps[Any], make_row: Callable[[Any], Any] | None) -> object:
        """Trace the cell and return the result.

        Args:
            request: What was written.
            trace: What to trace with.
            make_row: Makes the live row of what `trace.prepare` returns; None for no row.

        """
        __tracebackhide__ = True
        code = compile_cell(self.shell, request.magic, request.line, request.cell)
        return self._run(request, trace, make_row, code)

    def play_back(self, request: Request, player: Player[Any, Any], make_row: Callable[[Any], Any] | None) -> object:
        """Play a recording back; the cell's code runs only where that was asked for. Arguments as of `trace_cell`."""
        __tracebackhide__ = True
        if request.common.run:
            return self.trace_cell(request, player, make_row)
        return self._run(request, player, make_row, None)

    def _run(
        self, request: Request, steps: Steps[Any], make_row: Callable[[Any], Any] | None, code: Cell | None
    ) -> object:
        __tracebackhide__ = True
        name = request.common.output
        with contextlib.ExitStack() as undo:
            undo.callback(steps.abort)  # an interrupt may come between attaching and the cell
            if name is not None:
                steps.on_result = lambda result: self.shell.user_ns.update({name: result})
            attach(undo, steps, make_row)
            ran = run_cell(code, self.shell.user_ns, steps)
        return self._hand_over(steps, ran, request)

    def _hand_over(self, steps: Steps[Any], ran: Ran, request: Request) -> object:
        """Show the cell's own value and return the result; after an error show the partial result and raise."""
        __tracebackhide__ = True
        quiet = self.shell.displayhook.semicolon_at_end_of_expression(request.cell)
        raised = ran.came if ran.error is None else ran.error
        if ran.value is not None and not quiet:
            display(ran.value)
        if raised is None:
            return steps.result
        if steps.has_result and not quiet:
            display(steps.result)
        if ran.error is not None and isinstance(ran.came, Exception):  # the user's own error goes first
            add_note(ran.error, ran.came)
        raise raised


def body_of(magic: str, cell: str | None, common: Common) -> str:
    """Give the cell's code; a line magic has none. Raises ProbeError where a line magic would have to trace."""
    if cell is not None:
        return cell
    if common.replay is None and not common.dry_run:
        raise ProbeError(f"%{magic} traces nothing by itself", fix=f"write %%{magic}, with two %, over a cell")
    return ""  # a cell magic would need a body for these


def attach(undo: contextlib.ExitStack, steps: Steps[Any], make_row: Callable[[Any], Any] | None) -> None:
    """Attach a trace, with a live row where one is wanted; `undo` takes the row away."""
    with typed_shortage():
        plan = steps.prepare()
        steps.check()
    ahead.wait()  # imports during the trace would be traced
    if make_row is None:
        steps.attach()
        return
    row = make_row(plan)
    undo.callback(row.close)
    row.open()
    steps.attach(lambda samples: row.update(*samples))


def run_cell(code: Cell | None, namespace: dict[str, Any], steps: Steps[Any]) -> Ran:
    """Run a cell around which something is attached, or where there is none play to the end; then stop."""
    __tracebackhide__ = True
    value, error = None, None
    try:
        steps.go()
        value = code.run(namespace) if code is not None else None
        if isinstance(steps, Player):
            steps.rest()  # the cell may be faster than the recording
    except BaseException as raised:  # noqa: BLE001 - raised again once the trace is taken down
        error = raised
        if error.__traceback__ is not None:  # this frame is not the user's
            error.__traceback__ = error.__traceback__.tb_next
    try:
        return Ran(value, error, steps.end(error, value))
    except BaseException as early:  # noqa: BLE001 - it came before `end` had begun
        came = steps.end(early if error is None else error, value)
        return Ran(value, error, early if came is None else came)
