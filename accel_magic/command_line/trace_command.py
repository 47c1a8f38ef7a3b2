"""`accel-magic trace PROBE... [-- COMMAND]`: trace a command, or programs in other terminals."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from accel_magic.api import options
from accel_magic.api.option_table import add_options, given_of
from accel_magic.api.options import Common
from accel_magic.api.tasks import collect_tasks
from accel_magic.api.trace_options import Options
from accel_magic.command_line.exit_status import FAILED, print_error, say
from accel_magic.command_line.signals import HeldSignals
from accel_magic.errors import AccelMagicError, ProbeError, TraceStateError
from accel_magic.probes import bpftrace, grammar

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Sequence

    from accel_magic.api.probe_trace import Trace
    from accel_magic.api.program_trace import ProgramTrace
    from accel_magic.api.replay import Player
    from accel_magic.command_line.exit_status import Commands
    from accel_magic.command_line.stopped_process import StoppedCommand
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.recording import Outcome

    Steps: TypeAlias = Trace | ProgramTrace | Player[Any, Any, Any]

_NAME: Final = "accel-magic trace"
_EXAMPLES: Final = """\
examples
  accel-magic trace tracepoint:syscalls:sys_enter_openat -- ls
  accel-magic trace latency:uprobe:libc:malloc --save run.parquet -- python3 train.py
  accel-magic trace 'intel_vpu:ivpu_*' --duration 10
"""


def add(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "trace",
        help="trace a command, or programs in other terminals",
        usage="%(prog)s [options] PROBE [PROBE ...] [-- COMMAND [ARGUMENT ...]]",
        description="Traces COMMAND from its first instruction to its end and exits with its status. Without COMMAND, "
        "traces until Ctrl-C or for --duration seconds. Prints counts, latencies and losses.",
        epilog=f"{options.probes_help()}\n{_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("probes", nargs="*", metavar="PROBE", help="what to trace, see below")
    texts = {"traced": "the command", "own": "the command and its children", "dry_run": options.DRY_RUN}
    add_options(parser, Options, texts)
    options.add_program_option(parser)
    add_options(parser, Common, texts, without=("output",))
    parser.add_argument("--no-print", action="store_true", help="only --save the result, do not print it")
    parser.set_defaults(handler=_run, takes_command=True)


def _run(values: argparse.Namespace) -> int:
    bpftrace.check(" ".join(values.probes), front_end=bpftrace.in_shell(values.command or ()))
    common = options.common_of(_NAME, values, (values.probes, given_of(values, Options), values.program))
    _check(values, common)
    with HeldSignals() as signals:  # before any thread starts, so that all inherit the mask
        if common.dry_run:
            print(_dry_run(_steps(values, common, None)))
            return 0
        return traced(values, common, signals)


def traced(values: argparse.Namespace, common: Common, signals: HeldSignals) -> int:
    """Trace as a parsed command line says, and return the exit status; `values.started` says whether the command ran.

    Raises:
        AccelMagicError: Tracing is impossible, or the command cannot be run.

    """
    values.started = False
    if common.save is not None:
        from accel_magic.recording import dataset, result_files

        place = (
            dataset.check
            if values.program is None and result_files.names_folder(common.save)
            else result_files.destination
        )
        place(common.save)  # fail now on a wrong path, not after the trace
    import pyarrow as pa  # noqa: F401 - its allocator's thread must exist before take_all()

    from accel_magic.kernel.own_threads import at_work, take_all

    take_all()
    with at_work():  # exclude this process's own work from any scope
        return _traced(values, common, signals)


def _check(values: argparse.Namespace, common: Common) -> None:
    """Check for missing and conflicting options. Raises ProbeError."""
    if common.replay is None and not values.probes and values.program is None:
        raise ProbeError(
            "no probe given", fix=f"e.g. {_NAME} tracepoint:syscalls:sys_enter_openat -- ls", code="probe.none-given"
        )
    if values.command is not None and not values.command:
        raise ProbeError(
            "no command after --", fix=f"{_NAME} {shlex.join(values.probes)} -- ls", code="command.none-given"
        )
    if common.replay is not None and common.run is (values.command is None):
        raise ProbeError(
            "with --replay, a command needs --run, and --run needs a command",
            fix=f"{_NAME} --replay FILE.parquet, or {_NAME} --replay FILE.parquet --run -- COMMAND",
            code="option.replay-command",
        )
    if values.no_print and common.save is None:
        raise ProbeError("--no-print without --save has no output", fix="add --save FILE", code="option.needs-save")


def _steps(values: argparse.Namespace, common: Common, pid: int | None) -> Steps:
    """Make the trace or replay; `pid` is the process of the scope `self`."""
    if common.replay is not None:
        from accel_magic.api.replay import player

        return player(common.replay, speed=common.speed)
    given = given_of(values, Options)
    if values.program is not None:
        from accel_magic.api.program_trace import ProgramTrace

        more = {name: value for name, value in (("save", common.save), ("live", common.live)) if value}
        return ProgramTrace(values.program, tuple(values.probes), {**given, **more})
    from accel_magic.api.probe_trace import Trace

    return Trace(tuple(values.probes), Options(**given), save=common.save, pid=pid)


def _dry_run(steps: Steps) -> object:
    from accel_magic.api.program_trace import ProgramTrace

    if isinstance(steps, ProgramTrace):
        return steps.dry_run()
    from accel_magic.views.dry_run import DryRun

    plan: Any = steps.prepare()
    return DryRun.of(plan)


def _traced(values: argparse.Namespace, common: Common, signals: HeldSignals) -> int:
    """Trace, and return the exit status."""
    with _stopped(values.command, signals, values.probes) as command:
        if common.replay is None:
            from accel_magic.engine.helper_processes import warm_up

            warm_up()  # the helper processes start while the probes are matched
        steps = _steps(values, common, None if command is None else command.pid)
        plan: Any = steps.prepare()
        alone = command is None and common.replay is None
        if alone:
            _refuse_own_scope(plan)
        with _attached(steps, plan, common):
            exception = signals.come()
            if exception is not None:
                return 128 + exception.si_signo  # nothing was traced, and the command never ran
            steps.go()
            if command is not None:
                values.started = True
                command.go()
            if alone:
                _announce(values, plan)
            exception = signals.wait(_end_of(command), _length(steps, plan) if command is None else None)
            if exception is not None and command is not None:
                _pass_on(exception, command)
            _explain_ending(steps, command)
            result, failure = _stop(steps, _outcome(command, exception))
        if result is not None and not values.no_print:
            _print(result)
        if failure is not None:
            print_error(failure)
        status = 0 if command is None else _status(command, signals)
        return FAILED if failure is not None else status


@contextlib.contextmanager
def _stopped(words: list[str] | None, signals: HeldSignals, probes: Sequence[str]) -> Iterator[StoppedCommand | None]:
    """Start the command, if there is one, stopped; kill it if it is never released."""
    if words is None:
        yield None
        return
    from accel_magic.command_line.stopped_process import StoppedCommand

    _collect_tasks(probes)
    with StoppedCommand(words, signals.before) as command:
        yield command


def _collect_tasks(probes: Sequence[str]) -> None:
    """Have the command's libraries report ITT tasks, if these are to be traced. Raises MachineError if they cannot."""
    with contextlib.suppress(ProbeError):  # reported when the trace is prepared
        if any(spec.kind == "itt" for spec in grammar.parse_all(probes)):
            collect_tasks()


