"""Packing bytes and numbers as text."""

import base64
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accel_magic.recording.packing import pack, pack_numbers, unpack, unpack_numbers

DTYPES = ["int8", "uint8", "int32", "int64", "uint64", "float64", ">i4"]


@given(st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(max_dims=2, min_side=0))))
def test_any_numbers_are_restored(values):
    text = pack_numbers(values)

    found = unpack_numbers(text, values.dtype.newbyteorder("="), values.size)

    assert text.isascii()
    assert found.dtype == values.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found.reshape(values.shape), values)


def test_small_numbers_in_a_wide_type_take_little_space():
    assert len(pack_numbers(np.arange(100_000, dtype=np.int64) % 7)) < 2_000


@pytest.mark.parametrize("count", [-1, 3, 5, 10**15])
def test_a_wrong_count_of_numbers_is_rejected(count):
    with pytest.raises(ValueError, match=r"does not contain|too long"):
        unpack_numbers(pack_numbers(np.arange(4, dtype=np.int32)), np.int32, count)


@pytest.mark.parametrize(
    "text",
    [
        "no base 64!",
        base64.b64encode(b"no zlib").decode(),
        base64.b64encode(zlib.compress(bytes(16))[:-3]).decode(),
        base64.b64encode(zlib.compress(bytes(16)) + b"more").decode(),
    ],
    ids=["not base64", "not zlib", "truncated", "trailing data"],
)
def test_damaged_data_is_rejected(text):
    with pytest.raises(ValueError, match=r"\w"):
        unpack(text, 16)


def test_a_decompression_bomb_is_rejected_without_unpacking_it():
    bomb = pack(bytes(100_000_000))
    tracemalloc.start()
    with pytest.raises(ValueError, match="too long"):
        unpack(bomb, 1000)
    with pytest.raises(ValueError, match="does not contain"):
        unpack_numbers(pack(b""), np.int64, 10**9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6
