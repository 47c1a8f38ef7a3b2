"""Variables, folders and paths that users control: the broker takes nothing from them."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from accel_magic.broker import audit, broker_policy, service
from accel_magic.errors import MachineError
from tests.broker.test_places import tree
from tests.support import brokers, callers, users

PLANTED = "json", "socket", "numpy", "select", "struct", "bcc", "platform", "accel_magic", "sitecustomize"


@pytest.fixture
def planted():
    """A folder with modules that leave a file when they are imported."""
    with TemporaryDirectory(prefix="accel_magic-planted-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        for module in PLANTED:
            (folder / f"{module}.py").write_text(f"open({str(folder / 'imported')!r}, 'a').write({module!r})\n")
        yield folder


def test_the_callers_variables_do_not_reach_the_broker(broker, planted):
    mark = str(planted)
    variables = {
        "HOME": mark,
        "TMPDIR": mark,
        "LD_PRELOAD": "libc.so.6",
        "LD_LIBRARY_PATH": mark,
        "PYTHONSTARTUP": f"{mark}/json.py",
        "BCC_KERNEL_SOURCE": mark,
        "BCC_LINUX_VERSION_CODE": "1",
        "CPATH": mark,
        "ACCEL_MAGIC_CACHE": mark,
        "ACCEL_MAGIC_LAB": mark,
    }
    process = broker.start(
        f"""
if "INSIDE" not in os.environ:
    os.environ.update({variables}, INSIDE="1")
    os.execv(sys.executable, sys.orig_argv)
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", "uprobe:libc:atoi", mode="count") as t:
    answer(os.getpid())
    sys.stdin.readline()
    os.getppid()
answer(t.result.hits)
"""
    )
    assert process.stdout.readline()
    for pid in tree(broker.process.pid):
        assert mark.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        opened = [Path(f"/proc/{pid}/cwd"), *Path(f"/proc/{pid}/fd").iterdir()]
        assert not any(mark in str(each.readlink()) for each in opened)
    output, errors = process.communicate("\n", timeout=60)
    assert json.loads(output) == [1], errors
    assert not (planted / "imported").exists()


def test_a_broker_imports_nothing_from_its_working_folder(planted, tmp_path):
    (tmp_path / "broker.toml").touch()
    path = planted / "broker.sock"
    words = ["broker", "run", "--socket", path, "--policy", tmp_path / "broker.toml", "--audit", tmp_path / "audit"]
    running = subprocess.Popen([sys.executable, "-P", "-m", "accel_magic", *words], cwd=planted)
    try:
        callers.until(path.exists)
        client = brokers.Broker.start(
            SimpleNamespace(socket=path),
            'with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", "uprobe:libc:atoi") as t: os.getppid()\n'
            "answer(t.result.hits)",
        )
        output, errors = client.communicate(timeout=60)
        assert json.loads(output) == [1], errors
        assert not (planted / "imported").exists()
    finally:
        running.terminate()
        running.wait()


def refused(call, *arguments):
    with pytest.raises(MachineError) as error:
        call(*arguments)
    return error.value.code


def test_a_policy_that_others_can_change_or_that_is_no_file_is_refused(tmp_path):
    good = tmp_path / "good.toml"
    good.touch(mode=0o644)
    (tmp_path / "link").symlink_to(good)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "others").touch()
    os.chown(tmp_path / "others", users.FIRST, 0)
    (tmp_path / "writable").touch()
    (tmp_path / "writable").chmod(0o666)
    names = ["link", "fifo", "others", "writable", "."]
    assert [refused(broker_policy.load, tmp_path / name) for name in names] == ["broker.bad-policy"] * len(names)
    assert broker_policy.load(good) == broker_policy.BrokerPolicy()


def test_an_audit_file_that_others_planted_is_refused_and_left_as_it_is(tmp_path):
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "others").touch()
    os.chown(tmp_path / "others", users.FIRST, 0)
    names = ["link", "dangling", "fifo", "others", "."]
    assert [refused(audit.opened, str(tmp_path / name)) for name in names] == ["broker.no-audit"] * len(names)
    assert target.read_text() == "kept"
    assert not (tmp_path / "nothing").exists()
    os.close(audit.opened(str(tmp_path / "new")))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def listened(path):
    with service.listening(path):
        pass


def test_a_planted_socket_path_is_refused_and_what_it_points_to_left_as_it_is(tmp_path):
    target = tmp_path / "target"
    target.touch(mode=0o600)
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    names = ["link", "dangling", "target", "folder"]
    assert [refused(listened, tmp_path / name) for name in names] == ["broker.no-socket"] * len(names)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert not (tmp_path / "nothing").exists()


def test_a_socket_that_is_replaced_while_it_is_created_changes_no_other_files_mode(tmp_path, monkeypatch):
    target, path = tmp_path / "target", tmp_path / "broker.sock"
    target.touch(mode=0o600)
    bind = service.socket.socket.bind

    def replaced(self, address):
        bind(self, address)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        path.unlink()
        path.symlink_to(target)

    monkeypatch.setattr(service.socket.socket, "bind", replaced)
    listened(path)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
