"""What the magics that trace a cell share: attaching around it, running it, handing its result over, playing back."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from IPython.core.magic import Magics
from IPython.display import display
from traitlets import Bool, Unicode
from traitlets.config import Configurable

from accel_magic.block import last, outcome_of
from accel_magic.errors import ProbeError
from accel_magic.magics.cell import Cell, compile_cell
from accel_magic.magics.line import HelpRequested
from accel_magic.views import ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.block import Block
    from accel_magic.options import Common
    from accel_magic.player import Player

    Steps: TypeAlias = Block[Any] | Player[Any, Any]


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

    def trace_cell(self, request: Request, trace: Steps, make_row: Callable[[Any], Any] | None) -> object:
        """Trace the cell and return the result.

        Args:
            request: What was written.
            trace: What to trace with.
            make_row: Makes the live row of what `trace.prepare` returns; None for no row.

        """
        __tracebackhide__ = True
        code = compile_cell(self.shell, request.magic, request.line, request.cell)
        with attached(trace, make_row):
            result, error = run_cell(code, self.shell.user_ns, trace.go, trace.stop)
        return self.hand_over(result, error, request)

    def play_back(self, request: Request, player: Player[Any, Any], make_row: Callable[[Any], Any] | None) -> object:
        """Play a recording back; the cell's code runs only where that was asked for. Arguments as of `trace_cell`."""
        __tracebackhide__ = True
        if request.common.run:
            return self.trace_cell(request, player, make_row)
        with attached(player, make_row):
            player.go()
            result = player.wait()
        return self.hand_over(result, None, request)

    def hand_over(self, result: Any, error: BaseException | None, request: Request) -> object:
        """Show the cell's own value and return the result; after an error show the partial result and raise."""
        __tracebackhide__ = True
        if request.common.output is not None:
            self.shell.user_ns[request.common.output] = result
        quiet = self.shell.displayhook.semicolon_at_end_of_expression(request.cell)
        if error is not None:
            if not quiet:
                display(result)
            raise error
        if result.value is not None and not quiet:
            display(result.value)
        return result


def body_of(magic: str, cell: str | None, common: Common) -> str:
    """Give the cell's code; a line magic has none. Raises ProbeError where a line magic would have to trace."""
    if cell is not None:
        return cell
    if common.replay is None and not common.dry_run:
        raise ProbeError(f"%{magic} traces nothing by itself", fix=f"write %%{magic}, with two %, over a cell")
    return ""  # a cell magic would need a body for these


@contextlib.contextmanager
def attached(trace: Steps, make_row: Callable[[Any], Any] | None) -> Iterator[None]:
    """Attach a trace, with a live row where one is wanted; the row is gone at the end, whatever happens."""
    plan = trace.prepare()
    ahead.wait()  # imports during the trace would be traced
    with contextlib.ExitStack() as undo:
        undo.callback(trace.abort)  # an interrupt may come between attaching and the cell
        if make_row is not None:
            row = make_row(plan)
            undo.callback(row.close)
            row.open()
            trace.attach(lambda samples: row.update(*samples))
        else:
            trace.attach(None)
        yield


def run_cell(
    code: Cell, namespace: dict[str, Any], go: Callable[[], None], stop: Callable[..., Any]
) -> tuple[Any, BaseException | None]:
    """Run the cell between `go` and `stop`; returns the result, and what the cell raised."""
    __tracebackhide__ = True
    value, error = None, None
    try:
        go()
        value = code.run(namespace)
    except BaseException as raised:  # noqa: BLE001 - raised again once the trace is taken down
        error = raised
        if error.__traceback__ is not None:  # this frame is not the user's
            error.__traceback__ = error.__traceback__.tb_next
    try:
        return stop(outcome_of(error), value), error
    except KeyboardInterrupt as interrupt:
        return last(), error or interrupt
