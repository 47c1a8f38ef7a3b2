"""The installation of the broker: its files, its commands, and what it refuses."""

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from accel_magic.broker import broker_policy, install
from accel_magic.broker.install import SERVICE_UNIT, SOCKET_UNIT
from accel_magic.command_line import main
from accel_magic.errors import MachineError
from tests.support.errors import raises

CODE = [Path("/usr/bin/python3")]
needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder that takes the place of `/`, on a machine without the broker's user; others cannot write above it."""
    monkeypatch.setattr(install, "NAME", "accel-magic-absent")
    tmp_path.chmod(0o755)
    return tmp_path


def installed(root):
    """Install; return the commands in their order."""
    commands = []
    install.do(install.installation(CODE, root), commands.append)
    return [" ".join(command) for command in commands]


def files(root):
    return {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_symlink() or path.is_file()}


def test_three_files_are_written_and_the_socket_is_started(root):
    commands = installed(root)

    found = files(root)
    assert sorted(found) == [
        "etc/accel_magic/broker.toml",
        f"etc/systemd/system/{SERVICE_UNIT}",
        f"etc/systemd/system/{SOCKET_UNIT}",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in found.values()} == {0o644}
    assert [command.split()[0] for command in commands] == ["groupadd", "useradd", *["systemctl"] * 3]
    assert commands[-2] == f"systemctl enable --now {SOCKET_UNIT}"
    assert broker_policy.load(found["etc/accel_magic/broker.toml"]) == broker_policy.BrokerPolicy()


def test_the_commented_policy_is_the_default_one(root):
    installed(root)
    file = files(root)["etc/accel_magic/broker.toml"]

    file.write_text(re.sub("^#", "", file.read_text().split("\n", 2)[2], flags=re.MULTILINE))

    assert "[limits]" in file.read_text()
    assert broker_policy.load(file) == broker_policy.BrokerPolicy()


def test_a_policy_is_kept_when_the_rest_is_written_again_and_when_it_is_removed(root):
    installed(root)
    file = files(root)["etc/accel_magic/broker.toml"]
    file.write_text("# mine\n")
    installed(root)
    commands = []

    work = install.removal(root)
    install.do(work, commands.append)

    assert files(root) == {"etc/accel_magic/broker.toml": file}
    assert file.read_text() == "# mine\n"
    assert commands[0] == ("systemctl", "disable", "--now", SOCKET_UNIT)
    assert str(file) in work.notes[0]
    assert install.removal(root).notes == ("the broker is not installed",)


def test_an_update_replaces_the_units_as_a_whole(root):
    installed(root)
    service = files(root)[f"etc/systemd/system/{SERVICE_UNIT}"]
    whole, before = service.read_text(), service.stat().st_ino
    service.write_text("old")

    installed(root)

    assert service.read_text() == whole
    assert service.stat().st_ino != before


@pytest.mark.parametrize("place", ["etc/accel_magic", "etc/systemd", f"etc/systemd/system/{SERVICE_UNIT}"])
def test_links_are_refused_before_anything_is_written_or_run(root, place):
    elsewhere = root / "elsewhere"
    elsewhere.mkdir()
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).symlink_to(elsewhere)
    commands = []

    with raises("broker.bad-place", MachineError, match="is a link"):
        install.do(install.installation(CODE, root), commands.append)

    assert commands == []
    assert [*elsewhere.iterdir()] == []
    assert [*files(root)] == [place]


def test_folders_that_others_can_write_to_are_refused(root):
    (root / "etc").mkdir()
    (root / "etc").chmod(0o777)

    with raises("broker.bad-place", MachineError, match="others than root can change"):
        installed(root)


def test_a_failed_command_is_a_typed_error(root):
    with raises("broker.command-failed", MachineError, match="no-such-command-here"):
        install.do(install.Work(before=(("no-such-command-here",),)))
    with raises("broker.command-failed", MachineError, match="exit status 1"):
        install.do(install.Work(before=(("false",),)))


def test_a_dry_run_shows_every_file_and_command_and_changes_nothing(capsys, monkeypatch):
    monkeypatch.setattr(install, "code_paths", lambda: CODE)
    monkeypatch.setattr(install, "_run", lambda _: pytest.fail("a command was run"))
    monkeypatch.setattr(install, "_write", lambda _: pytest.fail("a file was written"))

    status = main(["broker", "install", "--dry-run"])

    output = capsys.readouterr().out
    assert status == 0
    for text in (SOCKET_UNIT, SERVICE_UNIT, "(mode 0644)", "NoNewPrivileges=yes", "SocketMode=0660"):
        assert text in output
    assert f"would run: systemctl enable --now {SOCKET_UNIT}" in output


