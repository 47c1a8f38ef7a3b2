import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.image import kernel
from accel_magic.lab.image.fetch import Deb
from tests.support.errors import raises


@pytest.fixture
def unpacked(tmp_path, debs, make, cache):
    """A function that unpacks packages given as {name: files}; returns the result of kernel.unpack and the part."""

    def unpack(content):
        cache.mkdir(parents=True)
        part = tmp_path / "part"
        part.mkdir()
        packages = [Deb(name, "1", make.deb(debs, name, "1", files)) for name, files in content.items()]
        return kernel.unpack(packages, part, lambda _: None), part

    return unpack


def test_a_kernel_split_into_three_packages_gives_the_same_part(unpacked, make):
    files = make.kernel_files()
    split = {"linux-binary": {}, "linux-modules": {}, "linux-base": {}}
    for path, content in files.items():
        if path.startswith("boot/"):
            split["linux-binary"][f"usr/lib/modules/{make.release}/vmlinuz"] = content
        else:
            split["linux-base" if path.endswith("builtin") else "linux-modules"][path] = content
    entries, part = unpacked(split)
    assert entries["release"] == make.release
    assert (part / "vmlinuz").read_bytes() == b"kernel " + make.release.encode()
    assert {file.name for file in (part / "modules").iterdir()} == {f"{name}.ko.xz" for name in entries["order"]}
    assert "virtio_pci" not in entries["order"], "it is built in"
    assert entries["firmware"] == ["intel/vpu/vpu_37xx_v1.bin", "intel/vpu/vpu_37xx_v2.bin"]


def test_packages_without_a_kernel_are_an_error(unpacked, make):
    files = {path: content for path, content in make.kernel_files().items() if "vmlinuz" not in path}
    with raises("lab.package-lacks-file", MachineError):
        unpacked({"linux-image": files})


def test_progress_covers_all_packages(tmp_path, debs, make, cache):
    cache.mkdir(parents=True)
    (tmp_path / "part").mkdir()
    packages = [Deb("a", "1", make.kernel(debs)), Deb("b", "1", make.busybox(debs))]
    seen = []
    kernel.unpack(packages, tmp_path / "part", seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == sum(package.file.stat().st_size for package in packages)
