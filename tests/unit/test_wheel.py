"""The wheel, built by pip, and a user's script checked against it with mypy."""

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from accel_magic.itt import collector
from accel_magic.patching import library_file
from accel_magic.steps import library
from tests.support.paths import ROOT

pytestmark = pytest.mark.component

BUILT = {
    f"accel_magic/itt/{collector.SHIPPED}",
    f"accel_magic/patching/{library_file.SHIPPED}",
    f"accel_magic/steps/{library.NAME}",
}
"""What a C compiler makes."""
RECORDING = ROOT / "notebooks/recordings/quickstart-single.parquet"
SCRIPT = """\
import accel_magic
from accel_magic import TraceResult, trace

with trace("latency:uprobe:libc:malloc", mode="count") as t:
    pass
result: TraceResult = t.result
accel_magic.open("run.parquet").to_parquet("copy.parquet")
reveal_type(t.result.hits)
reveal_type(accel_magic.flame())
t.result.no_such_name
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """A function that has pip build the wheel in an isolated environment, from a copy of the sources without binaries.

    Its arguments are changes of the environment.
    """
    source = tmp_path_factory.mktemp("sources") / "checkout"
    source.mkdir()
    for name in ("accel_magic", "bpf", "notebooks/workshop", "tools"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, source)

    @functools.cache
    def make(**environment):
        folder = tmp_path_factory.mktemp("wheel")
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            str(folder),
            str(source),
        ]
        built = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        if built.returncode and "No matching distribution found for hatchling" in built.stderr:
            pytest.skip("pip cannot download hatchling, which builds the wheel")
        assert built.returncode == 0, built.stderr
        (found,) = folder.glob("accel_magic-*.whl")
        return found

    return make


@pytest.fixture(scope="module")
def wheel(build):
    """The wheel for this platform."""
    return build()


@pytest.fixture(scope="module")
def pure_wheel(build, tmp_path_factory):
    """The wheel that is built where there is no C compiler."""
    return build(PATH=str(tmp_path_factory.mktemp("no-programs")), CC="")


@pytest.fixture(scope="module")
def install(tmp_path_factory):
    """A function that installs a wheel into an environment with this one's other packages; it returns its programs."""

    def installed(wheel):
        folder = tmp_path_factory.mktemp("user") / "venv"
        venv.create(folder, symlinks=True)
        python = folder / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
        subprocess.run([*pip, str(wheel)], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        others = Path(sysconfig.get_path("purelib")), Path(pytest.__file__).parents[1]
        (site / "others.pth").write_text("".join(f"{path}\n" for path in dict.fromkeys(others)))
        return folder / "bin"

    return installed


def test_the_wheel_contains_the_files_that_traces_need_and_is_marked_as_typed(wheel):
    assert {
        "accel_magic/py.typed",
        "accel_magic/bpf/kernel/probe.bpf.c",
        "accel_magic/workshop/material/01_jobs.ipynb",
        "accel_magic/workshop/material/recordings/jobs_0-t.parquet",
        "accel_magic/bpf/gpu/memtrace.bpf.o",
        "accel_magic/kernel/bcc/headers/include/linux/types.h",
        "accel_magic/views/flame/flame.js",
        "accel_magic/views/templates/element.html.j2",
        "accel_magic/lab/npu/npu_load.c",
        "accel_magic/steps/steps.c",
        "accel_magic/patching/entry.S",
        "accel_magic/patching/hits.h",
    } <= names_of(wheel)


def names_of(wheel):
    return set(zipfile.ZipFile(wheel).namelist())


def test_a_wheel_with_the_compiled_libraries_is_for_this_platform(wheel):
    assert names_of(wheel) >= BUILT
    assert wheel.stem.split("-")[-3:] == ["py3", "none", sysconfig.get_platform().replace("-", "_").replace(".", "_")]


def test_a_wheel_without_them_is_for_all_platforms(wheel, pure_wheel):
    assert pure_wheel.stem.split("-")[-3:] == ["py3", "none", "any"]
    assert names_of(wheel) - names_of(pure_wheel) == BUILT
    assert not names_of(pure_wheel) - names_of(wheel)


def test_no_wheel_has_a_path_of_the_machine_that_built_it(wheel, pure_wheel, build):
    for each in (wheel, pure_wheel):
        with zipfile.ZipFile(each) as files:
            for name in files.namelist():
                assert not Path(name).is_absolute()
                assert b"/checkout/" not in files.read(name), name
                assert str(ROOT).encode() not in files.read(name), name


@pytest.mark.parametrize("kind", ["wheel", "pure_wheel"])
def test_what_is_installed_opens_and_replays_a_recording(kind, request, install, tmp_path):
    programs = install(request.getfixturevalue(kind))
    script = "import sys, accel_magic; print(accel_magic.__file__, accel_magic.replay(sys.argv[1], speed=1000).hits)"

    def output(*command):
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    file, hits = output(programs / "python", "-c", script, RECORDING).split()
    shown = output(programs / "accel-magic", "show", RECORDING)

    assert Path(file).is_relative_to(programs.parent)
    assert int(hits) > 0
    assert f"{int(hits):,} hits" in shown


@pytest.mark.thorough
def test_a_users_script_is_checked_against_the_types_of_the_installed_package(wheel, install, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(install(wheel) / "python"), script.name],
        cwd=tmp_path,
        env={**os.environ, "MYPY_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )

    lines = [line.partition("script.py:")[2] for line in done.stdout.splitlines() if "script.py:" in line]
    assert [line.partition(": ")[0] for line in lines] == ["8", "9", "10"], done.stdout
    assert '"int"' in lines[0]
    assert "FlameTrace" in lines[1]
    assert "[attr-defined]" in lines[2]