def test_a_dry_run_warns_about_code_that_others_can_change(capsys, monkeypatch, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code").chmod(0o777)
    monkeypatch.setattr(install, "code_paths", lambda: [tmp_path / "code"])

    assert main(["broker", "install", "--dry-run"]) == 0
    assert "the broker would run code that others than root can change" in capsys.readouterr().err


def test_without_systemd_the_error_names_the_other_way(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(install, "_BOOTED", tmp_path / "missing")

    assert main(["broker", "install"]) == 1
    errors = capsys.readouterr().err
    assert "broker.no-systemd" in errors
    assert "accel-magic broker run" in errors


def test_only_root_installs(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(install, "_BOOTED", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert main(["broker", "uninstall"]) == 1
    assert "broker.not-root" in capsys.readouterr().err


# ---- code that others can change


@pytest.fixture
def code(tmp_path):
    """A folder with a package that nobody else can change."""
    folder = tmp_path / "code"
    for part in (folder, folder / "package", folder / "package" / "inner"):
        part.mkdir()
        part.chmod(0o755)
        (part / "module.py").touch()
        (part / "module.py").chmod(0o644)
    tmp_path.chmod(0o755)
    return folder


def unsafe(*paths):
    return [found.path for found in install.unsafe(paths, os.geteuid())]


def test_code_of_root_is_safe(code):
    (code / "link.py").symlink_to(code / "package" / "module.py")
    (code / "circle").symlink_to(code / "circle")
    (code / "up").symlink_to(code)

    assert unsafe(code, code / "package" / "module.py", code / "missing" / "python311.zip") == []


@pytest.mark.parametrize("place", ["", "package", "package/inner/module.py", "module.py"])
def test_anything_that_others_can_write_to_is_found(code, place):
    (code / place).chmod(0o777)

    assert unsafe(code) == [code / place]
    assert unsafe(code / "package") == ([] if place == "module.py" else [code / place])


def test_the_targets_of_links_are_examined(code, tmp_path):
    target = tmp_path / "other" / "deep"
    target.mkdir(parents=True)
    (tmp_path / "other").chmod(0o777)
    target.chmod(0o755)
    (code / "package" / "link").symlink_to("../../other/deep")

    assert unsafe(code) == [tmp_path / "other"]


def test_a_missing_file_that_others_could_create_is_found(code, tmp_path):
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)

    assert unsafe(sticky / "python311.zip") == [sticky]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_code_of_another_user_is_found(code):
    os.chown(code / "package", 61001, 0)

    (found,) = install.unsafe([code])
    assert found.path == code / "package"
    with raises("broker.writable-code", MachineError, match="belongs to user 61001"):
        raise found.error()


def test_the_running_interpreter_and_the_package_are_among_the_code():
    paths = {Path(os.path.realpath(path)) for path in install.code_paths()}

    assert Path(install.__file__).parents[1] in paths
    assert Path(os.path.realpath(install.sys.executable)) in paths
    assert Path(os.path.realpath(os.__file__)).parent in paths


# ---- systemd's opinion


@needs_systemd
def test_systemd_finds_no_mistake_in_the_units(root):
    installed(root)
    units = [path for name, path in files(root).items() if name.startswith("etc/systemd")]

    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)

    about_ours = [
        line for line in done.stderr.splitlines() if "accel-magic" in line and "is not executable" not in line
    ]
    assert about_ours == []


@needs_systemd
@pytest.mark.parametrize(
    ("interpreter", "homes", "most"), [("/usr/bin/python3", "yes", 1.1), ("/home/a/bin/python", "read-only", 1.2)]
)
def test_systemd_rates_the_service_as_little_exposed(root, interpreter, homes, most):
    work = install.installation([Path(interpreter)], root)
    install.do(work, lambda _: None)
    unit = files(root)[f"etc/systemd/system/{SERVICE_UNIT}"]
    assert f"ProtectHome={homes}\n" in unit.read_text()

    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    exposure = re.search(r"exposure level for .*: ([\d.]+)", done.stdout)
    assert exposure, done.stderr
    assert float(exposure[1]) <= most  # as docs/broker.md says


@pytest.mark.parametrize(("level", "changed"), [("3", True), ("4", True), ("2", False), ("-1", False), (None, False)])
def test_a_kernel_that_does_not_let_the_capability_suffice_is_set_to_the_usual_level(root, level, changed):
    if level is not None:
        (root / "proc/sys/kernel").mkdir(parents=True)
        (root / "proc/sys/kernel/perf_event_paranoid").write_text(level + "\n")
    commands, setting = [], root / "etc/sysctl.d/60-accel-magic-broker.conf"

    install.do(install.installation(CODE, root), commands.append)

    assert (("sysctl", "--load", str(setting)) in commands, setting.exists()) == (changed, changed)
    if changed:
        assert setting.read_text().splitlines()[-1] == "kernel.perf_event_paranoid = 2"
    install.do(install.removal(root), commands.append)
    assert not setting.exists()
