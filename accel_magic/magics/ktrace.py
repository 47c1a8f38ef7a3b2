"""`%%ktrace`: a list of options and one call."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, no_var_expand, output_can_be_silenced
from IPython.display import display
from traitlets import Bool, CaselessStrEnum, Float, Int, Unicode
from traitlets.config import Configurable

from accel_magic.api import Options, Trace, outcome_of
from accel_magic.errors import ProbeError
from accel_magic.magics.cell import Cell, compile_cell
from accel_magic.magics.options import HelpRequested, Line, parse
from accel_magic.session import warm_up
from accel_magic.views import ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.traces.result import TraceResult


def in_kernel(shell: Any) -> bool:
    """Whether outputs go to a notebook front end, which can update them."""
    return getattr(shell, "kernel", None) is not None


@magics_class
class KTrace(Magics, Configurable):
    """Defaults of `%%ktrace`: `%config KTrace.mode = "count"`."""

    mode = CaselessStrEnum(("auto", "count", "events"), "auto", help="--mode").tag(config=True)
    scope = Unicode("", help="--scope; empty: by the kind of probe").tag(config=True)
    max_events = Int(0, help="--max-events; 0: the default of the mode").tag(config=True)
    buffer = Float(64.0, help="--buffer, MiB").tag(config=True)
    live = Bool(True, help="show live counters in a notebook").tag(config=True)
    replay = Unicode("", help="play this recording instead of tracing; {output} in it is the name after -o").tag(
        config=True
    )

    shell: Any

    def _options(self, line: Line) -> Options:
        defaults = {
            "mode": self.mode,
            "scope": self.scope or None,
            "max_events": self.max_events or None,
            "buffer": self.buffer,
        }
        return Options(**{**defaults, **line.given})

    @no_var_expand
    @output_can_be_silenced
    @line_cell_magic
    def ktrace(self, line: str, cell: str | None = None) -> object:
        """Trace the cell. `%ktrace --help` lists probes and options."""
        __tracebackhide__ = True
        try:
            chosen = parse(line)
        except HelpRequested as help_text:
            print(help_text)
            return None
        if cell is None:
            if chosen.replay is None and not chosen.dry_run:
                raise ProbeError("%ktrace traces nothing by itself", fix="write %%ktrace, with two %, over a cell")
            cell = ""  # a cell magic would need a body for these
        live = in_kernel(self.shell) and (self.live if chosen.live is None else chosen.live)
        if self.replay and chosen.replay is None:
            suffix = f"-{chosen.output}" if chosen.output else ""
            chosen = replace(chosen, replay=self.replay.replace("{output}", suffix))
        if chosen.replay is not None:
            return self._replay(chosen, line, cell, live=live)
        if chosen.program is not None:
            return self._program(chosen, line, cell)
        trace = Trace(chosen.probes, self._options(chosen), save=chosen.save)
        if chosen.dry_run:
            from accel_magic.views.dry_run import DryRun

            return DryRun.of(trace.prepare())
        code = compile_cell(self.shell, line, cell)
        warm_up()  # the helper processes come up while the probes are matched
        with _row(trace, live=live):
            result, error = _run(code, self.shell.user_ns, trace.go, trace.stop)
        return self._hand_over(result, error, chosen, cell)

    def _hand_over(self, result: TraceResult, error: BaseException | None, line: Line, cell: str) -> TraceResult:
        """Show the cell's own value and return the result; after an error show the partial result and raise."""
        __tracebackhide__ = True
        if line.output is not None:
            self.shell.user_ns[line.output] = result
        quiet = self.shell.displayhook.semicolon_at_end_of_expression(cell)
        if error is not None:
            if not quiet:
                display(result)
            raise error
        if result.value is not None and not quiet:
            display(result.value)
        return result

    def _replay(self, line: Line, text: str, cell: str, *, live: bool) -> TraceResult:
        __tracebackhide__ = True
        from accel_magic.playback import Replay

        assert line.replay is not None  # noqa: S101 - the caller looked
        code = compile_cell(self.shell, text, cell) if line.run else None
        player = Replay(line.replay, speed=line.speed)
        with _row(player, live=live):
            error: BaseException | None = None
            if code is not None:
                result, error = _run(code, self.shell.user_ns, player.go, player.stop)
            else:
                player.go()
                result = player.wait()
        return self._hand_over(result, error, line, cell)

    def _program(self, line: Line, text: str, cell: str) -> object:
        __tracebackhide__ = True
        from accel_magic.program import ProgramTrace

        assert line.program is not None  # noqa: S101 - the caller looked
        more = {name: value for name, value in (("save", line.save), ("live", line.live)) if value}
        trace = ProgramTrace(line.program, line.probes, {**line.given, **more})
        if line.dry_run:
            return trace.dry_run()
        code = compile_cell(self.shell, text, cell)
        warm_up()
        with _row(trace, live=False):
            result, error = _run(code, self.shell.user_ns, trace.go, trace.stop)
        return self._hand_over(result, error, line, cell)

    @line_magic
    def accel_doctor(self, line: str) -> object:
        """Check what this machine can trace, with the fix for what it cannot."""
        from accel_magic import doctor

        if line.strip():
            raise ProbeError(f"%accel_doctor takes no arguments: {line.strip()}", fix="%accel_doctor")
        return doctor.report()


@contextlib.contextmanager
def _row(trace: Any, *, live: bool) -> Iterator[None]:
    """Attach a trace, with a live row where one is wanted; the row is gone at the end, whatever happens."""
    plan = trace.prepare()
    ahead.wait()  # imports during the trace would be traced
    with contextlib.ExitStack() as undo:
        undo.callback(trace.abort)  # an interrupt may come between attaching and the cell
        if live:
            from accel_magic.views.headline import banners
            from accel_magic.views.live import LiveRow

            row = LiveRow(plan, banners(trace.machine, trace.replayed, trace.imported))
            undo.callback(row.close)
            row.open()
            trace.attach(lambda samples: row.update(*samples))
        else:
            trace.attach(None)
        yield


def _run(
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
        from accel_magic.api import last

        return last(), error or interrupt
