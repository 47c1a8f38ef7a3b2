"""The wheel, built by pip, and a user's script checked against it with mypy."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.component

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
def wheel(tmp_path_factory):
    """The wheel, built by pip in an isolated environment."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode and "No matching distribution found for hatchling" in built.stderr:
        pytest.skip("pip cannot download hatchling, which builds the wheel")
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("accel_magic-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The Python of an environment with the wheel and this environment's other packages."""
    folder = tmp_path_factory.mktemp("user") / "venv"
    venv.create(folder, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    zipfile.ZipFile(wheel).extractall(site)
    others = Path(sysconfig.get_path("purelib")), Path(pytest.__file__).parents[1]
    (site / "others.pth").write_text("".join(f"{path}\n" for path in dict.fromkeys(others)))
    return folder / "bin" / "python"


def test_the_wheel_contains_the_files_that_traces_need_and_is_marked_as_typed(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())

    assert {
        "accel_magic/py.typed",
        "accel_magic/bpf/kernel/probe.bpf.c",
        "accel_magic/bpf/gpu/memtrace.bpf.o",
        "accel_magic/kernel/bcc/headers/include/linux/types.h",
        "accel_magic/views/flame/flame.js",
        "accel_magic/views/templates/element.html.j2",
        "accel_magic/lab/npu/npu_load.c",
        "accel_magic/steps/steps.c",
    } <= names


@pytest.mark.thorough
def test_a_users_script_is_checked_against_the_types_of_the_installed_package(installed, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(installed), script.name],
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
