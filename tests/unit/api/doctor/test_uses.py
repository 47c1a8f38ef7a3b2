"""How each magic works on simulated machines."""

import pytest

from accel_magic.api.doctor import Check, Use
from accel_magic.api.doctor.uses import uses
from accel_magic.broker import broker_client, broker_policy, broker_socket
from accel_magic.errors import MachineError
from accel_magic.gpu import requirements
from accel_magic.lab import image
from accel_magic.patching import choice

KPROBES = Check("kprobes", "warning", "not in this kernel", "boot another")
PRIVILEGE = Check("privilege", "missing", "none", "run as root")
OPENVINO = Use("%%ktrace openvino", "live", "OpenVINO on CPU")
DRIVERS = "%%ktrace npu, amdxdna, xe, i915, amdgpu, nvidia"


@pytest.fixture
def found(tmp_path, monkeypatch):
    """Returns each use by its magic, given the checks of a machine with nothing but a lab of Linux 7.2."""
    monkeypatch.setattr(requirements, "look", lambda: requirements.Requirements(("clang",), ()))
    monkeypatch.setattr(requirements, "look_for_gpus", lambda: requirements.Gpus((), "none", "buy one"))
    monkeypatch.setattr(image, "is_built", lambda kernel: kernel == "7.2")
    monkeypatch.setattr(broker_socket, "needed", lambda: False)
    monkeypatch.setattr(choice, "unavailable", lambda: "")
    monkeypatch.delenv("ACCEL_MAGIC_LAB", raising=False)
    return lambda *checks: {use.magic: use for use in uses(tmp_path, checks, [OPENVINO])}


def put_device(root, driver, config=b""):
    folder = root / "sys/bus/pci/devices/0000:00:0b.0"
    folder.mkdir(parents=True)
    for name, text in {"vendor": "0x8086", "device": "0x7d1d", "class": "0x120000"}.items():
        (folder / name).write_text(text)
    (folder / "config").write_bytes(config)
    driver_folder = root / "sys/bus/pci/drivers" / driver
    driver_folder.mkdir(parents=True)
    (folder / "driver").symlink_to(driver_folder)


def how(found):
    return {magic: use.how for magic, use in found.items()}


def test_what_the_machine_lacks_is_played_back_with_the_fix(found):
    assert how(found()) == {
        "%%ktrace tracepoint:...": "live",
        "%%ktrace kprobe:..., MODULE:...": "live",
        "%%ktrace uprobe:LIB:NAME": "live",
        "%%ktrace uprobe:..., usdt:...": "live",
        "%%flame": "live",
        "%%ktrace openvino": "live",
        DRIVERS: "replay",
        "%%gputrace": "simulated",
        "%%gpupolicy": "simulated",
        "Jupyter kernel Python 3 (NPU lab)": "simulated",
    }
    limited = found(KPROBES)
    assert limited["%%ktrace kprobe:..., MODULE:..."].how == "replay"
    assert limited["%%ktrace kprobe:..., MODULE:..."].fix == KPROBES.fix
    assert limited["%%ktrace uprobe:..., usdt:..."].how == "live"


def test_a_process_whose_functions_are_not_patched_says_why(found, monkeypatch):
    monkeypatch.setattr(choice, "unavailable", lambda: "it is debugged")
    use = found()["%%ktrace uprobe:LIB:NAME"]

    assert (use.how, use.detail) == ("no", "functions of this process are not patched: it is debugged")


def test_without_privilege_this_process_can_still_be_looked_at(found):
    limited = found(PRIVILEGE)

    assert limited["%%ktrace uprobe:LIB:NAME"].how == "live"

    assert limited["%%ktrace openvino"] == OPENVINO
    assert limited["%%flame"].how == "live"
    assert limited["%%flame"].detail.startswith("threads of this process")
    assert limited["%%ktrace tracepoint:..."].how == limited["%%ktrace uprobe:..., usdt:..."].how == "replay"
    assert "privilege is missing" in limited["%%ktrace tracepoint:..."].detail


def test_a_broker_that_does_not_allow_functions_of_the_kernel_is_named(found, monkeypatch):
    policy = broker_policy.BrokerPolicy(probes=broker_policy.Probes(kinds=("tracepoint", "uprobe")))
    monkeypatch.setattr(broker_socket, "needed", lambda: True)
    monkeypatch.setattr(broker_client, "connection", lambda: type("Connection", (), {"policy": policy}))

    limited = found()

    assert limited["%%ktrace kprobe:..., MODULE:..."].how == "replay"
    assert "the broker of this machine allows tracepoint, uprobe" in limited["%%ktrace kprobe:..., MODULE:..."].detail
    assert limited["%%ktrace uprobe:..., usdt:..."].how == limited["%%ktrace tracepoint:..."].how == "live"


def test_an_accelerator_with_its_driver_is_live(found, tmp_path):
    put_device(tmp_path, "intel_vpu")

    machine = found()

    assert machine["%%ktrace npu"] == Use("%%ktrace npu", "live", "Intel NPU: 0000:00:0b.0", needs="functions")
    assert machine["%%ktrace amdxdna, xe, i915, amdgpu, nvidia"].how == "replay"
    assert found(KPROBES)["%%ktrace npu"].how == "replay"


def test_in_the_lab_nothing_leads_to_the_lab(found, monkeypatch):
    monkeypatch.setenv("ACCEL_MAGIC_LAB", "7.2")

    machine = found()

    assert not [magic for magic in machine if "lab" in magic]
    assert machine[DRIVERS].fix == ""


def test_a_lab_that_is_not_built_or_cannot_run_here_says_so(found, monkeypatch):
    lab = "Jupyter kernel Python 3 (NPU lab)"
    monkeypatch.setattr(image, "is_built", lambda _: False)
    assert (found()[lab].how, found()[lab].fix) == ("no", "python -m accel_magic lab build")

    def refuse(_):
        raise MachineError("the lab cannot run", why="it needs x86-64", fix="use another machine", code="lab.platform")

    monkeypatch.setattr(image, "is_built", refuse)
    assert found()[lab] == Use(lab, "no", "it needs x86-64", "use another machine")


def test_gpu_programs_without_their_compiler_do_not_work(found, monkeypatch):
    missing = (("llvmlite is not installed", "pip install it"),) * 2
    monkeypatch.setattr(requirements, "look", lambda: requirements.Requirements((), missing))

    assert found()["%%gputrace"] == Use("%%gputrace", "no", "llvmlite is not installed", "pip install it")
    assert found()["%%gpupolicy"].how == "no"

    wanting = (("no clang: your own programs do not work", "apt install clang"),)
    monkeypatch.setattr(requirements, "look", lambda: requirements.Requirements((), (), wanting))
    monkeypatch.setattr(requirements, "look_for_gpus", lambda: requirements.Gpus(("H200",)))
    assert found()["%%gputrace"] == Use("%%gputrace", "live", f"H200; {wanting[0][0]}", "apt install clang")
