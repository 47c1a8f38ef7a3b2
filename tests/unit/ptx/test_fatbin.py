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

from accel_magic.errors import ProbeError, ProgramError
from accel_magic.ptx import fatbin
from accel_magic.ptx.fatbin import Fatbin, NativeKernel
from tests.support.errors import raises

SAMPLES = Path(__file__).with_name("fatbins")
MODES = {"none": "", "size": "zstd", "speed": "lz4_raw"}
SCALE = "_Z5scaleIfEvPT_S0_"
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")


@pytest.mark.parametrize("mode", MODES)
def test_images_have_kind_architecture_and_version(mode):
    (container,) = fatbin.read(SAMPLES / f"two_kernels_{mode}.fatbin")
    assert [(image.kind, image.arch, image.version) for image in container.images] == [
        ("cubin", 80, (0, 0)),
        ("ptx", 80, (9, 0)),
        ("ptx", 90, (9, 0)),
    ]


@pytest.mark.parametrize(("mode", "compression"), MODES.items())
def test_ptx_is_decompressed_whatever_its_compression(mode, compression):
    (container,) = fatbin.read(SAMPLES / f"two_kernels_{mode}.fatbin")
    (plain,) = fatbin.read(SAMPLES / "two_kernels_none.fatbin")
    _, older, newer = container.images
    assert older.compression == newer.compression == compression
    assert older.text() == plain.images[1].text()
    assert re.findall(r"^\.(?:version|target) .*", newer.text(), re.MULTILINE) == [".version 9.0", ".target sm_90"]
    assert older.text().endswith("}\n\n")


def test_a_compressed_cubin_is_an_elf_file_when_decompressed():
    packed, plain = (fatbin.read(SAMPLES / f"two_kernels_{mode}.fatbin")[0].images[0] for mode in ("size", "none"))
    assert packed.compression == "zstd"
    assert packed.data() == plain.data()
    assert plain.data().startswith(b"\x7fELF")


@pytest.mark.parametrize("mode", MODES)
def test_kernels_are_listed_with_their_architectures(mode):
    assert fatbin.kernels(fatbin.read(SAMPLES / f"two_kernels_{mode}.fatbin")) == (
        NativeKernel(SCALE, (80, 90), (80,)),
        NativeKernel("add", (80, 90), (80,)),
    )


def test_a_kernel_without_ptx_has_a_reason():
    with_ptx, without = NativeKernel("add", (80,), (90,)), NativeKernel("add", (), (80, 90))
    assert with_ptx.problem == ""
    assert without.problem == (
        "the binary has only its machine code for sm_80, sm_90, not its PTX; "
        "build it with -gencode arch=compute_80,code=[sm_80,compute_80]"
    )


@pytest.mark.parametrize(("device", "chosen"), [(75, None), (80, 80), (89, 80), (90, 90), (120, 90)])
def test_the_newest_ptx_that_a_device_can_run_is_chosen(device, chosen):
    (container,) = fatbin.read(SAMPLES / "two_kernels_none.fatbin")
    best = container.best_ptx(device)
    assert (best and best.arch) == chosen


def test_a_container_without_ptx_has_no_best_ptx():
    assert Fatbin(()).best_ptx(90) is None


def test_consecutive_containers_are_all_read():
    one = (SAMPLES / "two_kernels_size.fatbin").read_bytes()
    assert len(fatbin.parse(one + bytes(24) + one)) == 2


@pytest.mark.parametrize("keep", [12, 17, 60, 500, -8])
def test_a_truncated_file_is_damaged(tmp_path, keep):
    whole = (SAMPLES / "two_kernels_none.fatbin").read_bytes()
    short = tmp_path / "short.fatbin"
    short.write_bytes(whole[:keep])
    with pytest.raises((ProgramError, ProbeError)) as caught:
        fatbin.read(short)
    assert caught.value.code in {"gpu.code-damaged", "gpu.no-code-in-file"}


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
        fatbin.kernels(fatbin.parse(broken))


def test_a_damaged_cubin_is_reported():
    data = (SAMPLES / "two_kernels_none.fatbin").read_bytes()
    at = data.index(b"\x7fELF")
    broken = data[:at] + b"\x7fELF" + b"\xff" * 200 + data[at + 204 :]
    with raises("gpu.code-damaged", ProgramError, match="sm_80"):
        fatbin.kernels(fatbin.parse(broken))


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


def test_a_file_without_gpu_code_is_rejected(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("no kernels here")
    with raises("gpu.not-a-binary", ProbeError, match=r"notes\.txt"):
        fatbin.read(text)
    with raises("gpu.file-unreadable", ProbeError, match="absent"):
        fatbin.read(tmp_path / "absent")
    with raises("gpu.no-code-in-file", ProbeError):
        fatbin.read(shutil.which("true"))


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@needs_nvcc
def test_a_binary_for_several_architectures_has_the_ptx_that_nvcc_writes(tmp_path):
    other = tmp_path / "other.cu"
    other.write_text('extern "C" __global__ void other(float *x) { x[0] = 1; }\nint main() { return 0; }')
    binary = tmp_path / "program"
    flags = ["-gencode", "arch=compute_75,code=sm_75", "-gencode", "arch=compute_80,code=[sm_80,compute_80]"]
    subprocess.run(["nvcc", *flags, "-o", binary, SAMPLES / "two_kernels.cu", other], check=True)
    assert fatbin.kernels(fatbin.read(binary)) == (
        NativeKernel(SCALE, (80,), (75, 80)),
        NativeKernel("add", (80,), (75, 80)),
        NativeKernel("other", (80,), (75, 80)),
    )
    texts = [image.text() for one in fatbin.read(binary) for image in one.images if image.kind == "ptx"]
    for source in (SAMPLES / "two_kernels.cu", other):
        written = tmp_path / "direct.ptx"
        subprocess.run(["nvcc", "-ptx", "-arch=compute_80", "-o", written, source], check=True)
        assert _instructions(written.read_text()) in [_instructions(text) for text in texts]


def _instructions(ptx):
    return re.sub(r"//.*", "", ptx).split()


@needs_nvcc
def test_a_binary_without_ptx_is_read_and_its_kernels_have_a_reason(tmp_path):
    binary = tmp_path / "library.so"
    options = ["-gencode", "arch=compute_80,code=sm_80", "-shared", "-Xcompiler", "-fPIC"]
    subprocess.run(["nvcc", *options, "-o", binary, SAMPLES / "two_kernels.cu"], check=True)
    found = fatbin.kernels(fatbin.read(binary))
    assert [kernel.name for kernel in found] == [SCALE, "add"]
    assert all("machine code for sm_80" in kernel.problem for kernel in found)
