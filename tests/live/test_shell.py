"""`%%ktrace` in an IPython shell without a notebook."""

import os
import re
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import accel_magic
from accel_magic import ProbeError, TraceStateError, load_ipython_extension
from accel_magic.magics import cell_runner, ktrace_magic
from tests.support.errors import raises

pytestmark = pytest.mark.live

GETPPID = "tracepoint:syscalls:sys_enter_getppid"
HEAD = f"%%ktrace {GETPPID}"


@pytest.fixture(scope="module")
def ipython():
    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_cell("%load_ext accel_magic")
    yield shell
    shell.run_cell("%unload_ext accel_magic")
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(ipython):
    """Run a cell as a user does; return (the shell's result, the output)."""
    ipython.user_ns["os"] = os

    def run_cell(code):
        with capture_output(display=False) as captured:
            done = ipython.run_cell(code, store_history=True)
        return done, captured.stdout + captured.stderr

    return run_cell


def test_the_result_is_out_underscore_and_last(shell, ipython):
    done, printed = shell(f"{HEAD}\nfor i in range(100): os.getppid()\n'the value'")

    assert done.success
    assert done.result.hits == 100
    assert done.result.value == "the value"
    assert ipython.user_ns["_"] is done.result is accel_magic.last
    assert ipython.user_ns["Out"][ipython.execution_count - 1] is done.result
    assert shell("len(_.events)")[0].result == 100
    # The cell's own value is shown first, then the result as text.
    assert printed.index("'the value'") < printed.index("sys_enter_getppid")
    assert "100" in printed


def test_o_assigns_and_a_semicolon_suppresses_output(shell, ipython):
    _, printed = shell(f"{HEAD} -o named\nos.getppid();")
    assert printed.strip() == ""
    assert ipython.user_ns["named"].hits == 1
    assert ipython.user_ns["named"].value == os.getppid()

    _, printed = shell(f"{HEAD} -o named\nos.getppid()")
    assert str(os.getppid()) in printed
    assert "sys_enter_getppid" in printed


def test_the_cell_runs_in_the_users_namespace(shell, ipython):
    shell("before = 20")
    shell(f"{HEAD}\ninside = before + 1\ndef twice(x): return 2 * x\n")

    assert ipython.user_ns["inside"] == 21
    assert shell("twice(inside)")[0].result == 42


def test_a_cell_without_a_last_expression_has_no_value(shell):
    done, _ = shell(f"{HEAD}\nx = os.getppid()")
    assert (done.result.value, done.result.hits) == (None, 1)


def test_an_exception_is_raised_once_with_its_own_traceback_and_the_partial_result_is_kept(shell, ipython):
    done, printed = shell(f"{HEAD} -o partial\nos.getppid()\ndef inner():\n    return 1 / 0\n\ninner()\nos.getppid()")

    assert isinstance(done.error_in_exec, ZeroDivisionError)
    assert printed.count("ZeroDivisionError: ") == 1
    # Line numbers as in the notebook: the magic's line is 1.
    assert re.search(r"line:? ?6|----> 6", printed)
    assert "----> 6 inner()" in printed
    assert "----> 4     return 1 / 0" in printed
    assert Path(ktrace_magic.__file__).name not in printed
    assert Path(cell_runner.__file__).name not in printed
    assert ipython.user_ns["partial"] is accel_magic.last
    assert (accel_magic.last.hits, accel_magic.last.recording.outcome) == (1, "error")
    assert printed.index("sys_enter_getppid") < printed.index("ZeroDivisionError: ")


def test_an_interrupt_keeps_the_partial_result(shell, ipython, left_behind):
    pressed = "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\nasleep = 'over'"
    code = f"{HEAD}\nimport signal, time\nos.getppid()\n{pressed}"
    done, printed = shell(code)

    assert "asleep" not in ipython.user_ns
    assert isinstance(done.error_in_exec, KeyboardInterrupt)
    assert (accel_magic.last.hits, accel_magic.last.recording.outcome) == (1, "interrupted")
    assert printed.count("KeyboardInterrupt") >= 1
    assert left_behind() == set()


def test_exiting_the_shell_from_the_cell_detaches_the_probes(shell, left_behind):
    done, _ = shell(f"{HEAD}\nos.getppid()\nraise SystemExit(3)")

    assert isinstance(done.error_in_exec, SystemExit)
    assert accel_magic.last.hits == 1
    assert left_behind() == set()


