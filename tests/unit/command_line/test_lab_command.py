import fcntl
import io
import json

import pytest

from accel_magic.command_line import lab_command, main
from accel_magic.errors import MachineError
from accel_magic.lab import image, level_zero, snapshot
from accel_magic.lab.image import LabImage, Progress, snapshots
from accel_magic.lab.vm import running_labs


def run(*arguments):
    """Run a command of the lab; returns the exit status."""
    return main(["lab", *arguments])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path))
    monkeypatch.setattr(running_labs, "find", list)  # this machine may run some
    return tmp_path / "lab"


@pytest.fixture
def made(tmp_path):
    """An Image whose files are there."""
    (tmp_path / "initramfs").write_bytes(bytes(7_100_000))
    return LabImage(
        kernel="6.12",
        release="6.12.7+deb13-amd64",
        vmlinuz=tmp_path / "vmlinuz",
        initramfs=tmp_path / "initramfs",
        qemu=("qemu",),
        qemu_version="11.1.3",
        packages={"busybox-static": "1"},
        notes=("something is not as pinned",),
    )


def test_build_builds_and_describes_the_default_kernel(monkeypatch, capsys, made):
    asked = []
    monkeypatch.setattr(image, "build_all", lambda *given, **options: asked.append((given, options["debs"])) or [made])
    assert run("build", "--no-level-zero", "--no-snapshot") == 0
    assert asked == [((("7.2",),), None)]
    assert capsys.readouterr().out == "6.12: 6.12.7+deb13-amd64, initramfs 7.1 MB, QEMU 11.1.3\n"


def test_build_all_builds_everything(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(image, "build_all", lambda kernels, **_: asked.append(kernels) or [])
    monkeypatch.setattr(image, "build_accelerator", lambda kernel, **_: asked.append(kernel))
    assert run("build", "--all", "--no-level-zero", "--no-snapshot") == 0
    assert asked == [("6.12", "6.18", "7.2"), "6.12", "7.2"]
    assert capsys.readouterr().out.strip() == "accelerator: built for 6.12, 7.2; start with lab run --accelerator"


def test_an_error_is_printed_with_its_fix_and_the_status_is_1(monkeypatch, capsys):
    def fail(*_, **__):
        raise MachineError("no network", why="it is off", fix="switch it on", code="lab.apt-failed")

    monkeypatch.setattr(image, "build_all", fail)
    assert run("build") == 1
    assert capsys.readouterr().err == "no network\n  why: it is off\n  fix: switch it on\n  code: lab.apt-failed\n"


def test_an_interrupt_ends_without_a_traceback(monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(image, "build_all", interrupt)
    assert run("build") == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_urls_are_those_of_the_kernel_busybox_and_qemu(capsys):
    assert run("build", "--kernel", "7.2", "--urls") == 0
    lines = capsys.readouterr().out.split()
    assert all(line.startswith("https://deb.debian.org/debian") and line.endswith(".deb") for line in lines)
    names = [line.rpartition("/")[2].partition("_")[0] for line in lines]
    assert [name.partition("-7.2.")[0] for name in names[:3]] == ["linux-binary", "linux-modules", "linux-base"]
    assert {"busybox-static", "qemu-system-x86"} <= set(names)
    assert names[-1] == "libze1"
    assert run("build", "--kernel", "7.2", "--no-level-zero", "--urls") == 0
    assert capsys.readouterr().out.split() == lines[:-1]


@pytest.fixture
def level_zeros(monkeypatch, made, tmp_path):
    """The folders of packages from which Level Zero is built."""
    folders = []
    monkeypatch.setattr(image, "build_all", lambda *_, **__: [made])
    monkeypatch.setattr(image, "build_level_zero", lambda **options: folders.append(options["debs"]))
    monkeypatch.setattr(level_zero, "find", lambda: level_zero.LevelZero(tmp_path / "loader", tmp_path, tmp_path))
    return folders


def test_level_zero_is_built_unless_it_is_declined_and_its_path_is_printed(level_zeros, capsys, tmp_path):
    assert run("build", "--no-level-zero") == 0
    assert level_zeros == []
    assert run("build") == run("build", "--level-zero", "--debs", str(tmp_path)) == 0
    assert level_zeros == [None, tmp_path]
    line = f"Level Zero: {tmp_path}/loader, available in every lab started from now on"
    assert capsys.readouterr().out.splitlines().count(line) == 2


@pytest.mark.parametrize("step", [(image, "build_level_zero"), (level_zero, "find")], ids=["package", "compiler"])
def test_level_zero_that_cannot_be_built_is_an_error_only_if_it_was_requested(level_zeros, monkeypatch, capsys, step):
    def fail(**_):
        raise MachineError("no C compiler", fix="install one", code="load.no-compiler")

    monkeypatch.setattr(*step, fail)

    assert run("build", "--no-snapshot") == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "Level Zero: not built. OpenVINO does not find the NPU, and ze_load does not work: no C compiler "
        "(see lab build --level-zero)"
    )
    assert run("build", "--level-zero") == 1
    assert capsys.readouterr().err.startswith("no C compiler\n  fix: install one")


@pytest.fixture
def saved(monkeypatch, level_zeros, tmp_path):
    """The kernels whose snapshots were built; they have 4,096 bytes on disk."""
    kernels = []
    for name in ("ram", "state"):
        (tmp_path / name).write_bytes(bytes(4096))
    one = snapshots.Snapshot(1, {}, {}, {}, 93.2, str(tmp_path))
    monkeypatch.setattr(snapshot, "build", lambda kernel, **_: kernels.append(kernel) or one)
    monkeypatch.setattr(image, "build_accelerator", lambda *_, **__: None)
    return kernels


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["7.2"]),
        (["--kernel", "6.12"], ["6.12"]),
        (["--all"], ["7.2"]),
        (["--all", "--snapshot"], ["6.12", "6.18", "7.2"]),
        (["--no-snapshot"], []),
    ],
)
def test_a_snapshot_is_built_of_the_kernel_or_the_default(saved, capsys, options, expected):
    assert run("build", *options) == 0
    assert saved == expected
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("snapshot")]
    assert [line.partition(",")[0] for line in lines] == [f"snapshot: {kernel}" for kernel in expected]
    assert all(line.endswith("MB, made in 93 s") for line in lines)


