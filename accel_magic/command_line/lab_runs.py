"""Commands that boot the lab: `python -m accel_magic lab run|shell|trace`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic import terminal
from accel_magic.api.option_table import add_options, given_of
from accel_magic.api.trace_options import Options
from accel_magic.errors import ProbeError
from accel_magic.lab.vm.connection import GuestGoneError
from accel_magic.lab.vm.lab import GUEST_FOLDERS, Lab
from accel_magic.lab.vm.lab_settings import Settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from accel_magic.lab.vm.connection import GuestProcess

    Commands = argparse._SubParsersAction[Any]  # noqa: SLF001 - its only name

_PIECE = 1 << 16
_NOT_HANDED_OVER = ("stacks",)
"""Options for what the guest does not hand over."""


def add_run(commands: Commands) -> None:
    """Add `run`."""
    run = commands.add_parser(
        "run",
        help="boot the lab and run a command in it; exits with its status",
        usage="%(prog)s [options] -- COMMAND [ARGUMENT ...]",
        description="Boots the lab and runs a command in it. The command sees this machine's files; what it writes is "
        "kept only in shared folders, including the working folder. Use npu_load to give the NPU work.",
    )
    _add_settings(run)
    run.set_defaults(handler=_run, takes_command=True)


def add_shell(commands: Commands) -> None:
    """Add `shell`."""
    shell = commands.add_parser("shell", help="boot the lab and open a shell in it", usage="%(prog)s [options]")
    _add_settings(shell)
    shell.set_defaults(handler=_shell)


def add_trace(commands: Commands) -> None:
    """Add `trace`."""
    trace = commands.add_parser(
        "trace",
        help="boot the lab and trace a command in it",
        usage="%(prog)s [options] PROBE [PROBE ...] -- COMMAND [ARGUMENT ...]",
        description="Boots the lab and traces a command in it, with the probes of %%ktrace.",
    )
    trace.add_argument("probes", nargs="+", metavar="PROBE", help="what to trace, e.g. 'intel_vpu:ivpu_*'")
    trace.add_argument("--save", metavar="FILE.parquet", help="save the result; accel_magic.open reads it")
    add_options(trace, Options, {"traced": "the command", "own": "the command's processes"}, _NOT_HANDED_OVER)
    _add_settings(trace)
    trace.set_defaults(handler=_trace, takes_command=True)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    from accel_magic.lab.image import DEFAULT, KERNELS

    add = parser.add_argument
    add("--kernel", choices=KERNELS, default=DEFAULT, help="kernel series of the guest (default: %(default)s)")
    add(
        "--share", type=Path, action="append", default=[], metavar="FOLDER", help="a folder that the guest may write to"
    )
    add(
        "--scheduler", choices=("auto", "hardware", "os"), default="auto", help="who schedules jobs: firmware or driver"
    )
    add("--driver-option", action="append", default=[], metavar="NAME=VALUE", help="a module option of intel_vpu")
    add("--job-us", type=int, default=500, metavar="US", help="duration of a job in us (default: %(default)s)")
    add(
        "--fault",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a fault of the emulated NPU, e.g. hang-job=3",
    )
    add("--memory", type=int, default=2048, metavar="MIB", help="memory of the guest in MiB (default: %(default)s)")
    add("--cpus", type=int, default=2, metavar="N", help="processors of the guest (default: %(default)s)")
    add("--user", choices=("root", "ordinary"), default="root", help="who runs the command; ordinary: with a broker")
    add("--accelerator", action="store_true", help="load the lab's own accelerator")
    add("--deadline", type=float, metavar="S", help="end the guest after S seconds")
    add("--quiet", action="store_true", help="print no messages about the boot")


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(
        kernel=options.kernel,
        share=tuple(dict.fromkeys([*({Path.cwd()} - GUEST_FOLDERS), *(path.resolve() for path in options.share)])),
        scheduler=options.scheduler,
        driver_options=dict(_pair(text) for text in options.driver_option),
        job_us=options.job_us,
        faults=tuple(options.fault),
        memory_mib=options.memory,
        cpus=options.cpus,
        deadline_s=options.deadline,
        user=options.user,
        accelerator=options.accelerator,
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ProbeError(
            f"--driver-option {text} has no value", fix="write --driver-option NAME=VALUE", code="option.no-value"
        )
    return name, value


@contextlib.contextmanager
def _booted(options: argparse.Namespace) -> Iterator[Lab]:
    """Boot the lab; build its image first if necessary."""
    from accel_magic.command_line.progress import Bar
    from accel_magic.lab import image

    bar = Bar(sys.stderr)
    try:
        report = (lambda _: None) if options.quiet else bar
        image.prepare(options.kernel, report=report)
        if options.accelerator:
            image.build_accelerator(options.kernel, report=report)
    finally:
        bar.end()
    with Lab(_settings(options), report=None if options.quiet else _say) as lab:
        yield lab


def _say(text: str) -> None:
    print(f"lab: {terminal.one_line(text)}", file=sys.stderr, flush=True)


def _command(options: argparse.Namespace) -> list[str]:
    if not options.command:
        raise ProbeError(
            "no command given", fix="write it after --, e.g. lab run -- uname -a", code="command.none-given"
        )
    return list(options.command)


def _exit_status(status: int) -> int:
    """The exit status as a shell reports it: 128 plus the signal's number."""
    return 128 - status if status < 0 else status


