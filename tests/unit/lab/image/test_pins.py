import re

import pytest

from accel_magic.lab.image import pins

GROUPS = (*pins.KERNELS, "busybox", "qemu", "headers-6.12", "headers-7.2", "module-tools", "level-zero")


@pytest.mark.parametrize("group", GROUPS)
def test_every_pin_is_complete_and_matches_its_address(group):
    found = pins.group(group)
    assert found
    for pin in found:
        version = pin.version.rpartition(":")[2]
        assert re.fullmatch(rf"{re.escape(f'{pin.name}_{version}_')}(amd64|all)\.deb", pin.file)
        assert re.fullmatch("debian(-security)?/pool/(updates/)?main/.*", pin.path)
        assert re.fullmatch("[0-9a-f]{64}", pin.sha256)
        assert pin.size > 1000
        assert pin.url.startswith("https://deb.debian.org/debian")


@pytest.mark.parametrize("kernel", pins.KERNELS)
def test_a_kernels_packages_have_the_same_release_of_its_series(kernel):
    releases = {pin.release for pin in pins.group(kernel)}
    assert len(releases) == 1
    assert releases.pop().startswith(f"{kernel}.")


@pytest.mark.parametrize("kernel", [kernel for kernel in pins.KERNELS if pins.group(pins.headers(kernel))])
def test_headers_are_those_of_the_pinned_kernel(kernel):
    pin = pins.group(kernel)[0]
    found = pins.group(pins.headers(kernel))
    assert {one.version for one in found} == {pin.version}
    assert found[0].name == f"linux-headers-{pin.release}"


def test_qemus_group_has_its_program_firmware_and_libc():
    names = {pin.name for pin in pins.group("qemu")}
    assert {"qemu-system-x86", "qemu-system-data", "seabios", "libc6", "zlib1g"} <= names
    version = next(pin.version for pin in pins.group("qemu") if pin.name == "qemu-system-x86")
    assert tuple(map(int, re.match(r"1:(\d+)\.(\d+)", version).groups())) >= (10, 1)


def test_no_package_is_pinned_twice():
    names = [(pin.group, pin.name) for group in GROUPS for pin in pins.group(group)]
    assert len(names) == len(set(names))


def test_pins_are_unchanged_after_a_round_trip_through_the_table():
    lines = [text for text in pins.TABLE.read_text().splitlines() if not text.startswith("#")]
    assert [pins.line(pin) for group in GROUPS for pin in pins.group(group)] == lines


def test_the_digest_changes_with_a_pin_the_modules_and_the_layout(monkeypatch, tmp_path):
    before = pins.digest("6.12")
    assert re.fullmatch("[0-9a-f]{12}", before)
    monkeypatch.setattr(pins, "LAYOUT", pins.LAYOUT + 1)
    other_layout = pins.digest("6.12")
    monkeypatch.undo()
    monkeypatch.setattr(pins, "MODULES", (*pins.MODULES, "more"))
    other_modules = pins.digest("6.12")
    assert pins.digest("busybox") == (pins.digest("busybox"))
    monkeypatch.undo()
    changed = tmp_path / "pins.txt"
    changed.write_text(pins.TABLE.read_text().replace(pins.group("6.12")[0].sha256, "0" * 64))
    monkeypatch.setattr(pins, "TABLE", changed)
    assert len({before, other_layout, other_modules, pins.digest("6.12")}) == 4