def test_a_snapshot_that_cannot_be_built_is_an_error_only_if_it_was_requested(level_zeros, capsys):
    assert run("build") == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "snapshot: none of 7.2, so labs boot. labs do not start from snapshots here: ACCEL_MAGIC_LAB_SNAPSHOT is off"
    )
    assert run("build", "--snapshot") == 1
    assert "code: lab.no-snapshots" in capsys.readouterr().err


def test_status_lists_the_labs_that_run(monkeypatch, capsys):
    labs = [
        running_labs.RunningLab(7, 1000, "ada", "7.2", True, 90.0, 12.3, 306.4, ("/home/ada/class", "/data")),
        running_labs.RunningLab(8, 1001, "1001", "", False, 3700.0, 0.2, None, ("/tmp/\x1b[31mred\n",)),
    ]
    monkeypatch.setattr(running_labs, "find", lambda: labs)
    assert run("status") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("running")]
    assert lines[0] == (
        "running: ada: 7.2 (restored) for 90 s, 12 s of CPU, 306 MiB, /home/ada/class, /data (process 7)"
    )
    assert lines[1].startswith("running: 1001: unknown kernel (booted) for 1 h 1 min")
    assert "\x1b" not in lines[1]
    assert run("status", "--json") == 0
    assert [lab["user"] for lab in json.loads(capsys.readouterr().out)["running"]] == ["ada", "1001"]


def test_status_says_that_a_snapshot_is_being_built(monkeypatch, capsys, made, cache):
    monkeypatch.setattr(image, "built", lambda: [made])
    lock = cache / "snapshots" / "lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run("status") == 0
    assert capsys.readouterr().out.count("is off; one is being built") == 1
    assert run("status") == 0
    assert "being built" not in capsys.readouterr().out


def test_status_lists_built_and_missing_images_and_notes(monkeypatch, capsys, made, cache):
    monkeypatch.setattr(image, "built", lambda: [made])
    assert run("status") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"cache: {cache}, 0 MB",
        "6.12: 6.12.7+deb13-amd64, initramfs 7.1 MB, QEMU 11.1.3",
        "  note: something is not as pinned",
        "6.18: not built (python -m accel_magic lab build --kernel 6.18)",
        "7.2: not built (python -m accel_magic lab build --kernel 7.2)",
        "Level Zero: not built (python -m accel_magic lab build)",
        "snapshot: 6.12: labs boot, because ACCEL_MAGIC_LAB_SNAPSHOT is off",
        "accelerator: not built (python -m accel_magic lab build --kernel 7.2 --accelerator)",
    ]


def test_status_as_json_has_every_field_of_the_images(monkeypatch, capsys, made, cache):
    monkeypatch.setattr(image, "built", lambda: [made])
    assert run("status", "--json") == 0
    status = json.loads(capsys.readouterr().out)
    assert status["cache"] == str(cache)
    assert status["bytes"] == 0
    assert status["images"][0]["release"] == "6.12.7+deb13-amd64"
    assert status["level_zero"] is None
    assert status["images"][0]["packages"] == {"busybox-static": "1"}


def test_clean_removes_logs_and_programs_too_but_not_for_one_kernel(cache, capsys):
    for name in ("runs/one/console.log", "programs/npu_load"):
        (cache / name).parent.mkdir(parents=True)
        (cache / name).write_bytes(bytes(3_000_000))

    assert run("clean", "--kernel", "7.2") == 0
    assert (cache / "runs/one/console.log").exists()
    assert run("clean") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "6 MB removed"
    assert not (cache / "runs").exists()
    assert not (cache / "programs").exists()


def test_clean_prints_how_much_it_freed(cache, capsys):
    (cache / "parts").mkdir(parents=True)
    (cache / "parts" / "x").write_bytes(bytes(3_000_000))
    assert run("clean") == 0
    assert capsys.readouterr().out == "3 MB removed\n"
    assert not (cache / "parts").exists()


def reports(*, terminal):
    output = io.StringIO()
    output.isatty = lambda: terminal
    bar = lab_command.Bar(output)
    bar(Progress("fetch", 0, 4_000_000, "2 packages"))
    bar(Progress("fetch", 1_000_000, 4_000_000, "2 packages"))
    bar(Progress("note", 0, 0, "another version"))
    bar(Progress("build", 0, 0, "the initramfs"))
    bar.end()
    return output.getvalue()


def test_without_a_terminal_there_is_one_line_per_step():
    assert reports(terminal=False) == "fetching: 2 packages\nnote: another version\nbuilding: the initramfs\n"


def test_on_a_terminal_the_bar_is_redrawn_in_place(monkeypatch):
    monkeypatch.setenv("COLUMNS", "81")
    lines = reports(terminal=True).split("\n")
    assert lines[0].split("\r")[1:] == [
        f"fetching      [{' ' * 24}]    0.0 of 4.0 MB 2 packages".ljust(80),
        f"fetching      [{'#' * 6}{' ' * 18}]    1.0 of 4.0 MB 2 packages".ljust(80),
    ]
    assert lines[1] == "note: another version"
    assert lines[2] == "\r" + "building      ... the initramfs".ljust(80)
