"""The base of the magics that trace a cell: reading their lines, attaching, running the cell, returning results.

A cell may have several lines, of different magics: each of them traces it or replays a recording.
"""

from __future__ import annotations

import contextlib
import functools
import re
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from IPython.core.magic import Magics
from IPython.display import display
from traitlets import Bool, CaselessStrEnum, Float, Int, TraitType, Unicode, Union
from traitlets.config import Configurable

from accel_magic.api.block import add_note, keep
from accel_magic.api.option_table import options_of
from accel_magic.errors import ProbeError, typed_shortage
from accel_magic.kernel.own_threads import at_work
from accel_magic.magics.cell_runner import CompiledCell, compile_cell
from accel_magic.magics.magic_line import HelpRequested
from accel_magic.views import display_preload, drawn_elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from accel_magic.api.block import Steps
    from accel_magic.api.option_table import Option
    from accel_magic.api.options import Common
    from accel_magic.result_bases.base import Result


_NEXT_LINE: Final = re.compile(r"(?:[ \t]*\n)*%%(\w+)(?:[ \t]+([^\n]*))?(?:\n|\Z)")


def in_kernel(shell: Any) -> bool:
    """Whether the front end is a notebook, which can update outputs."""
    return getattr(shell, "kernel", None) is not None


@dataclass(frozen=True)
class CellLine:
    """One parsed magic line of a cell.

    Attributes:
        common: The options that all magics share.
        steps: The trace or replay.
        examine: Returns what `--dry-run` shows; None where there is no dry run, as for a replay.
        make_row: Makes the live row from what `steps.prepare` returns; None for no row.

    """

    common: Common
    steps: Steps[Any, Any]
    examine: Callable[[], object] | None
    make_row: Callable[[Any], Any] | None


@dataclass(frozen=True)
class CellOutcome:
    """The outcome of a cell: its value, what it raised, and the interrupts and errors while its traces ended."""

    value: object
    error: BaseException | None
    came: tuple[BaseException, ...]


_TRAITS: Final[Mapping[type, Callable[..., TraitType[Any, Any]]]] = {bool: Bool, int: Int, float: Float, str: Unicode}


def traits_of(kind: type) -> dict[str, Any]:
    """The traits for the defaults of the options that a dataclass has, by name; None, the initial value, sets none."""
    return {one.name: _trait(one).tag(config=True) for one in options_of(kind) if one.kinds}


def _trait(option: Option) -> TraitType[Any, Any]:
    unset: dict[str, Any] = {"default_value": None, "allow_none": True, "help": option.meaning or option.help}
    if option.choices:
        return CaselessStrEnum(option.choices, **unset)
    made = [_TRAITS[kind] for kind in option.kinds]
    return made[0](**unset) if len(made) == 1 else Union([kind() for kind in made], **unset)


