"""Errors for Level Zero probes in the NPU driver's library suggest the loader."""

from __future__ import annotations

import os

import pytest

from accel_magic.errors import ProbeError
from accel_magic.probes.matching import user_places


def refusal(text):
    with pytest.raises(ProbeError) as error:
        user_places([text], os.getpid())
    return error.value


@pytest.mark.parametrize(
    "text",
    [
        "uprobe:/usr/lib/x86_64-linux-gnu/libze_intel_vpu.so.1:zeCommandQueueExecuteCommandLists",
        "latency:uprobe:libze_intel_npu:zeFenceHostSynchronize",
        "uretprobe:libze_intel_vpu.so.1:zeMemAllocHost",
    ],
)
def test_a_missing_driver_library_suggests_the_loader(text):
    function = text.rpartition(":")[2]

    error = refusal(text)

    assert error.code == "probe.npu-driver-library"
    assert f"uprobe:libze_loader.so.1:{function}" in error.fix.replace("uretprobe", "uprobe")
    assert "npu:api" in error.fix


def test_a_driver_library_without_the_function_suggests_the_loader(compiled):
    code = "int zeGetMemProcAddrTable(void) { return 0; }"
    library = compiled(code, "libze_intel_npu.so.1", "-shared", "-fPIC")

    assert refusal(f"uprobe:{library}:zeMemAllocHost").code == "probe.npu-driver-library"
    assert "uprobe:libze_loader.so.1:zeMemAllocHost" in refusal(f"uprobe:{library}:zeMem*Host").fix
    assert user_places([f"uprobe:{library}:zeGetMem*"], os.getpid())[0].points


def test_other_libraries_and_functions_get_the_usual_errors(compiled):
    library = compiled("int f(void) { return 0; }", "libze_intel_npu.so.1", "-shared", "-fPIC")

    assert refusal("uprobe:/usr/lib/libze_none.so:zeInit").code != "probe.npu-driver-library"
    assert refusal(f"uprobe:{library}:other").code != "probe.npu-driver-library"
