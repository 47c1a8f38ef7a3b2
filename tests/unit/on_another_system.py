"""What works on Windows and macOS, run in a process that lacks what Python lacks there: `FILE SYSTEM FOLDER FILE...`.

Prints a JSON object: for each check, what went wrong. FOLDER is for new files; each FILE is something to open.
"""

import contextlib
import functools
import importlib
import io
import json
import os
import sys
import time
import traceback
from pathlib import Path

FIRST = (
    *(
        "IPython.core.interactiveshell",
        "asyncio",
        "bokeh.embed",
        "bokeh.plotting",
        "bokeh.resources",
        "duckdb",
        "jinja2",
    ),
    *("ipywidgets", "llvmlite.binding", "msgspec", "multiprocessing", "pandas", "pyarrow.compute", "pyarrow.dataset"),
    *("polars", "pyarrow.parquet", "rich", "concurrent.futures.thread", "tempfile", "zoneinfo"),
)
"""Others' packages, with their own code for each system."""
SPEED, SLOW = 10_000, 0.001
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def without_error(action, *arguments):
    """What an action returns; None if the result lacks it, which is an error with a fix."""
    from accel_magic.errors import AccelMagicError

    try:
        return action(*arguments)
    except AccelMagicError as error:
        if not error.code.startswith(("result.", "import.", "pages.", "cluster.")):
            raise
        return None


def raised(kind, action):
    """The error of this kind that an action raises; None if it raises none."""
    try:
        action()
    except kind as error:
        return error
    return None


@check
def every_public_name_is_imported(files, folder):
    import accel_magic

    for name in dir(accel_magic):
        if name != "last":
            getattr(accel_magic, name)


@check
def every_kind_of_file_opens_with_all_its_views(files, folder):
    import accel_magic

    for number, file in enumerate(files):
        result = accel_magic.open(file)
        assert repr(result)
        if not isinstance(result, accel_magic.Result):
            continue
        assert result._repr_mimebundle_()["text/html"]
        without_error(lambda result=result: result.diagnose().table)
        if getattr(getattr(result, "recording", None), "imported", None) is not None:
            continue  # its other views are those of our own recordings
        for kind in result.figures:
            without_error(result.figure, kind)
        for name, ending in (("to_html", "html"), ("to_parquet", "parquet"), ("to_perfetto", "json")):
            without_error(getattr(result, name), folder / f"{number}.{ending}")
        without_error(result.compare, result)


@check
def a_saved_result_replaces_a_file(files, folder):
    import accel_magic

    (folder / "again.parquet").write_bytes(b"old")
    path = accel_magic.open(files[0]).to_parquet(folder / "again.parquet")

    assert accel_magic.open(path).hits == accel_magic.open(files[0]).hits


@check
def every_recording_replays(files, folder):
    import accel_magic
    from accel_magic.errors import RecordingError

    played = 0
    for file in files:
        opened = accel_magic.open(file)
        try:
            again = accel_magic.replay(file, speed=SPEED)
        except RecordingError as error:
            if error.code not in ("recording.not-playable", "recording.not-a-trace"):
                raise
            continue
        played += 1
        assert type(again) is type(opened)
        assert again.counts.equals(opened.counts)
        assert len(again.events) == len(opened.events)
        assert "REPLAY" in repr(again)
    assert played > 5


@check
def a_replay_shows_live_samples_and_ends_early_on_request(files, folder):
    from accel_magic.api.replay import player

    seen = []
    playing = player(files[0], speed=SLOW)
    playing.prepare()
    playing.attach(seen.extend)
    playing.go()
    while not seen or not seen[-1].time_ns:
        time.sleep(0.01)
    result = playing.stop("interrupted")

    assert result.recording.outcome == "interrupted"
    assert result.duration_s * 1e9 >= int(seen[-1].time_ns * SLOW)


@check
def magics_replay(files, folder, shell):
    shell.run_line_magic("load_ext", "accel_magic")
    import accel_magic

    for file in files[:3]:
        with contextlib.redirect_stdout(io.StringIO()):
            shell.run_line_magic("ktrace", f"--replay {file} --speed {SPEED} -o replayed")
        assert shell.user_ns["replayed"].counts.equals(accel_magic.open(file).counts)