class TracedCells(Magics, Configurable):
    """Base of the magics that trace a cell."""

    live = Bool(True, help="show live counters in a notebook").tag(config=True)
    replay = Unicode("", help="replay this recording instead of tracing; {output} becomes -NAME after -o NAME").tag(
        config=True
    )

    shell: Any
    magic: ClassVar[str]
    """Name of the magic."""

    def defaults(self) -> dict[str, Any]:
        """Return the defaults that `%config` has set, by the names of the options; the line overrides them."""
        own = {name: getattr(self, name) for name in self.trait_names(config=True) if name not in ("live", "replay")}
        return {name: value for name, value in own.items() if value is not None}

    @abstractmethod
    def parse(self, line: str) -> Any:
        """Parse a line to a value with the common options as `common`. Raises ProbeError or HelpRequested."""

    @abstractmethod
    def tracer(self, chosen: Any) -> tuple[Steps[Any, Any], Callable[[], object] | None]:
        """Make the trace of a parsed line, and a function for `--dry-run` or None; nothing is attached yet."""

    @abstractmethod
    def rows(self, steps: Steps[Any, Any]) -> Callable[[Any], Any] | None:
        """Return the function that makes the live row of a trace or replay; None for no row."""

    def run(self, line: str, cell: str | None) -> object:
        """Run a magic's line, and the further lines of such magics at the top of the cell.

        Args:
            line: The text after the magic's name.
            cell: The cell's code; None for a line magic.

        Returns:
            The result of the last line. The other results are displayed before it.

        Raises:
            ProbeError: An invalid line, or a line magic that would have to trace.

        """
        __tracebackhide__ = True
        lines, head, code = self._lines(line, cell)
        try:
            parts = [magics.part(text, has_cell=cell is not None) for magics, text in lines]
        except HelpRequested as help_text:
            print(help_text)
            return None
        if any(part.common.dry_run for part in parts):
            *others, last = [part.examine() for part in parts if part.examine is not None]
            for shown in others:
                display(shown)
            return last
        compiled = compile_cell(self.shell, head, code) if _runs(parts) else None
        if any(part.make_row is not None for part in parts):
            drawn_elsewhere.prepare()
        with contextlib.ExitStack() as undo:
            self._attach(parts, undo)
            ran = run_cell(compiled, self.shell.user_ns, [part.steps for part in parts])
        return self._hand_over(parts, ran, code)

    def part(self, line: str, *, has_cell: bool) -> CellLine:
        """Parse a line. Raises as `run` does, or HelpRequested."""
        chosen = self.parse(line)
        common: Common = chosen.common
        if not has_cell and common.replay is None and not common.dry_run:
            raise ProbeError(
                f"%{self.magic} needs a cell to trace",
                fix=f"write %%{self.magic} instead of %{self.magic}, at the top of a cell, above the code to trace",
                code="line.no-cell",
            )
        live = in_kernel(self.shell) and (self.live if common.live is None else common.live)
        if self.replay and common.replay is None:
            suffix = f"-{common.output}" if common.output else ""
            common = replace(common, replay=self.replay.replace("{output}", suffix), dry_run=False)
        if common.replay is not None:
            from accel_magic.api.replay import player

            playing = player(common.replay, speed=common.speed)
            shows = self._of(playing.kind) or self
            return CellLine(common, playing, None, shows.rows(playing) if live else None)
        steps, examine = self.tracer(chosen)
        return CellLine(common, steps, examine, self.rows(steps) if live else None)

    def _lines(self, line: str, cell: str | None) -> tuple[list[tuple[TracedCells, str]], str, str]:
        """Split a cell into (magic, text) of its tracing magics' lines, these lines as one string, and the code."""
        lines: list[tuple[TracedCells, str]] = [(self, line)]
        head, code = f"%%{self.magic} {line}\n", cell or ""
        while found := _NEXT_LINE.match(code):
            owner = self._of(found[1])
            if owner is None:
                break
            lines.append((owner, found[2] or ""))
            head, code = head + found[0], code[found.end() :]
        return lines, head, code

    def _of(self, magic: str) -> TracedCells | None:
        """Find the tracing magic with this name; None if the name is unknown or belongs to another kind of magic."""
        found = getattr(self.shell.magics_manager.magics["cell"].get(magic), "__self__", None)
        return found if isinstance(found, TracedCells) else None

    def _attach(self, parts: Sequence[CellLine], undo: contextlib.ExitStack) -> None:
        """Attach the traces, with live rows if wanted; `undo` aborts the traces and closes the rows.

        Each result is assigned to the variable after `-o` before an interrupt can arrive.
        """
        with at_work():
            for part in parts:
                undo.callback(part.steps.abort)  # an interrupt may arrive between attaching and running the cell
                name = part.common.output
                part.steps.on_result = functools.partial(self._assign, name) if name is not None else None
            with typed_shortage():
                plans = [part.steps.prepare() for part in parts]
                for part in parts:
                    part.steps.check()
            display_preload.wait()  # imports during the trace would be traced
            for part, plan in zip(parts, plans, strict=True):
                if part.make_row is None:
                    part.steps.attach()
                    continue
                row = part.make_row(plan)
                undo.callback(row.close)
                row.open()
                part.steps.attach(_updating(row))

    def _assign(self, name: str, result: Result) -> None:
        self.shell.user_ns[name] = result

    def _hand_over(self, parts: Sequence[CellLine], ran: CellOutcome, code: str) -> object:
        """Display the cell's value and the results; after an error display the partial results and raise it."""
        __tracebackhide__ = True
        results = [part.steps.result for part in parts if part.steps.has_result]
        if results:
            keep(results[-1])
        errors = [error for error in (ran.error, *ran.came) if error is not None]
        first = errors[0] if errors else None
        shown = [*([] if ran.value is None else [ran.value]), *(results[:-1] if first is None else results)]
        quiet = self.shell.displayhook.semicolon_at_end_of_expression(code)
        for each in () if quiet else shown:
            display(each)
        if first is None:
            return results[-1]
        for other in errors[1:]:
            if isinstance(other, Exception):
                add_note(first, other)
        raise first


def _runs(parts: Sequence[CellLine]) -> bool:
    """Whether the cell's code runs. Raises ProbeError if one line replays without `--run` while another one traces."""
    playing = [part for part in parts if part.common.replay is not None]
    if any(part.common.run for part in playing):
        return True
    if playing and len(playing) < len(parts):
        raise ProbeError(
            "one line replays a recording and another one traces",
            why="a replay does not run the cell, so there is nothing to trace",
            fix="give every line a recording (--replay), or run the cell during the replay (--run)",
            code="line.replay-beside-trace",
        )
    return not playing


def _updating(row: Any) -> Callable[[list[Any]], None]:
    return lambda samples: row.update(*samples)


def run_cell(code: CompiledCell | None, namespace: dict[str, Any], traces: Sequence[Steps[Any, Any]]) -> CellOutcome:
    """Run a cell between `go` and the end of all traces; replays play to their end."""
    __tracebackhide__ = True
    value, error, gone = None, None, 0
    try:
        try:
            with at_work():
                for steps in traces:
                    gone += 1
                    steps.go()
            value = code.run(namespace) if code is not None else None
            for steps in traces:
                steps.rest()
        except BaseException as raised:  # noqa: BLE001 - raised again once the traces have ended
            error = raised
            if error.__traceback__ is not None:  # this frame is not the user's
                error.__traceback__ = error.__traceback__.tb_next
        return CellOutcome(value, error, _ended(traces[:gone], error, value))
    except BaseException as early:  # noqa: BLE001 - an interrupt that arrived before the first trace began to end
        return CellOutcome(value, error, (early, *_ended(traces[:gone], early if error is None else error, value)))


def _ended(traces: Sequence[Steps[Any, Any]], error: BaseException | None, value: object) -> tuple[BaseException, ...]:
    """End the running traces, the last one first; return the interrupts and errors of doing so."""
    with at_work():
        for steps in traces:
            steps.halt()
        ended = [steps.end(error, value) for steps in reversed(traces) if steps.running]
    return tuple(exception for exception in ended if exception is not None)
