"""The doctor's check of OpenVINO, which it asks in a child process."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from accel_magic.subsystems.openvino import doctor

pytestmark = pytest.mark.component


def put(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def openvino(tmp_path, monkeypatch):
    """`openvino(code)` installs a package openvino with this code."""

    def make(code):
        package = tmp_path / "packages"
        put(package / "openvino/__init__.py", code)
        put(package / "openvino-1.2.3.dist-info/METADATA", "Metadata-Version: 2.1\nName: openvino\nVersion: 1.2.3\n")
        monkeypatch.setenv("PYTHONPATH", str(package))
        monkeypatch.syspath_prepend(str(package))

    return make


CORE = """
class Core:
    available_devices = {devices!r}
    def get_property(self, device, name):
        known = {{("CPU", "FULL_DEVICE_NAME"): "A CPU", ("NPU", "FULL_DEVICE_NAME"): "An NPU",
                 ("NPU", "NPU_DRIVER_VERSION"): 1700}}
        return known[device, name]
"""


def openvino_check(*, expects_npu, deadline_s=30.0):
    with doctor.AskedOpenVino(deadline_s) as asked:
        return asked.check(expects_npu=expects_npu)


def test_openvinos_devices_are_listed_by_a_child_process(openvino):
    openvino("print('noise of a plugin')" + CORE.format(devices=["CPU", "NPU"]))

    check = openvino_check(expects_npu=True)

    assert (check.name, check.status) == ("OpenVINO", "ok")
    assert check.detail == "1.2.3: CPU (A CPU), NPU (An NPU, driver 1700)"


def test_an_npu_that_openvino_does_not_see_is_a_warning(openvino):
    openvino(CORE.format(devices=["CPU"]))

    check = openvino_check(expects_npu=True)

    assert check.status == "warning"
    assert check.fix
    assert openvino_check(expects_npu=False).status == "ok"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ImportError('libtbb.so.12: not found')", "libtbb.so.12: not found"),
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("import time; time.sleep(60)", "did not list its devices within 0.5 s"),
    ],
)
def test_openvino_that_fails_crashes_or_hangs_is_a_warning(openvino, code, message):
    openvino(code)

    check = openvino_check(expects_npu=False, deadline_s=0.5 if "sleep" in code else 30.0)

    assert check.status == "warning"
    assert message in check.detail


def test_a_hanging_child_is_killed(openvino, tmp_path):
    openvino(f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    with doctor.AskedOpenVino(600.0):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            pass

    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_openvino_that_is_not_installed_is_information(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda: None)

    check = openvino_check(expects_npu=False)

    assert (check.status, check.detail) == ("info", "not installed")
    assert "pip install openvino" in check.fix


def test_the_check_lists_the_devices_that_openvino_reports_here():
    if importlib.util.find_spec("openvino") is None:
        pytest.skip("OpenVINO is not installed")
    script = "import json, openvino; print(json.dumps(openvino.Core().available_devices))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    names = json.loads(done.stdout.splitlines()[-1])
    imported = "openvino" in sys.modules

    detail = openvino_check(expects_npu=False, deadline_s=120.0).detail

    assert [word for word in names if f" {word} (" not in detail] == []
    assert ("openvino" in sys.modules) is imported