@check
def exercises_play_recordings_and_are_solved(files, folder, shell):
    from accel_magic.workshop import board, exercises, material

    os.environ |= {"ACCEL_MAGIC_WORKSHOP": str(folder / "class"), "ACCEL_MAGIC_WORKSHOP_USER": "alice"}
    os.chdir(folder)
    recorded = [name for name in exercises.NAMES if exercises.find(name).needs != "nothing"]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for magic in ("KTrace", "Flame"):
            shell.config[magic].speed = float(SPEED)
        for name in recorded:
            for cell in material.solution(name)["cells"]:
                if cell["cell_type"] == "code":
                    shell.run_cell("".join(cell["source"])).raise_error()
        for magic in ("KTrace", "Flame"):  # the checks after this one trace
            shell.run_line_magic("config", f"{magic}.replay = ''")
    assert printed.getvalue().count("REPLAY: ") >= len(recorded)
    standings = board.read(folder / "class").standings["alice"]
    assert [name for name, one in standings.items() if one.state == "solved"] == recorded
    assert len(material.write(folder / "notebooks")) == len(exercises.NAMES)


@check
def live_traces_are_errors_that_say_so(files, folder, shell):
    import accel_magic
    from accel_magic.errors import MachineError

    program = folder / "mine.bpf.c"
    program.write_text("int on_hit(struct pt_regs *ctx) { return 0; }\n")
    blocks = {
        "trace": lambda: accel_magic.trace("tracepoint:syscalls:sys_enter_read"),
        "tasks": lambda: accel_magic.trace("itt:*:*"),
        "flame": accel_magic.flame,
        "threads": lambda: accel_magic.flame(sampler="thread"),
        "gputrace": lambda: accel_magic.gputrace("memtrace", device="cpu"),
        "program": lambda: accel_magic.trace_program(program, "on_hit=uprobe:libc:malloc"),
        "policy": lambda: accel_magic.attach_policy("fifo"),
    }
    lines = ("ktrace tracepoint:syscalls:sys_enter_read", "ktrace itt:*:*", "flame", "gputrace memtrace --device cpu")

    def entered(make):
        with make():
            pass

    actions = {name: functools.partial(entered, make) for name, make in blocks.items()}
    actions["collect_tasks"] = accel_magic.collect_tasks
    for line in lines:
        name, _, rest = line.partition(" ")
        actions[f"%%{line}"] = functools.partial(shell.run_cell_magic, name, rest, "1 + 1\n")
    for name, action in actions.items():
        error = raised(MachineError, action)
        assert error is not None, name
        assert error.code == "machine.platform", (name, error)
        assert "replay" in error.fix, name


@check
def marks_in_scripts_do_nothing(files, folder):
    import accel_magic

    with accel_magic.task("load"):
        accel_magic.step(1)


@check
def the_command_line_shows_files(files, folder):
    from accel_magic.command_line import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["show", str(files[0])]) == 0
    assert "hits" in printed.getvalue()
    with contextlib.redirect_stderr(io.StringIO()) as said:
        assert main(["trace", "tracepoint:syscalls:sys_enter_read", "--", "true"]) == 1
    assert "Linux" in said.getvalue()


@check
def the_doctor_reports_the_system(files, folder):
    import accel_magic

    assert "live tracing works on Linux" in str(accel_magic.doctor.report())


def main(system, folder, *files):
    for name in FIRST:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    from tests.support import other_system

    assert "accel_magic" not in sys.modules
    other_system.become(system)
    wrong = {}
    for function in CHECKS:
        more = (shell,) if "shell" in function.__code__.co_varnames[: function.__code__.co_argcount] else ()
        try:
            function([Path(file) for file in files], Path(folder), *more)
        except Exception:  # noqa: BLE001 - reported
            wrong[function.__name__] = traceback.format_exc()
        else:
            wrong[function.__name__] = ""
    print(json.dumps(wrong))


if __name__ == "__main__":
    main(*sys.argv[1:])
