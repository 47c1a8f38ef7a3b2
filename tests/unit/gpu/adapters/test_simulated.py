from __future__ import annotations

import numpy as np
import pytest

from accel_magic.errors import AccelMagicError, ProbeError, ProgramError
from accel_magic.gpu.adapters.simulated import copied, host_array, three
from tests.support.errors import raises


def seen(device, address, like):
    """Read an array from the device, element by element."""
    offsets = [int(np.dot(index, like.strides)) if like.ndim else 0 for index in np.ndindex(*like.shape)]
    values = [device.view(address + offset, like.itemsize).copy().view(like.dtype)[0] for offset in offsets]
    return np.array(values, like.dtype).reshape(like.shape)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24).reshape(2, 3, 4),
        np.arange(24).reshape(4, 6)[::-1, ::2],
        np.arange(24, dtype=np.int16)[::-3],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(7.5),
        np.arange(5)[3:3],
        np.zeros((0, 4)),
        np.broadcast_to(np.arange(3), (4, 3)),
        np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]),
    ],
    ids=["plain", "reversed and sliced", "backwards", "columns first", "scalar", "empty", "none", "repeated", "struct"],
)
def test_an_array_of_any_shape_is_copied_to_the_device(device, array):
    with copied(device, [array]) as (address,):
        assert np.array_equal(seen(device, address, array), array)


def test_only_the_memory_between_an_arrays_first_and_last_byte_is_copied(device):
    array = np.arange(100, dtype=np.uint8)[20:40:2]
    with copied(device, [array]) as (address,):
        assert device.view(address, 19).size == 19
        with pytest.raises(AccelMagicError):
            device.view(address, 20)


def test_what_a_kernel_writes_is_copied_back_to_all_views_of_the_memory(device):
    whole = np.zeros(8, np.int32)
    with copied(device, [whole[4:], whole[::-1], whole[:2]]) as (upper, backwards, lower):
        assert backwards - lower == 28
        assert upper - lower == 16
        device.view(upper, 4).view(np.int32)[0] = 5
    assert whole.tolist() == [0, 0, 0, 0, 5, 0, 0, 0]


@pytest.mark.parametrize("first", ["the writable part", "the read-only part"])
def test_shared_memory_is_copied_back_if_any_of_its_arrays_is_writable(device, first):
    whole = np.zeros(8, np.int32)
    read = whole[0:6] if first == "the read-only part" else whole[2:8]
    write = whole[2:8] if first == "the read-only part" else whole[0:6]
    read.flags.writeable = False
    with copied(device, [read, write]) as (_, address):
        device.view(address, 4).view(np.int32)[0] = 9
    assert write[0] == 9


def test_a_write_to_a_read_only_array_is_an_error(device):
    array = np.zeros(4)
    array.flags.writeable = False
    with raises("gpu.array-read-only", ProgramError), copied(device, [array]) as (address,):
        device.view(address, 1)[0] = 1
    assert not array.any()


def test_after_an_error_nothing_is_copied_back_and_all_memory_is_free(device):
    array = np.zeros(4)
    with pytest.raises(ZeroDivisionError), copied(device, [array, np.ones(3)]) as addresses:
        device.view(addresses[0], 8)[:] = 1
        raise ZeroDivisionError
    assert not array.any()
    for address in addresses:
        with pytest.raises(AccelMagicError):
            device.view(address, 1)


def test_memory_is_freed(device):
    with copied(device, [np.zeros(4)]) as (address,):
        pass
    with pytest.raises(AccelMagicError):
        device.view(address, 1)


def test_other_values_are_not_arrays():
    assert host_array(3) is None
    assert host_array([1, 2]) is None
    assert host_array(np.float32(1)) is None
    with raises("gpu.bad-argument", ProbeError):
        host_array(np.array([{}]))


def test_tensors_are_not_copied():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for dtype in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.bool):
        tensor = torch.ones(4, 3).to(dtype)
        array = host_array(tensor.T)
        assert array.ctypes.data == tensor.data_ptr()
        assert array.shape == (3, 4)
        assert array.itemsize == tensor.element_size()
    assert host_array(torch.ones(2, requires_grad=True)).tolist() == [1, 1]
    with raises("gpu.array-on-other-device", ProbeError, match="meta"):
        host_array(torch.ones(2, device="meta"))


@pytest.mark.parametrize(
    ("given", "sizes"),
    [(5, (5, 1, 1)), ((2,), (2, 1, 1)), ([2, 3], (2, 3, 1)), ((np.int64(4), 5, 6), (4, 5, 6))],
)
def test_grids_are_padded_to_three_dimensions(given, sizes):
    assert three(given) == sizes


@pytest.mark.parametrize("given", [0, -1, (), (1, 2, 3, 4), "x", None, (1, 0)])
def test_other_values_are_rejected_as_grids(given):
    with raises("gpu.bad-launch-shape", ProbeError):
        three(given)
