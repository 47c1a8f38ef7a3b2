"""The stream between host and guest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.lab.guest.guest_frames import HEAD, LARGEST, GuestFrameKind, Unpacker, pack

FRAMES = st.lists(
    st.tuples(st.sampled_from(GuestFrameKind), st.integers(0, 2**32 - 1), st.binary(max_size=300)), max_size=8
)


@given(FRAMES, st.integers(1, 40))
def test_frames_are_unpacked_unchanged_however_the_stream_is_split(frames, piece):
    stream = b"".join(pack(*frame) for frame in frames)
    unpacker = Unpacker()

    found = [frame for at in range(0, len(stream), piece) for frame in unpacker.feed(stream[at : at + piece])]

    assert found == frames


@pytest.mark.parametrize("noise", [HEAD.pack(1, 0, LARGEST + 1), HEAD.pack(99, 0, 0), b"\xff" * 64])
def test_invalid_frames_are_rejected(noise):
    with pytest.raises(ValueError, match=r"frame|Kind"):
        Unpacker().feed(noise)
