import struct

import pytest

from accel_magic.lab.image.firmware import firmware

GIB = 1 << 30


def number(data, at, size):
    return int.from_bytes(data[at : at + size], "little")


@pytest.fixture
def data():
    return firmware()


def test_the_header_passes_the_drivers_checks(data):
    # Offsets of the packed struct vpu_firmware_header.
    version, load, size, entry = number(data, 0, 4), number(data, 8, 8), number(data, 16, 4), number(data, 20, 8)
    runtime, runtime_size = number(data, 76, 8), number(data, 148, 4)
    assert version == 1
    assert 2 * GIB <= runtime <= 3 * GIB - (256 << 20)
    assert len(data) <= runtime_size <= 512 << 20
    assert len(data) > 8192
    assert 8192 + size <= len(data)
    assert runtime <= load
    assert load + size <= runtime + runtime_size
    assert load <= entry < load + size
    assert number(data, 152, 4) <= 2 << 20, "SHAVE firmware"


def test_preemption_buffers_have_at_least_a_page_each(data):
    assert struct.unpack_from("<II", data, 156) == (32768, 32768)


def test_both_apis_have_the_major_version_that_the_driver_expects(data):
    apis = struct.unpack_from("<16I", data, 84)
    assert apis[0] >> 16 == 3, "boot"
    assert apis[4] >> 16 == 3, "job messages"


def test_the_firmware_supports_hardware_scheduling():
    assert number(firmware(), 84 + 4 * 4, 2) >= 24


def test_the_version_text_is_ours_and_fits_in_its_page(data):
    assert data[4096:8192].rstrip(b"\0") == b"accel_magic lab, synthetic firmware"


def test_the_image_is_empty(data):
    assert data[8192:] == bytes(16384)