def test_a_syntax_error_attaches_nothing_and_points_to_the_users_line(shell, ipython, monkeypatch):
    monkeypatch.setattr("accel_magic.engine.session.attach", lambda *_, **__: pytest.fail("attached"))
    before = accel_magic.last
    done, printed = shell(f"{HEAD}\nnever_run = 1\ny = (")

    assert isinstance(done.error_in_exec, SyntaxError)
    assert done.error_in_exec.lineno == 3
    assert "y = (" in printed
    assert accel_magic.last is before
    assert "never_run" not in ipython.user_ns


def test_top_level_await_is_rejected_before_anything_is_attached(shell, monkeypatch):
    monkeypatch.setattr("accel_magic.engine.session.attach", lambda *_, **__: pytest.fail("attached"))
    done, printed = shell(f"{HEAD}\nimport asyncio\nawait asyncio.sleep(0)")

    assert isinstance(done.error_in_exec, TraceStateError)
    assert "await" in printed
    assert "fix: " in printed


def test_await_inside_a_function_is_accepted(shell):
    done, _ = shell(f"{HEAD}\nasync def f():\n    await asyncio.sleep(0)\nos.getppid()")
    assert done.success
    assert done.result.hits == 1


def test_nested_tracing_is_rejected_and_the_outer_trace_is_kept(shell):
    done, printed = shell(f"{HEAD}\nos.getppid()\nget_ipython().run_cell_magic('ktrace', '{GETPPID}', '1')")

    assert isinstance(done.error_in_exec, TraceStateError)
    assert "already running" in printed
    assert accel_magic.last.hits == 1
    assert accel_magic.last.recording.outcome == "error"


def test_magics_and_commands_inside_the_cell_work(shell, ipython):
    done, printed = shell(
        "%%ktrace t:sched:sched_process_exec --scope self -o t\n"
        "!/bin/echo from the shell\n"
        "listing = !/bin/echo captured\n"
        "%time 1 + 1\n"
        "%config InlineBackend if False else None\n".replace("%config InlineBackend if False else None\n", "")
    )

    assert done.success, printed
    assert ipython.user_ns["listing"] == ["captured"]
    assert "Wall time" in printed
    files = accel_magic.last.events["filename"].tolist()
    assert files.count("/bin/echo") == 2


def test_braces_and_dollars_in_the_line_are_not_expanded(shell, ipython):
    ipython.user_ns["limit"] = 1
    done, _ = shell(f"{HEAD} --filter '{{limit}} > 0'\n1")
    assert isinstance(done.error_in_exec, ProbeError)


def test_dry_run_shows_places_and_program_and_attaches_nothing(shell, monkeypatch, ipython):
    monkeypatch.setattr("accel_magic.engine.session.attach", lambda *_, **__: pytest.fail("attached"))
    ipython.user_ns.pop("ran", None)
    done, printed = shell(f"{HEAD} latency:uprobe:libc:usleep --dry-run\nran = True")

    assert done.success
    assert "ran" not in ipython.user_ns
    for part in ("2 probe points", "syscalls:sys_enter_getppid", "libc.so.6:usleep  (latency)", "#include", "am_entry"):
        assert part in printed


def test_help_lists_every_option_and_runs_nothing(shell, ipython):
    ipython.user_ns.pop("ran", None)
    done, printed = shell("%%ktrace --help\nran = True")

    assert done.success
    assert "ran" not in ipython.user_ns
    for option in [
        "-o",
        "--mode",
        "--scope",
        "--filter",
        "--args",
        "--max-events",
        "--duration",
        "--buffer",
        "--live",
        "--no-live",
        "--save",
        "--dry-run",
        "--program",
        "--replay",
        "--speed",
    ]:
        assert option in printed
    for word in ("tracepoint:", "uprobe:", "usdt:", "latency:", "!SPEC"):
        assert word in printed


def test_config_sets_defaults_that_the_line_overrides(shell, ipython):
    shell("%config KTrace.mode = 'count'")
    try:
        counted, _ = shell(f"{HEAD}\nos.getppid()")
        recorded, _ = shell(f"{HEAD} --mode events\nos.getppid()")
    finally:
        shell("%config KTrace.mode = None")

    assert (counted.result.hits, counted.result.recorded) == (1, 0)
    assert (recorded.result.hits, recorded.result.recorded) == (1, 1)
    shell("%config KTrace.max_events = 3")
    try:
        limited, _ = shell(f"{HEAD}\nfor i in range(9): os.getppid()\nimport time; time.sleep(0.05)")
    finally:
        shell("%config KTrace.max_events = None")
    assert (limited.result.hits, limited.result.recorded) == (9, 3)
    assert "mode" in shell("%config KTrace")[1]


