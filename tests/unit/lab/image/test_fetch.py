import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.image import fetch
from accel_magic.lab.image.progress import silent
from tests.support.errors import raises

pytestmark = pytest.mark.component


@pytest.fixture
def ready(archive, cache):
    cache.mkdir(parents=True)
    return archive


def versions(fetched):
    return {deb.name: deb.version for deb in fetched.debs}


def test_the_pinned_version_is_used_even_if_the_mirror_has_a_newer_one(ready, table, debs, make):
    pinned = make.busybox(debs, "1:1.37.0-6")
    table(("busybox", pinned))
    ready.publish(pinned)
    ready.publish(make.busybox(debs, "1:1.38.0-1"), suite="trixie-security")
    found = fetch.from_mirror(["busybox"], silent)["busybox"]
    assert versions(found) == {"busybox-static": "1:1.37.0-6"}
    assert found.notes == ()
    assert found.debs[0].file.read_bytes() == pinned.read_bytes()


def test_a_missing_kernel_is_replaced_with_the_newest_of_its_series_and_noted(ready, table, debs, make):
    table(("6.12", make.kernel(debs)))
    others = ("6.12.9+deb13-amd64", "6.12.10+deb13-amd64", "6.18.2+deb13-amd64", "6.12.11+deb13-cloud-amd64")
    ready.publish(*(make.kernel(debs, release, f"{release.partition('+')[0]}-1") for release in others))
    found = fetch.from_mirror(["6.12"], silent)["6.12"]
    assert versions(found) == {"linux-image-6.12.10+deb13-amd64": "6.12.10-1"}
    gone, taken = "linux-image-6.12.7+deb13-amd64 6.12.7-1", "linux-image-6.12.10+deb13-amd64 6.12.10-1"
    assert found.notes == (f"{gone} is not on the mirror: using {taken}",)


def test_a_kernel_in_several_packages_is_replaced_only_by_one_that_has_them_all(ready, table, debs, make):
    def parts(release, *stems):
        return [make.deb(debs, f"linux-{stem}-{release}", release.partition("+")[0], {"x": b"x"}) for stem in stems]

    table(*(("7.2", deb) for deb in parts("7.2.1+deb13-amd64", "binary", "modules")))
    ready.publish(*parts("7.2.5+deb13-amd64", "binary", "modules"), *parts("7.2.6+deb13-amd64", "binary"))
    found = fetch.from_mirror(["7.2"], silent)["7.2"]
    assert sorted(versions(found)) == ["linux-binary-7.2.5+deb13-amd64", "linux-modules-7.2.5+deb13-amd64"]
    assert len(found.notes) == 2


def test_a_missing_qemu_is_replaced_by_that_of_backports_with_its_dependencies(ready, table, debs, make):
    def package(name, version, depends=""):
        return make.deb(debs, name, version, {"x": b"x"}, depends=depends)

    table(("qemu", package("qemu-system-x86", "1:11.1.3-1")), ("qemu", package("libold1", "1-1")))
    ready.publish(package("qemu-system-x86", "1:10.0.1-1"), package("libnew1", "2-1"), package("libother1", "3-1"))
    backports = package("qemu-system-x86", "1:11.1.4-1", "libnew1 (>= 2)")
    ready.publish(backports, suite="trixie-backports")
    found = fetch.from_mirror(["qemu"], silent)["qemu"]
    assert versions(found) == {"qemu-system-x86": "1:11.1.4-1", "libnew1": "2-1"}
    assert found.notes == (
        "qemu-system-x86 1:11.1.3-1 is not on the mirror: using qemu-system-x86 1:11.1.4-1",
        "libold1 1-1 is not on the mirror and no longer needed",
    )


def test_the_error_for_a_missing_series_lists_the_files_to_fetch(ready, table, debs, make):
    table(("6.12", make.kernel(debs)))
    ready.publish(make.busybox(debs))
    with raises("lab.no-package", MachineError) as error:
        fetch.from_mirror(["6.12"], silent)
    assert "linux-image-6.12.7+deb13-amd64 6.12.7-1" in error.value.why
    assert (
        "https://deb.debian.org/debian/pool/main/linux-image-6.12.7+deb13-amd64_6.12.7-1_amd64.deb" in error.value.fix
    )