def _refuse_own_scope(plan: Plan | None) -> None:
    """Reject the scope `self` without a command. Raises ProbeError."""
    own = [] if plan is None else [point for point in plan.points if point.scope.name == "self"]
    if own:
        raise ProbeError(
            f"{own[0].probe}: the scope `self` needs a command",
            why="it is the default scope of system calls and library functions, and means the command's processes",
            fix="add --scope all or --scope PID, or a command after --",
            code="scope.no-command",
        )


@contextlib.contextmanager
def _attached(steps: Steps, plan: Plan | None, common: Common) -> Iterator[None]:
    """Attach, with a live line on a terminal; always detach and erase the line at the end."""
    with contextlib.ExitStack() as undo:
        undo.callback(steps.abort)
        from accel_magic.probes.plan import Plan

        if not isinstance(plan, Plan) or common.live is False or not sys.stderr.isatty():
            steps.attach(None)
        else:
            from accel_magic import subsystems
            from accel_magic.banners import banners_of
            from accel_magic.views.live.terminal_line import LiveLine

            line = LiveLine(plan, banners_of(steps), sys.stderr, subsystems.live_items(plan))
            undo.callback(line.close)
            steps.attach(lambda samples: line.update(*samples))
        yield


def _announce(values: argparse.Namespace, plan: Plan | None) -> None:
    """Print that the trace has begun and how it ends."""
    what = values.program
    if plan is not None:
        count = len(plan.points)
        what = f"{count:,} probe point{'s' * (count != 1)}, scope {plan.scope_text()}"
    end = "Ctrl-C ends it" if values.duration is None else f"it ends after {values.duration:g} s, or with Ctrl-C"
    say(f"tracing {what}; {end}")


def _end_of(command: StoppedCommand | None) -> Any:
    return lambda: command is not None and command.status is not None


def _length(steps: Steps, plan: Plan | None) -> float | None:
    """How long to trace or to replay without a command, in seconds; None: until a signal arrives."""
    from accel_magic.api.replay import Player

    if isinstance(steps, Player):
        return steps.length_s
    return None if plan is None else plan.request.duration_s


def _pass_on(exception: signal.struct_siginfo, command: StoppedCommand) -> None:
    """Forward a signal that was sent to this process only; a terminal's signals reach the command anyway."""
    if exception.si_code <= 0:  # sent by kill() or similar
        command.send(exception.si_signo)


def _outcome(command: StoppedCommand | None, exception: signal.struct_siginfo | None) -> Outcome:
    """How the traced command ended; without a command an interrupt is the normal end."""
    if command is None:
        return "ok"
    if exception is not None:
        return "interrupted"
    return "error" if command.status else "ok"


def _explain_ending(steps: Steps, command: StoppedCommand | None) -> None:
    """Add a note to the result if the command was ended by what return probes may do to a program."""
    from accel_magic.api.probe_trace import Trace
    from accel_magic.probes import return_probes

    if isinstance(steps, Trace) and command is not None and command.status is not None:
        for note in return_probes.about_ending(steps.points, command.status):
            steps.add_note(note)


def _stop(steps: Steps, outcome: Outcome) -> tuple[object, AccelMagicError | None]:
    """Detach and save; return the result, or None, and the error, if any: a result that cannot be saved has both."""
    from accel_magic.api.block import Block

    try:
        return steps.stop(outcome), None
    except AccelMagicError as error:
        if isinstance(steps, Block):
            with contextlib.suppress(TraceStateError):
                return steps.result, error
        return None, error


def _print(result: object) -> None:
    try:
        print(result, flush=True)
    except OSError:  # standard output is closed, e.g. the terminal is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _status(command: StoppedCommand, signals: HeldSignals) -> int:
    """Wait for the command, which may outlive the trace, and return its status; another signal ends the wait."""
    exception = signals.wait(_end_of(command))
    if exception is not None:
        _pass_on(exception, command)
        say(f"process {command.pid} continues, untraced")
        return 128 + exception.si_signo
    status = command.wait()
    return 128 - status if status < 0 else status
