import lzma

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.image import modules
from tests.support.errors import raises


@pytest.fixture
def files(tmp_path, make):
    """A function that takes modules with their dependencies, writes them, and returns their files by name."""

    def write(depends):
        for name, needed in depends.items():
            (tmp_path / f"{name}.ko.xz").write_bytes(lzma.compress(make.module(depends=needed, name=name)))
        return {modules.name_of(file.name): file for file in tmp_path.iterdir()}

    return write


def test_every_module_loads_once_and_after_its_dependencies(files):
    found = files({"a": "b,c", "b": "d", "c": "d", "d": "", "unused": "a"})
    assert modules.load_order(["a", "c"], found, frozenset()) == ["d", "b", "c", "a"]


def test_built_in_modules_are_skipped(files):
    found = files({"a": "b,core", "b": ""})
    assert modules.load_order(["core", "a"], found, frozenset({"core"})) == ["b", "a"]


def test_dashes_and_underscores_are_equivalent(files):
    found = files({"virtio-rng": "rng-core", "rng_core": ""})
    assert modules.load_order(["virtio_rng"], found, frozenset()) == ["rng_core", "virtio_rng"]


def test_circular_dependencies_do_not_recurse_forever(files):
    assert sorted(modules.load_order(["a"], files({"a": "b", "b": "a"}), frozenset())) == ["a", "b"]


def test_the_error_for_a_missing_module_names_the_one_that_needs_it(files):
    with raises("lab.no-module", MachineError) as error:
        modules.load_order(["a"], files({"a": "gone"}), frozenset())
    assert "gone" in error.value.what
    assert error.value.why.startswith("a needs it")


@pytest.mark.parametrize(
    ("file", "name"), [("kernel/x/virtio-rng.ko.xz", "virtio_rng"), ("9p.ko", "9p"), ("a_b.ko.xz", "a_b")]
)
def test_the_module_name_is_derived_from_the_file_name(file, name):
    assert modules.name_of(file) == name


def test_only_the_firmware_of_the_generation_is_returned(make):
    image = make.module(firmware=["intel/vpu/vpu_50xx_v1.bin", "intel/vpu/vpu_37xx_v1.bin"], depends="")
    assert modules.firmware_files(image, "intel_vpu", "37xx") == ["intel/vpu/vpu_37xx_v1.bin"]


@pytest.mark.parametrize("content", [b"", b"not xz", lzma.compress(b"x" * 1000)[:40]])
def test_the_error_for_a_damaged_file_names_it(tmp_path, content):
    file = tmp_path / "intel_vpu.ko.xz"
    file.write_bytes(content)
    with raises("lab.package-damaged", MachineError, match=r"intel_vpu"):
        modules.load_order(["intel_vpu"], {"intel_vpu": file}, frozenset())
