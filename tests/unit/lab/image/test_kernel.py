import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.image import kernel
from accel_magic.lab.image.fetch import Deb
from tests.support.errors import raises


@pytest.fixture
def unpacked(tmp_path, debs, make, cache):
    """Unpack packages given as {name: files}; returns what kernel.unpack said and the part."""

    def unpack(content):
        cache.mkdir(parents=True)
        part = tmp_path / "part"
        part.mkdir()
        packages = [Deb(name, "1", make.deb(debs, name, "1", files)) for name, files in content.items()]
        return kernel.unpack(packages, part, lambda _: None), part

    return unpack


def test_a_kernel_in_one_package_or_in_three_gives_the_same_part(unpacked, make):
    files = make.kernel_files()
    split = {"linux-binary": {}, "linux-modules": {}, "linux-base": {}}
    for path, content in files.items():
        if path.startswith("boot/"):
            split["linux-binary"][f"usr/lib/modules/{make.release}/vmlinuz"] = content
        else:
            split["linux-base" if path.endswith("builtin") else "linux-modules"][path] = content
    said, part = unpacked(split)
    assert said["release"] == make.release
    assert (part / "vmlinuz").read_bytes() == b"kernel " + make.release.encode()
    assert {file.name for file in (part / "modules").iterdir()} == {f"{name}.ko.xz" for name in said["order"]}
    assert "virtio_pci" not in said["order"], "it is built in"
    assert said["firmware"] == ["intel/vpu/vpu_37xx_v1.bin", "intel/vpu/vpu_37xx_v2.bin"]


def test_packages_without_a_kernel_are_an_error(unpacked, make):
    files = {path: content for path, content in make.kernel_files().items() if "vmlinuz" not in path}
    with raises("lab.package-lacks-file", MachineError, match="have no kernel"):
        unpacked({"linux-image": files})


def test_the_progress_is_that_of_all_packages_together(tmp_path, debs, make, cache):
    cache.mkdir(parents=True)
    (tmp_path / "part").mkdir()
    packages = [Deb("a", "1", make.kernel(debs)), Deb("b", "1", make.busybox(debs))]
    seen = []
    kernel.unpack(packages, tmp_path / "part", seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == sum(package.file.stat().st_size for package in packages)
