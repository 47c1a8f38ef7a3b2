"""`accel-magic workshop`: the notebooks of a class, its rehearsal, its board, and what students hand in."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import terminal
from accel_magic.errors import ProbeError
from accel_magic.quantities import duration_text

if TYPE_CHECKING:
    from accel_magic.command_line.exit_status import Commands
    from accel_magic.workshop.board import Board

_REFRESH_S: Final = 3
_MOST_STUDENTS: Final = 100
_CLEAR_SCREEN: Final = "\x1b[H\x1b[2J"


def add(commands: Commands) -> None:
    """Add `workshop` and its commands."""
    workshop = commands.add_parser("workshop", help="ten exercises: notebooks, rehearsal, and the board of a class")
    inner = workshop.add_subparsers(metavar="COMMAND", required=True)
    for add_one in (_add_notebooks, _add_handouts, _add_doctor, _add_board, _add_hand_in, _add_reset):
        add_one(inner)


def _add_notebooks(commands: Commands) -> None:
    one = commands.add_parser("notebooks", help="write the exercises' notebooks to a folder")
    one.add_argument("folder", metavar="FOLDER", type=Path, help="the folder; files that exist are kept")
    one.add_argument("--solutions", action="store_true", help="write the lecturer's notebooks, with solutions")
    one.set_defaults(handler=_notebooks, works_everywhere=True)


def _add_handouts(commands: Commands) -> None:
    one = commands.add_parser("handouts", help="write ten slides and a hand-out of one page, as HTML")
    one.add_argument("folder", metavar="FOLDER", type=Path, help="the folder; a browser shows and prints the files")
    one.set_defaults(handler=_handouts, works_everywhere=True)


def _add_doctor(commands: Commands) -> None:
    one = commands.add_parser(
        "doctor",
        help="run each exercise headless, by as many students at once as will come",
        description="Run this the day before, on the machine of the class. It runs the solution of each exercise, by "
        "all students at once, and reports how long it took and whether all checks passed.",
    )
    one.add_argument("--users", metavar="N", type=_students, default=1, help="students at once (default: %(default)s)")
    one.add_argument("--exercises", metavar="LIST", help="only these, by number or name: 1,5,eviction")
    one.set_defaults(handler=_doctor)


def _add_board(commands: Commands) -> None:
    one = commands.add_parser("board", help="show where all students of a class are")
    one.add_argument("folder", metavar="FOLDER", type=Path, help="the folder that ACCEL_MAGIC_WORKSHOP names")
    one.add_argument("--once", action="store_true", help="print it once instead of refreshing it")
    one.add_argument("--html", metavar="PAGE.html", type=Path, help="write a page that a browser refreshes instead")
    one.set_defaults(handler=_board, works_everywhere=True)


def _add_hand_in(commands: Commands) -> None:
    one = commands.add_parser("hand-in", help="pack the solved exercises, one ZIP file each")
    one.add_argument("folder", metavar="FOLDER", type=Path, help="the folder with your notebooks")
    one.add_argument("--to", metavar="FOLDER", type=Path, default=Path("handed_in"), help="default: %(default)s")
    one.set_defaults(handler=_hand_in, works_everywhere=True)


def _add_reset(commands: Commands) -> None:
    one = commands.add_parser("reset", help="set a group's progress aside, before the next group begins")
    one.add_argument("folder", metavar="FOLDER", type=Path, help="the folder that ACCEL_MAGIC_WORKSHOP names")
    one.set_defaults(handler=_reset, works_everywhere=True)


def _students(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_STUDENTS:
        raise argparse.ArgumentTypeError(f"use a number from 1 to {_MOST_STUDENTS}")
    return int(text)


def _notebooks(options: argparse.Namespace) -> int:
    from accel_magic.workshop import material

    written = material.write(options.folder, solutions=options.solutions)
    for path in written:
        print(path)
    if not written:
        print(f"{options.folder} has all of them already: nothing was written")
    return 0


def _handouts(options: argparse.Namespace) -> int:
    from accel_magic.workshop import lecture

    for path in lecture.to_html(options.folder):
        print(path)
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from accel_magic.workshop.exercises import NAMES
    from accel_magic.workshop.rehearsal import rehearse

    failed = 0
    print(f"{'':>2} {'exercise':<12} {'passed':>7} {'live':>7} {'took':>9}")
    for one in rehearse(_chosen(options.exercises), options.users):
        failed += one.passed < one.students
        passed, live = (f"{count}/{one.students}" for count in (one.passed, one.live))
        number = NAMES.index(one.exercise) + 1
        print(f"{number:>2} {one.exercise:<12} {passed:>7} {live:>7} {duration_text(one.seconds * 1e9):>9}", flush=True)
        if one.problem:
            print(f"   {terminal.one_line(one.problem)}", flush=True)
    print("not live: traced cells played recordings")
    return 1 if failed else 0


def _chosen(exercises: str | None) -> list[str]:
    from accel_magic.workshop.exercises import NAMES, find

    if exercises is None:
        return list(NAMES)
    names = [word.strip() for word in exercises.split(",") if word.strip()]
    if not names:
        raise ProbeError("--exercises is empty", fix="e.g. --exercises 1,5,eviction", code="workshop.unknown-exercise")
    return [find(int(name) if name.isdecimal() else name).name for name in names]


def _board(options: argparse.Namespace) -> int:
    from accel_magic.workshop import board

    if options.html is not None and not options.once:
        print(f"writing {options.html} every {_REFRESH_S} s; Ctrl-C ends it", flush=True)
    while True:
        current = board.read(options.folder)
        if options.html is not None:
            _write_page(current, options.html)
        else:
            clear = _CLEAR_SCREEN if sys.stdout.isatty() and not options.once else ""
            print(f"{clear}{current}", flush=True)
        if options.once:
            return 0
        time.sleep(_REFRESH_S)


def _write_page(current: Board, path: Path) -> None:
    from markupsafe import Markup

    from accel_magic.views.templates import render

    html = Markup(current.html())  # noqa: S704 - a template made it
    part = path.with_name(f"{path.name}.part")
    part.write_text(render("board_page", board=html, seconds=_REFRESH_S), encoding="utf-8")
    part.replace(path)


def _hand_in(options: argparse.Namespace) -> int:
    from accel_magic.workshop import hand_in

    for path in hand_in.pack(options.folder, options.to):
        print(path)
    return 0


def _reset(options: argparse.Namespace) -> int:
    from accel_magic.workshop import board

    target = board.clear(options.folder)
    print("nobody has begun" if target is None else f"the group's progress is in {target}")
    return 0