def test_an_invalid_default_is_rejected_and_dropped(shell, ipython):
    shell("%config KTrace.mode = 'bogus'")
    assert "bogus" not in shell("%config KTrace.mode")[1]
    with raises("option.bad-default", ProbeError, match="any of") as caught:  # IPython stores the invalid value itself
        load_ipython_extension(ipython)
    assert "%load_ext" in caught.value.fix
    load_ipython_extension(ipython)
    assert shell(f"{HEAD}\nos.getppid()")[0].result.recorded == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%%ktrace tracepoint:syscalls:sys_enter_getpp", "sys_enter_getppid"),
        ("%%ktrace t:syscalls:sys_enter_getpp", "sys_enter_getppid"),
        ("%%ktrace tracep", "tracepoint:"),
        ("%%ktrace tracepoint:sysc", "syscalls:"),
        ("%%ktrace uprobe:libc:mallo", "malloc"),
        ("%%ktrace latency:uprobe:libc:mallo", "malloc"),
        ("%%ktrace t:sched:sched_switch --max", "--max-events"),
        ("%%ktrace t:sched:sched_switch --no", "--no-live"),
        ("%%ktrace t:sched:sched_switch !t:sched:sched_wak", "sched_wakeup"),
    ],
)
def test_tab_completes_probes_and_options(ipython, line, expected):
    _, matches = ipython.complete(None, line, len(line))
    word = line.split()[-1]

    # The front end replaces the text reported by IPython with a match.
    completed = {match for match in matches if match.endswith(expected) or expected in match}
    assert completed, matches
    assert all(isinstance(match, str) for match in matches)
    assert word


def test_line_numbers_survive_a_magic_line_on_its_own(shell):
    _, printed = shell(f"{HEAD}\n\n\nraise ValueError('here')")
    assert "----> 4 raise ValueError('here')" in printed


def test_save_writes_a_file_that_open_reads(shell, tmp_path):
    path = tmp_path / "saved.parquet"
    done, _ = shell(f"{HEAD} --save {path}\nfor i in range(5): os.getppid()")

    opened = accel_magic.open(path)
    assert opened.hits == done.result.hits == 5
    assert opened.events.equals(done.result.events)


def test_replay_shows_the_banner_and_runs_the_cell_only_when_asked(shell, ipython, tmp_path):
    path = tmp_path / "saved.parquet"
    shell(f"{HEAD} --save {path} -o live\nfor i in range(5): os.getppid()")
    ipython.user_ns.pop("ran", None)

    done, printed = shell(f"%%ktrace --replay {path}\nran = True")
    assert "ran" not in ipython.user_ns
    assert printed.splitlines()[1].startswith("REPLAY: recorded on ")
    assert os.uname().release in printed
    assert done.result.events.equals(ipython.user_ns["live"].events)
    assert done.result.counts.equals(ipython.user_ns["live"].counts)

    done, _ = shell(f"%%ktrace --replay {path} --run --speed 10\nran = True\n6 * 7")
    assert ipython.user_ns["ran"] is True
    assert done.result.value == 42


def test_unloading_removes_the_magics_and_loading_restores_them(shell):
    shell("%unload_ext accel_magic")
    done, printed = shell(f"{HEAD}\n1")
    assert not done.success
    assert "ktrace" in printed
    done, printed = shell("%load_ext accel_magic")
    assert done.success, printed
    assert printed == ""
    assert shell(f"{HEAD}\nos.getppid()")[0].result.hits == 1


def test_the_doctor_accepts_no_argument_but_its_options(shell):
    done, _ = shell("%accel_doctor now")
    assert isinstance(done.error_in_exec, ProbeError)
    assert done.error_in_exec.fix


def test_the_line_magic_accepts_only_options_that_need_no_cell(shell, tmp_path):
    assert "--max-events" in shell("%ktrace --help")[1]
    assert "nothing was attached" in shell(f"%ktrace {GETPPID} --dry-run")[1]
    path = tmp_path / "saved.parquet"
    shell(f"{HEAD} --save {path}\nfor i in range(5): os.getppid()")
    assert shell(f"%ktrace --replay {path}")[0].result.hits == 5
    done, _ = shell(f"%ktrace {GETPPID}")
    assert isinstance(done.error_in_exec, ProbeError)
    assert "%%ktrace" in done.error_in_exec.fix
