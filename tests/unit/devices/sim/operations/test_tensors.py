"""Bulk copies by tensor maps, against slices of padded arrays."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from accel_magic.devices.sim import DeviceFault
from accel_magic.errors import ProbeError
from accel_magic.gpu.adapters.nvrtc import CpuKernel, TensorMap
from tests.support.errors import raises
from tests.unit.devices.sim.conftest import text

BOXES = {
    1: ((70,), (16,), [(0,), (8,), (-4,), (60,), (200,)]),
    2: ((20, 32), (6, 8), [(0, 0), (24, 17), (-3, 5), (28, -2)]),
    3: ((5, 6, 8), (2, 3, 4), [(0, 0, 0), (6, 4, 4), (-1, -1, -1)]),
    4: ((3, 4, 5, 8), (2, 2, 3, 4), [(2, 1, 1, 1), (5, 3, 2, 2)]),
    5: ((3, 2, 4, 5, 8), (1, 2, 2, 3, 4), [(1, 2, 1, 0, 2), (5, 3, 3, 1, -1)]),
}


CASES = [(axes, shape, box, start) for axes, (shape, box, starts) in BOXES.items() for start in starts]


def index_of(shape, box, start, steps):
    """Numbers of the elements of a box along each axis of the array; -1 outside it."""
    return [
        [at if 0 <= at < size else -1 for at in range(first, first + span, step)]
        for size, span, first, step in zip(shape, box, start[::-1], steps, strict=True)
    ]


def loaded(tensor, kernel, start, count):
    """Return the bytes of a box in shared memory."""
    out = np.full(count, 0xEE, np.uint8)
    CpuKernel(text("tensors"), kernel)[1, 32, count](tensor, np.array(start, np.int32), out, count)
    return out


@pytest.mark.parametrize(("axes", "shape", "box", "start"), CASES)
@pytest.mark.parametrize("stepped", [False, True])
def test_loads_bring_the_box_and_zeros_from_outside(axes, shape, box, start, stepped):
    array = np.random.default_rng(axes).integers(1, 1 << 31, shape, np.int32)
    steps = (2,) * (axes - 1) + (1,) if stepped else (1,) * axes
    places = index_of(shape, box, start, steps)
    expected = np.array([0 if -1 in place else array[place] for place in itertools.product(*places)], np.int32)
    found = loaded(TensorMap(array, box, steps if stepped else ()), f"load{axes}", start, expected.nbytes)
    assert np.array_equal(found.view(np.int32), expected)


@pytest.mark.parametrize(("axes", "shape", "box", "start"), CASES)
def test_stores_write_the_part_of_the_box_that_is_inside(axes, shape, box, start):
    array = np.zeros(shape, np.int32)
    given = np.arange(1, np.prod(box) + 1, dtype=np.int32)
    expected = array.copy()
    for place, value in zip(itertools.product(*index_of(shape, box, start, (1,) * axes)), given, strict=True):
        if -1 not in place:
            expected[place] = value
    data = given.view(np.uint8)
    CpuKernel(text("tensors"), f"store{axes}")[1, 32, data.size](
        TensorMap(array, box), np.array(start, np.int32), data, data.size
    )
    assert np.array_equal(array, expected)


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8"])
@pytest.mark.parametrize(("swizzle", "span"), [("32B", 32), ("64B", 64), ("128B", 128)])
def test_swizzling_exchanges_pieces_of_16_bytes_within_its_span(swizzle, span, dtype):
    unit = np.dtype(dtype).itemsize
    array = np.random.default_rng(0).integers(0, 256, (40, span), np.uint8).view(dtype)
    tensor = TensorMap(array, (32, span // unit), swizzle=swizzle)
    found = loaded(tensor, "load2", (0, 3), 32 * span).reshape(32, span // 16, 16)
    # A row of 128 bytes of shared memory holds one or more rows of the box; its number chooses the exchange.
    plain = np.ascontiguousarray(array[3:35]).view(np.uint8).reshape(32, span // 16, 16)
    for row, piece in itertools.product(range(32), range(span // 16)):
        other = piece ^ (row * span // 128) % (span // 16)
        assert np.array_equal(found[row, other], plain[row, piece]), (row, piece)

    back = np.zeros_like(array)
    CpuKernel(text("tensors"), "store2")[1, 32, found.size](
        TensorMap(back, (32, span // unit), swizzle=swizzle), np.array((0, 3), np.int32), found.reshape(-1), found.size
    )
    assert back[3:35].tobytes() == array[3:35].tobytes()


def test_padded_rows_and_parts_of_arrays_are_tensors():
    whole = np.arange(12 * 16, dtype=np.float32).reshape(12, 16)
    part = whole[2:10, 4:12]
    found = loaded(TensorMap(part, (3, 4)), "load2", (2, 1), 48).view(np.float32)
    assert np.array_equal(found.reshape(3, 4), part[1:4, 2:6])


@pytest.mark.parametrize(
    ("given", "kernel", "why"),
    [
        (bytes(128), "load1", "not a tensor map"),
        (TensorMap(np.zeros((4, 4), np.float32), (4, 4)), "load1", "2 dimensions, the instruction 1"),
    ],
)
def test_what_is_not_the_tensor_map_of_the_copy_stops_the_kernel(given, kernel, why):
    with raises("gpu.fault.bad-tensor-map", DeviceFault) as caught:
        loaded(given, kernel, (0,), 64)
    assert why in caught.value.why


@pytest.mark.parametrize(
    "make",
    [
        lambda: TensorMap(np.zeros((4, 4), np.float32), (4,)),
        lambda: TensorMap(np.zeros((4, 4), np.float32), (4, 3)),
        lambda: TensorMap(np.zeros((4, 3), np.float32), (4, 4)),
        lambda: TensorMap(np.zeros((4, 8), np.float32)[:, ::2], (4, 4)),
        lambda: TensorMap(np.zeros((4, 4), np.float32), (257, 4)),
        lambda: TensorMap(np.zeros((4, 4), np.complex128), (4, 4)),
        lambda: TensorMap(np.zeros((4, 4), np.float32), (4, 4), steps=(1, 2)),
        lambda: TensorMap(np.zeros((4, 32), np.float32), (4, 16), swizzle="32B"),
        lambda: TensorMap(np.zeros((4, 4), np.float32), (4, 4), swizzle="16B"),
        lambda: TensorMap(np.zeros((1, 1, 1, 1, 1, 4), np.float32), (1, 1, 1, 1, 1, 4)),
    ],
)
def test_arrays_that_a_tensor_map_cannot_describe_are_refused(make):
    with raises("gpu.bad-tensor-map", ProbeError):
        make()


def test_a_tensor_that_begins_within_another_argument_must_begin_at_16_bytes():
    whole = np.zeros(64, np.float32)
    with raises("gpu.bad-tensor-map", ProbeError, match="another argument"):
        CpuKernel(text("tensors"), "load1")[1, 32, 64](
            TensorMap(whole[1:33], (16,)), np.zeros(1, np.int32), whole.view(np.uint8), 64
        )