def _print(stream: int, data: bytes) -> None:
    output = sys.stdout if stream == 1 else sys.stderr
    output.buffer.write(data)
    output.flush()


def _run(options: argparse.Namespace) -> int:
    command = _command(options)
    with _booted(options) as lab:
        process = lab.popen(command, on_output=_print)
        with _interrupts_go_to(process):
            threading.Thread(target=_feed, args=(process,), daemon=True).start()
            return _exit_status(_end_of(lab, process))


def _end_of(lab: Lab, process: GuestProcess) -> int:
    while True:
        try:
            return lab.wait(process, timeout=0.5)
        except TimeoutError:  # look for signals in between
            continue


def _feed(process: GuestProcess) -> None:
    """Forward this process's standard input, unless it is a terminal (`shell` forwards those)."""
    with contextlib.suppress(OSError, GuestGoneError):
        if not sys.stdin.isatty():
            while data := os.read(sys.stdin.fileno(), _PIECE):
                process.write(data)
        process.close_input()


@contextlib.contextmanager
def _interrupts_go_to(process: GuestProcess) -> Iterator[None]:
    """Forward Ctrl-C to the command in the guest; the third one interrupts this process."""
    times = 0

    def pass_on(*_: object) -> None:
        nonlocal times
        times += 1
        if times > 2:
            raise KeyboardInterrupt
        with contextlib.suppress(GuestGoneError):
            process.send_signal(signal.SIGINT)

    previous = signal.signal(signal.SIGINT, pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _shell(options: argparse.Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ProbeError("a shell needs a terminal", fix="use: lab run -- COMMAND", code="command.needs-terminal")
    size = shutil.get_terminal_size()
    shell = os.environ.get("SHELL", "/bin/sh")
    with _booted(options) as lab:
        _say(f"shell in the guest; {Path.cwd()} is shared with this machine; exit ends the lab")
        process = lab.popen([shell], on_output=_print, terminal=(size.lines, size.columns))
        with _raw_terminal(process):
            threading.Thread(target=_type, args=(process,), daemon=True).start()
            return _exit_status(_end_of(lab, process))


def _type(process: GuestProcess) -> None:
    with contextlib.suppress(OSError, GuestGoneError):
        while data := os.read(sys.stdin.fileno(), _PIECE):
            process.write(data)


@contextlib.contextmanager
def _raw_terminal(process: GuestProcess) -> Iterator[None]:
    """Forward every key, and every change of the window size, to the guest."""
    import termios
    import tty

    def resize(*_: object) -> None:
        size = shutil.get_terminal_size()
        with contextlib.suppress(GuestGoneError):
            process.resize(size.lines, size.columns)

    before = termios.tcgetattr(sys.stdin)
    previous = signal.signal(signal.SIGWINCH, resize)
    try:
        tty.setraw(sys.stdin, termios.TCSADRAIN)  # TCSADRAIN keeps what was typed so far
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, previous)


def _trace(options: argparse.Namespace) -> int:
    from accel_magic.api.lab import trace_lab

    command = _command(options)
    given = given_of(options, Options)
    with _booted(options) as lab:
        result = trace_lab(lab, *options.probes, command=command, on_output=_print, save=options.save, **given)
        print(result)
        return _exit_status(result.value.status)
