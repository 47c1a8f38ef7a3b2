import io
import os
import tarfile

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.image import unpack
from tests.support.errors import raises

pytestmark = pytest.mark.component


@pytest.fixture
def target(tmp_path):
    return tmp_path / "out"


def ar(*members):
    """Build the outer archive of a package."""
    data = b"!<arch>\n"
    for name, content in members:
        data += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content
        data += b"\n" * (len(content) % 2)
    return data


def tar(*infos):
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w:xz") as archive:
        for info, content in infos:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return output.getvalue()


@pytest.mark.parametrize("packing", ["xz", "gzip", "none"])
def test_only_the_chosen_files_are_extracted(tmp_path, make, target, packing):
    deb = make.deb(tmp_path, "p", "1", {"usr/a": b"A" * 100_000, "usr/b": b"B"}, packing=packing)
    written, _ = unpack.extract(deb, lambda path: target if path == "usr/a" else None)
    assert written == ["usr/a"]
    assert target.read_bytes() == b"A" * 100_000
    assert target.stat().st_mode & 0o777 == 0o755


def test_links_are_reported_but_not_created(tmp_path, make, target):
    from pathlib import Path

    deb = make.deb(tmp_path, "p", "1", {"lib/libx.so.1.2": b"x", "lib/libx.so.1": Path("libx.so.1.2")})
    _, links = unpack.extract(deb, lambda path: target / path)
    assert links == [unpack.PackageLink("lib/libx.so.1", "libx.so.1.2")]
    assert not (target / "lib/libx.so.1").exists()


def test_progress_increases_up_to_the_size_of_the_package(tmp_path, make):
    deb = make.deb(tmp_path, "p", "1", {"a": os.urandom(3_000_000)})
    seen = []
    unpack.extract(deb, lambda _: None, seen.append)
    assert seen == sorted(seen)
    assert len(seen) >= 10
    assert deb.stat().st_size - 1 <= seen[-1] <= deb.stat().st_size


@pytest.mark.parametrize("keep", [0, 5, 40, 100, 0.5, 0.99])
def test_a_truncated_package_is_damaged(tmp_path, make, target, keep):
    deb = make.deb(tmp_path, "p", "1", {"a": os.urandom(300_000)})
    data = deb.read_bytes()
    deb.write_bytes(data[: keep if isinstance(keep, int) else int(len(data) * keep)])
    with raises("lab.package-damaged", MachineError) as error:
        unpack.extract(deb, lambda _: target)
    assert str(deb) in error.value.what


def test_a_package_with_changed_bytes_is_damaged(tmp_path, make, target):
    deb = make.deb(tmp_path, "p", "1", {"a": os.urandom(300_000)})
    data = bytearray(deb.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
    deb.write_bytes(data)
    with raises("lab.package-damaged", MachineError):
        unpack.extract(deb, lambda _: target)


@pytest.mark.parametrize("size", ["-5", "99999999999", "x"])
def test_an_invalid_member_size_means_a_damaged_package(tmp_path, size):
    file = tmp_path / "p.deb"
    file.write_bytes(ar(("control.tar.xz", b"abcd")).replace(f"{4:<10}".encode(), f"{size:<10}"[:10].encode()))
    with raises("lab.package-damaged", MachineError):
        unpack.extract(file, lambda _: None)


def test_the_error_for_an_unsupported_compression_names_it(tmp_path):
    file = tmp_path / "p.deb"
    file.write_bytes(ar(("debian-binary", b"2.0\n"), ("data.tar.zst", b"abcd")))
    with raises("lab.packing", MachineError) as error:
        unpack.extract(file, lambda _: None)
    assert "zst" in error.value.why


def test_paths_in_the_package_cannot_change_where_files_are_written(tmp_path, target):
    file = tmp_path / "p.deb"
    infos = [(tarfile.TarInfo(name), b"evil") for name in ("../../escaped", "/etc/absolute", "./ok")]
    file.write_bytes(ar(("data.tar.xz", tar(*infos))))
    asked = []
    unpack.extract(file, lambda path: asked.append(path) or (target if path == "ok" else None))
    assert asked == ["../../escaped", "etc/absolute", "ok"]
    assert target.read_bytes() == b"evil"


def test_devices_and_folders_are_never_written(tmp_path, target):
    file = tmp_path / "p.deb"
    info = tarfile.TarInfo("null")
    info.type = tarfile.CHRTYPE
    file.write_bytes(ar(("data.tar.xz", tar((info, b"")))))
    assert unpack.extract(file, lambda _: target)[0] == []
    assert not target.exists()
