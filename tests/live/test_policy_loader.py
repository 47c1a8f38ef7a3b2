"""The loader of policies on this kernel: without a driver, libbpf finds no table, and the error says what it lacks."""

from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.accelerator import PolicyRefusedError
from accel_magic.policies import driver_engine, policy
from tests.support.errors import raises

pytestmark = pytest.mark.live


def test_the_kernel_refuses_a_policy_for_a_driver_that_is_not_here(tmp_path, monkeypatch):
    try:
        driver_engine.loader(tmp_path)
    except MachineError as error:
        pytest.skip(f"there is no loader: {error}")
    if Path("/sys/kernel/btf/nvidia_uvm").exists():
        pytest.skip("this machine has a driver with BTF")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    before = len(list(Path("/proc/self/fd").iterdir()))
    with raises("policy.refused-by-kernel", PolicyRefusedError, match="bpf_gpu_request_reorder"):
        driver_engine.OnDriver(policy.load("lru"))
    assert list(temporary.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before
