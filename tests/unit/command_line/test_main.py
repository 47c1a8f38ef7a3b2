"""The command line as a whole: commands, error reports, and that it loads no front end."""

import json
import subprocess
import sys

import pytest

from accel_magic import command_line
from accel_magic.command_line import guarded, main
from accel_magic.errors import MachineError, ProbeError, RecordingError

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    ("error", "status"),
    [(ProbeError, 2), (MachineError, 1), (RecordingError, 1)],
)
def test_errors_show_what_why_fix_and_code_and_probe_errors_have_status_2(error, status, capsys):
    def fail():
        raise error("it is wrong", why="so it is", fix="do this", code="area.reason")

    assert guarded(fail) == status
    assert capsys.readouterr().err == "it is wrong\n  why: so it is\n  fix: do this\n  code: area.reason\n"


def test_missing_parts_of_an_error_are_omitted(capsys):
    def fail():
        raise MachineError("it is wrong", code="machine.wrong")

    assert guarded(fail) == 1
    assert capsys.readouterr().err == "it is wrong\n  code: machine.wrong\n"


def test_an_interrupt_ends_a_command_without_a_traceback(capsys):
    def interrupt():
        raise KeyboardInterrupt

    assert guarded(interrupt) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_every_command_has_help(capsys):
    for words in (["--help"], *([name, "--help"] for name in ("trace", "show", "doctor", "lab"))):
        with pytest.raises(SystemExit) as left:
            main(words)
        assert left.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: accel-magic {' '.join(words[:-1])}".rstrip())


@pytest.mark.parametrize("words", [["show"], ["show", "a", "b"], ["doctor", "--", "ls"], ["trace", "--frobnicate"]])
def test_bad_arguments_end_with_usage_and_status_2(words, capsys):
    with pytest.raises(SystemExit) as left:
        main(words)

    assert left.value.code == 2
    assert "usage: accel-magic" in capsys.readouterr().err


def test_options_are_not_abbreviated(capsys):
    with pytest.raises(SystemExit):
        main(["trace", "t:a:b", "--max", "3"])
    assert "--max" in capsys.readouterr().err


def test_a_closed_output_pipe_is_not_an_error():
    sample = "tests/unit/formats/samples/bpftrace.txt"
    process = subprocess.Popen(
        [sys.executable, "-m", "accel_magic", "show", sample], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()

    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1


@pytest.mark.parametrize(
    "words",
    [
        ["trace", "tracepoint:syscalls:sys_enter_getppid", "--dry-run"],
        ["trace", "nonsense:x:y:z", "--", "true"],
        ["show", "tests/unit/formats/samples/bpftrace.txt"],
    ],
)
def test_no_front_end_is_loaded(words):
    script = (
        "import json, sys; from accel_magic.command_line import main; status = main(json.loads(sys.argv[1]));"
        "print([name for name in ('IPython', 'ipykernel', 'ipywidgets', 'traitlets') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(words)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_commands_of_the_module_and_of_the_program_are_the_same():
    from accel_magic import __main__

    assert __main__.main is command_line.main
