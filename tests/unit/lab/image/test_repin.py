import pytest

from accel_magic.lab.image import pins, repin

pytestmark = pytest.mark.component


@pytest.fixture
def mirror(archive, cache, monkeypatch):
    monkeypatch.setattr(repin, "find_mirror", archive.mirror)
    monkeypatch.setattr(repin.qemu, "unpack", lambda debs, *_: {"qemu-system-x86": "1", "libneeded1": "1"})
    monkeypatch.setattr(pins, "KERNELS", ("6.12",))
    return archive


def test_the_table_is_rewritten_with_the_mirrors_versions(mirror, table, make, debs):
    table(("6.12", make.kernel(debs)), ("busybox", make.busybox(debs)))
    newer = make.kernel(debs, "6.12.10+deb13-amd64", "6.12.10-1"), make.busybox(debs, "1:1.38.0-1")
    mirror.publish(
        *newer, make.deb(debs, "libneeded1", "2", {"x": b"x"}), make.deb(debs, "libother1", "2", {"x": b"x"})
    )
    depends = "libneeded1, libother1"
    mirror.publish(make.deb(debs, "qemu-system-x86", "1:12.0", {"x": b"x"}, depends=depends), suite="trixie-backports")
    assert repin.main() == 0
    pins._read.cache_clear()
    found = {(pin.group, pin.name, pin.version) for group in ("6.12", "busybox", "qemu") for pin in pins.group(group)}
    assert found == {
        ("6.12", "linux-image-6.12.10+deb13-amd64", "6.12.10-1"),
        ("busybox", "busybox-static", "1:1.38.0-1"),
        ("qemu", "libneeded1", "2"),
        ("qemu", "qemu-system-x86", "1:12.0"),
    }
    assert pins.group("busybox")[0].size == newer[1].stat().st_size


def test_the_table_is_unchanged_if_the_mirror_lacks_a_series(mirror, table, make, debs, capsys):
    table(("6.12", make.kernel(debs)), ("busybox", make.busybox(debs)))
    before = pins.TABLE.read_text()
    mirror.publish(make.busybox(debs, "1:1.38.0-1"))
    mirror.publish(make.deb(debs, "qemu-system-x86", "1:12.0", {"x": b"x"}), suite="trixie-backports")
    assert repin.main() == 1
    assert "no packages for 6.12" in capsys.readouterr().err
    assert pins.TABLE.read_text() == before
