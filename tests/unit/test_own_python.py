"""Helper processes run this package and Python's own modules, whatever modules are beside the notebook."""

import ast
import os
import signal
import subprocess
import sys

import pytest

import accel_magic
from accel_magic import own_python
from accel_magic.errors import MachineError
from accel_magic.gpu import requirements
from accel_magic.lab import npu
from accel_magic.lab.vm import lab_settings, qemu_command
from accel_magic.lab.vm.lab_settings import Settings
from accel_magic.recording.reader import reader_client
from accel_magic.recording.reader.reader_messages import ProgramRings
from tests.support import sources
from tests.support.paths import ROOT
from tests.support.sources import PACKAGE

RECORDING = ROOT / "notebooks" / "recordings" / "quickstart-single.parquet"
HIDING = ("platform", "json", "socket", "struct", "subprocess", "dataclasses", "numpy", "accel_magic")


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A working folder with modules that shadow others; returns a function that lists those that ran in any process."""
    (tmp_path / "ran").mkdir()
    for name in HIDING:
        folder = tmp_path / name
        folder.mkdir()
        program = f"import os; open({str(tmp_path / 'ran' / name)!r}, 'w').close(); os._exit(9)\n"
        (folder / "__init__.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return lambda: sorted(path.name for path in (tmp_path / "ran").iterdir())


def test_modules_beside_the_notebook_do_not_run_in_the_reader(planted):
    reader_client.end()

    result = accel_magic.replay(RECORDING, speed=1000)

    assert planted() == []
    assert result.hits > 0


def test_modules_beside_the_notebook_do_not_run_in_other_helpers(planted, tmp_path):
    device = qemu_command.device(Settings(), socket=tmp_path / "s", log=tmp_path / "l", statistics=tmp_path / "j")
    for command in (
        [*device[:4], "--help"],
        own_python.command("accel_magic.lab.npu", "--help"),
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert planted() == [], command
        assert done.returncode in (0, 1), done.stderr


def test_modules_beside_the_notebook_do_not_run_in_helpers_that_answer_requests(planted, tmp_path):
    requirements.look_for_gpus()
    with pytest.raises(MachineError) as caught:
        npu.load(2, processes=2, device=tmp_path / "no device")
    answer = subprocess.run([tools_script(tmp_path), "--device", tmp_path / "none"], capture_output=True, check=False)

    assert planted() == []
    assert "no device" in str(caught.value)
    assert b"none" in answer.stdout + answer.stderr


def tools_script(folder):
    """`npu_load` as installed in a lab without a C compiler."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab_settings, "compile_load", refuse)
        lab_settings.install(folder / "bin")
    return folder / "bin" / "npu_load"


def refuse(*_):
    raise MachineError("there is no C compiler", code="native.no-compiler")


def test_another_package_of_this_name_on_the_search_path_does_not_run(tmp_path, monkeypatch):
    (tmp_path / "accel_magic").mkdir()
    (tmp_path / "accel_magic" / "__init__.py").write_text("raise SystemExit('the other package')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    done = subprocess.run(
        own_python.command("accel_magic.lab.npu", "--help"), capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_helpers_use_the_users_search_path(tmp_path, monkeypatch):
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("raise SystemExit('the numpy of the user')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    command = own_python.command("accel_magic.recording.reader.reader_process", "0", "0")
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.stderr.strip() == "the numpy of the user"


def test_every_start_of_python_excludes_the_working_folder():
    """All uses of `sys.executable` pass -P or -I."""
    starts = {
        f"{path.relative_to(PACKAGE)}:{node.lineno}": ast.unparse(node.elts[1])
        for path in sources.modules()
        for node in sources.nodes(path)
        if isinstance(node, ast.List) and node.elts and ast.unparse(node.elts[0]) == "sys.executable"
    }

    assert starts  # the search itself works
    assert {place: option for place, option in starts.items() if option not in ("'-P'", "'-I'")} == {}


def test_a_reader_that_dies_is_an_error_with_its_last_message(monkeypatch):
    words = [sys.executable, "-c", "import sys; sys.exit('the words before its end')"]
    monkeypatch.setattr(own_python, "command", lambda *_: words)
    one = reader_client.Reader()
    with pytest.raises(MachineError) as caught:
        one.prepare(ProgramRings(rings=(), most_bytes=1))
    assert "the words before its end" in caught.value.why
    assert "memory" not in str(caught.value)

    monkeypatch.undo()
    one = reader_client.Reader()
    os.kill(one.pid, signal.SIGKILL)
    with pytest.raises(MachineError) as caught:
        one.prepare(ProgramRings(rings=(), most_bytes=1))
    assert "memory" in caught.value.why


def test_the_message_of_a_gpu_helper_is_part_of_the_error(monkeypatch):
    monkeypatch.setattr(own_python, "command", lambda *_: [sys.executable, "-c", "import sys; sys.exit('its words')"])

    assert "its words" in requirements.look_for_gpus().why


def test_an_ended_helper_leaves_no_descriptors_open():
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    one = reader_client.Reader()
    one.end()
    one.end()

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
