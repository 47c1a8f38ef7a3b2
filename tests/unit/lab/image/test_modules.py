import lzma

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.image import modules
from tests.support.errors import raises


@pytest.fixture
def files(tmp_path, make):
    """Write modules; a function that takes their dependencies and returns their files by name."""

    def write(depends):
        for name, needed in depends.items():
            (tmp_path / f"{name}.ko.xz").write_bytes(lzma.compress(make.module(depends=needed, name=name)))
        return {modules.name_of(file.name): file for file in tmp_path.iterdir()}

    return write


def test_every_module_loads_after_those_it_needs_and_once(files):
    found = files({"a": "b,c", "b": "d", "c": "d", "d": "", "unused": "a"})
    assert modules.load_order(["a", "c"], found, frozenset()) == ["d", "b", "c", "a"]


def test_what_is_built_in_is_left_out(files):
    found = files({"a": "b,core", "b": ""})
    assert modules.load_order(["core", "a"], found, frozenset({"core"})) == ["b", "a"]


def test_a_dash_and_an_underscore_are_the_same(files):
    found = files({"virtio-rng": "rng-core", "rng_core": ""})
    assert modules.load_order(["virtio_rng"], found, frozenset()) == ["rng_core", "virtio_rng"]


def test_modules_that_need_each_other_end(files):
    assert sorted(modules.load_order(["a"], files({"a": "b", "b": "a"}), frozenset())) == ["a", "b"]


def test_a_module_that_lacks_is_named_with_the_one_that_needs_it(files):
    with raises("lab.no-module", MachineError) as error:
        modules.load_order(["a"], files({"a": "gone"}), frozenset())
    assert "no module gone" in error.value.what
    assert error.value.why.startswith("a needs it")


@pytest.mark.parametrize(
    ("file", "name"), [("kernel/x/virtio-rng.ko.xz", "virtio_rng"), ("9p.ko", "9p"), ("a_b.ko.xz", "a_b")]
)
def test_a_files_name_gives_the_modules_name(file, name):
    assert modules.name_of(file) == name


def test_only_the_firmware_of_the_generation_is_told(make):
    image = make.module(firmware=["intel/vpu/vpu_50xx_v1.bin", "intel/vpu/vpu_37xx_v1.bin"], depends="")
    assert modules.firmware_files(image, "intel_vpu", "37xx") == ["intel/vpu/vpu_37xx_v1.bin"]


@pytest.mark.parametrize("content", [b"", b"not xz", lzma.compress(b"x" * 1000)[:40]])
def test_a_damaged_file_is_an_error_with_its_name(tmp_path, content):
    file = tmp_path / "intel_vpu.ko.xz"
    file.write_bytes(content)
    with raises("lab.package-damaged", MachineError, match=r"intel_vpu"):
        modules.load_order(["intel_vpu"], {"intel_vpu": file}, frozenset())
