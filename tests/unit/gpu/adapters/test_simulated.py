from __future__ import annotations

import numpy as np
import pytest

from accel_magic.errors import AccelMagicError, ProbeError, ProgramError
from accel_magic.gpu.adapters.simulated import copied, host_array, three


def seen(device, address, like):
    """What the device has where an array should be, element by element."""
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
def test_an_array_of_any_shape_is_found_on_the_device(device, array):
    with copied(device, [array]) as (address,):
        assert np.array_equal(seen(device, address, array), array)


def test_only_the_memory_between_an_arrays_first_and_last_byte_is_copied(device):
    array = np.arange(100, dtype=np.uint8)[20:40:2]
    with copied(device, [array]) as (address,):
        assert device.view(address, 19).size == 19
        with pytest.raises(AccelMagicError):
            device.view(address, 20)


def test_what_a_kernel_writes_comes_back_to_the_views_that_share_it(device):
    whole = np.zeros(8, np.int32)
    with copied(device, [whole[4:], whole[::-1], whole[:2]]) as (upper, backwards, lower):
        assert backwards - lower == 28
        assert upper - lower == 16
        device.view(upper, 4).view(np.int32)[0] = 5
    assert whole.tolist() == [0, 0, 0, 0, 5, 0, 0, 0]


@pytest.mark.parametrize("first", ["the part that may be written", "the part that may be read"])
def test_memory_that_is_shared_is_written_back_if_any_of_its_arrays_may_be_written(device, first):
    whole = np.zeros(8, np.int32)
    read = whole[0:6] if first == "the part that may be read" else whole[2:8]
    write = whole[2:8] if first == "the part that may be read" else whole[0:6]
    read.flags.writeable = False
    with copied(device, [read, write]) as (_, address):
        device.view(address, 4).view(np.int32)[0] = 9
    assert write[0] == 9


def test_an_array_that_may_only_be_read_must_not_change(device):
    array = np.zeros(4)
    array.flags.writeable = False
    with pytest.raises(ProgramError, match="may only be read"), copied(device, [array]) as (address,):
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


def test_memory_is_given_back(device):
    with copied(device, [np.zeros(4)]) as (address,):
        pass
    with pytest.raises(AccelMagicError):
        device.view(address, 1)


def test_what_is_no_array_is_told_apart():
    assert host_array(3) is None
    assert host_array([1, 2]) is None
    assert host_array(np.float32(1)) is None
    with pytest.raises(ProbeError):
        host_array(np.array([{}]))


def test_tensors_are_seen_in_place():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for dtype in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.bool):
        tensor = torch.ones(4, 3).to(dtype)
        array = host_array(tensor.T)
        assert array.ctypes.data == tensor.data_ptr()
        assert array.shape == (3, 4)
        assert array.itemsize == tensor.element_size()
    assert host_array(torch.ones(2, requires_grad=True)).tolist() == [1, 1]
    with pytest.raises(ProbeError, match=r"A tensor on meta cannot be passed to the CPU device \(simulated\)"):
        host_array(torch.ones(2, device="meta"))


@pytest.mark.parametrize(
    ("given", "sizes"),
    [(5, (5, 1, 1)), ((2,), (2, 1, 1)), ([2, 3], (2, 3, 1)), ((np.int64(4), 5, 6), (4, 5, 6))],
)
def test_grids_are_filled_up_to_three_dimensions(given, sizes):
    assert three(given) == sizes


@pytest.mark.parametrize("given", [0, -1, (), (1, 2, 3, 4), "x", None, (1, 0)])
def test_what_is_no_grid_is_refused(given):
    with pytest.raises(ProbeError, match="is no grid or block"):
        three(given)
