"""The CUDA driver library: missing or failing functions are typed errors with the driver's own text."""

import subprocess
import sys
from functools import partial

import pytest

from accel_magic.devices import targets
from accel_magic.devices.cuda import driver as cuda
from accel_magic.devices.cuda import gpus
from accel_magic.errors import MachineError, ProbeError
from tests.support.errors import raises


def test_without_a_driver_the_error_names_a_fix():
    with raises("cuda.no-driver", cuda.NoDriverError) as caught:
        cuda.load("libcuda-that-is-not-there.so.1")

    assert "libcuda-that-is-not-there.so.1" in caught.value.why
    assert "--device cpu" in caught.value.fix


def test_a_library_that_lacks_a_function_is_reported_as_too_old(tmp_path):
    library = tmp_path / "libold.so"
    subprocess.run(["cc", "-shared", "-o", library, "-x", "c", "-"], input=b"int cuInit(int f){return f;}", check=True)

    with raises("cuda.driver-too-old", MachineError) as caught:
        cuda.load(str(library))

    assert "cuDriverGetVersion" in caught.value.why


def test_a_driver_for_an_old_cuda_is_rejected_with_both_versions(books):
    books.set.version = 10020

    with raises("cuda.driver-too-old", MachineError) as caught:
        cuda.load(books.path)

    assert "10.2" in caught.value.why
    assert "11.0" in caught.value.why


def test_a_driver_without_a_gpu_is_reported_until_it_has_one(books):
    books.set.init = cuda.NO_DEVICE

    with raises("cuda.driver-error", cuda.DriverError) as caught:
        cuda.load(books.path)
    books.set.init = 0

    assert "CUDA_ERROR_NO_DEVICE" in caught.value.why
    assert cuda.load(books.path).version == 13000


@pytest.mark.parametrize(("code", "dead"), [(2, False), (700, True), (709, True), (1, False), (777, False)])
def test_every_result_but_success_is_an_error_that_knows_whether_the_context_is_usable(books, driver, code, dead):
    books.set.sticky = code
    books.library.driver_enter(0, 0)

    with pytest.raises(cuda.DriverError) as caught:
        driver.call("cuCtxSynchronize")

    books.set.sticky = 0
    driver.handle("cuCtxPopCurrent_v2")
    assert (caught.value.result, caught.value.dead) == (code, dead)
    assert "cuCtxSynchronize: " in caught.value.why
    assert caught.value.fix


def test_the_drivers_own_text_is_in_the_error(books, driver):
    books.library.driver_enter(0, 0)
    books.set.sticky = 700

    with pytest.raises(cuda.DriverError) as caught:
        driver.call("cuCtxSynchronize")

    books.set.sticky = 0
    driver.handle("cuCtxPopCurrent_v2")
    assert caught.value.why == "cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"


def test_gpus_are_described_with_their_architecture(books, driver):
    books.set.devices, books.set.minor = 2, 0

    first, second = gpus.found(driver)

    assert (first.number, first.model, first.architecture, first.multiprocessors) == (0, "Test GPU A", "sm_90", 132)
    assert (second.number, second.model, second.multiprocessors) == (1, "Test GPU B", 133)
    assert first.name.startswith("Test GPU A, ")
    assert first.name.endswith("CUDA 13.0")
    assert not first.simulated


def test_the_gpu_of_the_current_context_is_chosen_unless_a_number_is_given(books, driver):
    books.set.devices = 2
    assert gpus.chosen(None, driver).number == 0
    books.library.driver_enter(1, 0)

    try:
        assert gpus.chosen(None, driver).number == 1
        assert gpus.chosen(0, driver).number == 0
    finally:
        driver.handle("cuCtxPopCurrent_v2")


@pytest.mark.parametrize("number", [2, -1])
def test_an_unknown_gpu_number_is_rejected_with_a_list_of_the_gpus(books, driver, number):
    books.set.devices = 2

    with raises("gpu.no-such-device", MachineError, match=f"GPU {number}") as caught:
        gpus.chosen(number, driver)

    assert "0 (Test GPU A), 1 (Test GPU B)" in caught.value.why


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [("major", 7, "cuda.gpu-too-old"), ("maps_host", 0, "cuda.no-host-memory"), ("devices", 0, "cuda.no-gpu")],
)
def test_a_gpu_that_cannot_be_traced_is_rejected(books, driver, setting, value, code):
    setattr(books.set, setting, value)

    with raises(code, MachineError):
        gpus.chosen(None, driver)


class TestChoosing:
    """The device that `--device` selects."""

    @pytest.fixture
    def on(self, books, driver, monkeypatch):
        monkeypatch.setattr(cuda, "load", lambda: driver)

    @pytest.fixture
    def without(self, monkeypatch):
        def load():
            raise cuda.NoDriverError("no NVIDIA driver was found", code="cuda.no-driver")

        monkeypatch.setattr(cuda, "load", load)

    @pytest.mark.usefixtures("on")
    def test_auto_selects_the_gpu_if_there_is_one(self):
        found = targets.target("auto")

        assert (found.kind, found.gpu, found.architecture, found.simulated) == ("cuda", 0, "sm_90", False)
        assert found.name.startswith("Test GPU A")

    @pytest.mark.usefixtures("without")
    def test_auto_selects_the_simulated_device_without_a_note_if_there_is_no_driver(self):
        found = targets.target("auto")

        assert (found.kind, found.name, found.simulated) == ("cpu", "simulated device", True)
        assert found.note == ""

    @pytest.mark.usefixtures("on")
    def test_auto_notes_why_a_gpu_that_is_present_is_not_used(self, books):
        books.set.major = 6

        found = targets.target("auto")

        assert found.kind == "cpu"
        assert "Test GPU A is too old" in found.note

    def test_auto_selects_the_simulated_device_if_the_driver_has_no_gpu(self, books, monkeypatch):
        books.set.init = cuda.NO_DEVICE
        monkeypatch.setattr(cuda, "load", partial(cuda.load, books.path))

        assert targets.target("auto") == targets.target("cpu")

    @pytest.mark.usefixtures("without")
    @pytest.mark.parametrize("asked", [("cuda", None), ("auto", 0)])
    def test_an_explicitly_requested_gpu_is_not_replaced(self, asked):
        with raises("cuda.no-driver", MachineError):
            targets.target(*asked)

    def test_a_gpu_number_for_the_simulated_device_is_rejected(self):
        with raises("gpu.option-not-for-cpu", ProbeError, match="gpu=1"):
            targets.target("cpu", 1)

    @pytest.mark.usefixtures("on")
    def test_the_simulated_device_can_be_chosen_on_a_machine_with_a_gpu(self):
        assert targets.target("cpu").kind == "cpu"


def test_a_trace_on_the_simulated_device_does_not_load_the_driver():
    code = (
        "import accel_magic.api.gputrace as t, sys; t.target('cpu'); print('accel_magic.devices.cuda' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
