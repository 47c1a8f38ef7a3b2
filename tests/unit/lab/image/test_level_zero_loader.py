"""The Level Zero loader: Debian 12's package, fetched and unpacked only on request."""

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab import image
from accel_magic.lab.image import fetch, pins, store
from tests.support.errors import raises

pytestmark = pytest.mark.component

LIBRARY = "usr/lib/x86_64-linux-gnu"


@pytest.fixture
def package(debs, make, table):
    """The pinned package."""
    files = {f"{LIBRARY}/libze_loader.so.1.8.0": b"loader", f"{LIBRARY}/libze_tracing_layer.so.1.8.0": b"layer"}
    deb = make.deb(debs, "libze1", "1.8.12-1", files)
    table(("level-zero", deb))
    return deb


def test_only_the_loader_is_extracted_from_a_package_in_a_folder(package, debs, cache):
    loader = image.build_level_zero(debs=debs)

    assert (loader.name, loader.read_bytes()) == ("libze_loader.so.1", b"loader")
    assert sorted(file.name for file in loader.parent.iterdir()) == ["libze_loader.so.1", "part.json"]
    assert image.find_level_zero() == loader
    assert cache in loader.parents


def test_a_modified_loader_is_rejected(package, debs):
    loader = image.build_level_zero(debs=debs)
    loader.write_bytes(b"planted")

    with raises("lab.part-changed", MachineError):
        image.find_level_zero()

    image.clean()
    assert image.build_level_zero(debs=debs).read_bytes() == b"loader"


def test_it_is_fetched_from_debian_12_even_if_newer_releases_have_it(package, archive, make, debs, cache):
    archive.publish(package, suite="bookworm")
    archive.publish(make.deb(debs, "libze1", "1.20.6-1", {f"{LIBRARY}/libze_loader.so.1.20.6": b"newer"}))

    loader = image.build_level_zero()

    assert loader.read_bytes() == b"loader"
    assert not any("trixie" in path for path in archive.asked)
    assert sorted(path.name for path in cache.iterdir()) == ["lock", "parts"]


def test_groups_of_different_releases_are_fetched_each_from_its_own(package, archive, make, debs, table):
    busybox = make.busybox(debs)
    table(("level-zero", package), ("busybox", busybox))
    archive.publish(busybox)
    archive.publish(package, suite="bookworm")
    store.cache().mkdir(parents=True)

    found = fetch.from_mirror(["busybox", pins.LEVEL_ZERO], lambda _: None)

    assert {group: one.debs[0].version for group, one in found.items()} == {
        "busybox": "1:1.37.0-6",
        "level-zero": "1.8.12-1",
    }
    assert all(deb.file.is_file() for one in found.values() for deb in one.debs)


def test_an_existing_loader_is_not_fetched_again(package, debs, monkeypatch):
    first = image.build_level_zero(debs=debs)
    monkeypatch.setattr(fetch, "from_mirror", None)
    monkeypatch.setattr(fetch, "from_folder", None)

    assert image.build_level_zero() == first


def test_building_a_kernel_neither_needs_nor_removes_it(package, debs, make, table, own_qemu):
    table(("level-zero", package), ("6.12", make.kernel(debs)), ("busybox", make.busybox(debs)))
    package.rename(debs.parent / package.name)
    image.build("6.12", debs=debs)
    with raises("lab.no-level-zero", MachineError):
        image.find_level_zero()
    (debs.parent / package.name).rename(package)

    loader = image.build_level_zero(debs=debs)
    image.clean("6.12")
    image.build("6.12", debs=debs)

    assert loader.is_file()
    image.clean()
    assert not loader.exists()


def test_the_error_without_it_names_the_command_that_builds_it(package, tmp_path):
    with raises("lab.no-level-zero", MachineError) as error:
        image.find_level_zero()
    assert error.value.fix.startswith("python -m accel_magic lab build, ")

    with raises("lab.no-folder", MachineError) as error:
        image.build_level_zero(debs=tmp_path / "none")
    assert "lab build --level-zero --debs FOLDER" in error.value.fix
    assert "libze1_1.8.12-1_amd64.deb" in error.value.fix


@pytest.fixture
def others(package, debs, make, table):
    """The packages of a lab except the loader's."""
    table(("level-zero", package), ("6.12", make.kernel(debs)), ("busybox", make.busybox(debs)))
    return [file for file in debs.iterdir() if file != package]


@pytest.fixture
def kernel_published(others, archive, own_qemu):
    """The mirror has them."""
    archive.publish(*others)


def test_what_a_lab_is_started_from_includes_it(kernel_published, package, archive, monkeypatch):
    archive.publish(package, suite="bookworm")

    built = image.prepare("6.12")

    assert image.find_level_zero().read_bytes() == b"loader"
    monkeypatch.setattr(fetch, "from_mirror", None)
    assert image.prepare("6.12") == built


def test_a_lab_is_started_without_it_if_it_cannot_be_built(kernel_published):
    notes = []

    built = image.prepare("6.12", report=lambda progress: notes.append(progress.text) if progress.step == "note" else 0)

    assert image.find("6.12") == built
    assert notes[-1].startswith("OpenVINO does not find the NPU, and ze_load does not work: ")
    with raises("lab.no-level-zero", MachineError):
        image.find_level_zero()
    notes.clear()
    assert image.prepare("6.12", report=lambda progress: notes.append(progress.text)) == built
    assert notes == []  # a lab that is built needs no network


def test_a_package_without_the_loader_is_rejected(debs, make, table):
    table(("level-zero", make.deb(debs, "libze1", "1.8.12-1", {f"{LIBRARY}/libother.so.1": b"x"})))
    with raises("lab.package-lacks-file", MachineError, match=r"libze_loader\.so\.1"):
        image.build_level_zero(debs=debs)
    with raises("lab.no-level-zero", MachineError):
        image.find_level_zero()
