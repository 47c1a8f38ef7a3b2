from __future__ import annotations

import contextlib
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.errors import ProgramError
from accel_magic.ptx import fatbin
from accel_magic.ptx.fatbin import Fatbin
from tests.support.errors import raises

SAMPLES = Path(__file__).with_name("fatbins")
MODES = {"none": "", "size": "zstd", "speed": "lz4_raw"}
SCALE = "_Z5scaleIfEvPT_S0_"


def read(name):
    """The containers of a sample."""
    return fatbin.parse((SAMPLES / name).read_bytes())


def kernels(containers):
    """The kernels of each image."""
    return [[*image.kernels()] for container in containers for image in container.images]


needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")


@pytest.mark.parametrize("mode", MODES)
def test_images_have_kind_architecture_and_version(mode):
    (container,) = read(f"two_kernels_{mode}.fatbin")
    assert [(image.kind, image.arch, image.version) for image in container.images] == [
        ("cubin", 80, (0, 0)),
        ("ptx", 80, (9, 0)),
        ("ptx", 90, (9, 0)),
    ]


@pytest.mark.parametrize(("mode", "compression"), MODES.items())
def test_ptx_is_decompressed_whatever_its_compression(mode, compression):
    (container,) = read(f"two_kernels_{mode}.fatbin")
    (plain,) = read("two_kernels_none.fatbin")
    _, older, newer = container.images
    assert older.compression == newer.compression == compression
    assert older.text() == plain.images[1].text()
    assert re.findall(r"^\.(?:version|target) .*", newer.text(), re.MULTILINE) == [".version 9.0", ".target sm_90"]
    assert older.text().endswith("}\n\n")


def test_a_compressed_cubin_is_an_elf_file_when_decompressed():
    packed, plain = (read(f"two_kernels_{mode}.fatbin")[0].images[0] for mode in ("size", "none"))
    assert packed.compression == "zstd"
    assert packed.data() == plain.data()
    assert plain.data().startswith(b"\x7fELF")


@pytest.mark.parametrize("mode", MODES)
def test_the_kernels_of_each_image_are_listed(mode):
    assert [sorted(names) for names in kernels(read(f"two_kernels_{mode}.fatbin"))] == [[SCALE, "add"]] * 3


@pytest.mark.parametrize(("device", "chosen"), [(75, None), (80, 80), (89, 80), (90, 90), (120, 90)])
def test_the_newest_ptx_that_a_device_can_run_is_chosen(device, chosen):
    (container,) = read("two_kernels_none.fatbin")
    best = container.best_ptx(device)
    assert (best and best.arch) == chosen


def test_a_container_without_ptx_has_no_best_ptx():
    assert Fatbin(()).best_ptx(90) is None


def test_consecutive_containers_are_all_read():
    one = (SAMPLES / "two_kernels_size.fatbin").read_bytes()
    assert len(fatbin.parse(one + bytes(24) + one)) == 2


@pytest.mark.parametrize("keep", [17, 60, 500, -8])
def test_a_truncated_file_is_damaged(keep):
    whole = (SAMPLES / "two_kernels_none.fatbin").read_bytes()
    with raises("gpu.code-damaged", ProgramError):
        fatbin.parse(whole[:keep])


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [(4 + 2, "<H", 0), (16 + 4, "<I", 0), (16 + 8, "<Q", 1 << 40), (16 + 56, "<Q", 1 << 62), (8, "<Q", 1 << 63)],
    ids=["container header", "image header", "image bytes", "unpacked bytes", "container bytes"],
)
def test_impossible_sizes_are_reported_as_damage(at, form, value):
    data = bytearray((SAMPLES / "two_kernels_size.fatbin").read_bytes())
    struct.pack_into(form, data, at, value)
    with raises("gpu.code-damaged", ProgramError):
        fatbin.parse(bytes(data))


@pytest.mark.parametrize("mode", ["size", "speed"])
def test_a_damaged_compressed_image_is_reported(mode):
    data = (SAMPLES / f"two_kernels_{mode}.fatbin").read_bytes()
    image = fatbin.parse(data)[0].images[1]
    at = data.index(image.content)
    broken = data[:at] + b"\xff" * len(image.content) + data[at + len(image.content) :]
    with raises("gpu.code-damaged", ProgramError, match="sm_80"):
        fatbin.parse(broken)[0].images[1].text()


def test_ptx_that_is_not_text_is_reported():
    data = (SAMPLES / "two_kernels_none.fatbin").read_bytes()
    broken = data.replace(b".visible", b".vis\xffble")
    with raises("gpu.code-damaged", ProgramError, match="PTX for sm_80"):
        kernels(fatbin.parse(broken))


def test_a_damaged_cubin_is_reported():
    data = (SAMPLES / "two_kernels_none.fatbin").read_bytes()
    at = data.index(b"\x7fELF")
    broken = data[:at] + b"\x7fELF" + b"\xff" * 200 + data[at + 204 :]
    with raises("gpu.code-damaged", ProgramError, match="sm_80"):
        kernels(fatbin.parse(broken))


# Damage has the largest effect in headers: those of the container and its first image, and in that image's content.
PLACES = st.one_of(st.integers(0, 144), st.integers(0, 2151))


@given(mode=st.sampled_from(sorted(MODES)), changes=st.dictionaries(PLACES, st.integers(0, 255), min_size=1))
def test_any_damage_gives_a_typed_error_or_none(mode, changes):
    data = bytearray((SAMPLES / f"two_kernels_{mode}.fatbin").read_bytes())
    for at, value in changes.items():
        data[at] = value
    with contextlib.suppress(ProgramError):
        for image in (image for container in fatbin.parse(bytes(data)) for image in container.images):
            image.data()
            image.kernels()


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@needs_nvcc
def test_a_fatbin_for_several_architectures_has_the_ptx_that_nvcc_writes(tmp_path):
    source, whole, written = SAMPLES / "two_kernels.cu", tmp_path / "program.fatbin", tmp_path / "direct.ptx"
    flags = ["-gencode", "arch=compute_75,code=sm_75", "-gencode", "arch=compute_80,code=[sm_80,compute_80]"]
    subprocess.run(["nvcc", "-fatbin", *flags, "-o", whole, source], check=True)
    subprocess.run(["nvcc", "-ptx", "-arch=compute_80", "-o", written, source], check=True)
    (container,) = fatbin.parse(whole.read_bytes())
    assert sorted((image.kind, image.arch) for image in container.images) == [("cubin", 75), ("cubin", 80), ("ptx", 80)]
    (text,) = [image.text() for image in container.images if image.kind == "ptx"]
    assert _instructions(written.read_text()) == _instructions(text)


def _instructions(ptx):
    return re.sub(r"//.*", "", ptx).split()