def test_the_error_without_apt_lists_every_file(table, debs, make, monkeypatch, tmp_path):
    table(("6.12", make.kernel(debs)), ("busybox", make.busybox(debs)))
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises("lab.no-apt", MachineError) as error:
        fetch.from_mirror(["6.12", "busybox"], silent)
    assert "apt-get" in error.value.why
    assert "/linux-image-6.12.7+deb13-amd64_6.12.7-1_amd64.deb" in error.value.fix
    assert "/busybox-static_1.37.0-6_amd64.deb" in error.value.fix


def test_insufficient_disk_space_is_an_error_before_anything_is_fetched(ready, table, debs, make, monkeypatch):
    deb = make.busybox(debs)
    table(("busybox", deb))
    ready.publish(deb)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 100})())
    with raises("cache.no-space", MachineError):
        fetch.from_mirror(["busybox"], silent)
    assert not [path for path in ready.asked if path.endswith(".deb")]


@pytest.mark.parametrize("name", ["busybox-static_1.37.0-6_amd64.deb", "busybox-static_1%3a1.37.0-6_amd64.deb"])
def test_files_in_a_folder_may_be_named_by_a_mirror_or_by_apt(table, debs, make, name):
    deb = make.busybox(debs)
    table(("busybox", deb))
    deb.rename(debs / name)
    found = fetch.from_folder(["busybox"], debs)["busybox"]
    assert [one.file for one in found.debs] == [debs / name]
    assert found.notes == ()


def test_a_supplied_package_with_another_checksum_is_rejected(table, debs, make):
    deb = make.busybox(debs)
    table(("busybox", deb))
    deb.write_bytes(deb.read_bytes() + b"x")
    with raises("lab.package-differs", MachineError) as error:
        fetch.from_folder(["busybox"], debs)
    assert "busybox-static_1.37.0-6_amd64.deb" in error.value.fix


def test_a_supplied_package_of_another_version_is_used_with_a_note(table, debs, make):
    pinned = make.busybox(debs)
    table(("busybox", pinned))
    pinned.unlink()
    make.busybox(debs, "1:1.38.0-1")
    found = fetch.from_folder(["busybox"], debs)["busybox"]
    assert versions(found) == {"busybox-static": "1:1.38.0-1"}
    assert "is used unverified" in found.notes[0]


def test_a_kernel_of_another_series_is_not_used(table, debs, make):
    pinned = make.kernel(debs)
    table(("6.12", pinned))
    pinned.unlink()
    make.kernel(debs, "6.18.2+deb13-amd64", "6.18.2-1")
    with raises("lab.no-package", MachineError):
        fetch.from_folder(["6.12"], debs)


def test_packages_of_two_kernels_are_not_mixed(table, debs, make):
    def part(stem, release):
        return make.deb(debs, f"linux-{stem}-{release}", "1", {"x": b"x"})

    binary, modules = part("binary", "7.2.1+deb13-amd64"), part("modules", "7.2.1+deb13-amd64")
    table(("7.2", binary), ("7.2", modules))
    modules.unlink()
    part("modules", "7.2.2+deb13-amd64")
    with raises("lab.mixed-kernels", MachineError) as error:
        fetch.from_folder(["7.2"], debs)
    assert "7.2.1+deb13-amd64, 7.2.2+deb13-amd64" in error.value.why


def test_the_error_for_missing_packages_in_a_folder_lists_them(table, debs, make):
    kernel, busybox = make.kernel(debs), make.busybox(debs)
    table(("6.12", kernel), ("busybox", busybox))
    kernel.unlink()
    with raises("lab.no-package", MachineError) as error:
        fetch.from_folder(["6.12", "busybox"], debs)
    assert error.value.why == "missing: linux-image-6.12.7+deb13-amd64"
    assert "these 1 files" in error.value.fix


def test_a_missing_folder_is_an_error(table, debs, make, tmp_path):
    table(("busybox", make.busybox(debs)))
    with raises("lab.no-folder", MachineError):
        fetch.from_folder(["busybox"], tmp_path / "none")
