import json
import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab import image
from accel_magic.lab.image import builder, fetch, store
from accel_magic.lab.image.progress import silent
from tests.support.errors import raises

pytestmark = pytest.mark.component


def names_in(file):
    """Paths and contents in an initramfs, parsed independently of the code that wrote it."""
    data, at, found = file.read_bytes(), 0, {}
    while data[at : at + 6] == b"070701":
        size, name_size = (int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in (6, 11))
        name = data[at + 110 : at + 109 + name_size].decode()
        at = -(-(at + 110 + name_size) // 4) * 4
        found[name] = data[at : at + size]
        at = -(-(at + size) // 4) * 4
    return found


@pytest.fixture
def supplied(debs, make, table, own_qemu):
    """A folder with the pinned packages of one kernel and busybox; the system's QEMU is suitable."""
    table(("6.12", make.kernel(debs)), ("busybox", make.busybox(debs)))
    return debs


def test_an_image_is_built_from_a_folder_of_packages(supplied, cache, make):
    built = image.build("6.12", debs=supplied)
    assert (built.kernel, built.release) == ("6.12", make.release)
    assert built.vmlinuz.read_bytes() == b"kernel " + make.release.encode()
    assert (Path(built.qemu[0]).name, len(built.qemu), built.qemu_version) == ("qemu-system-x86_64", 1, "10.1.2")
    assert built.packages == {f"linux-image-{make.release}": "6.12.7-1", "busybox-static": "1:1.37.0-6"}
    assert built.notes == ()
    assert cache in built.initramfs.parents


def test_a_modified_kernel_is_rejected(supplied):
    image.build("6.12", debs=supplied).vmlinuz.write_bytes(b"planted")

    with raises("lab.part-changed", MachineError):
        image.find("6.12")


def test_a_modified_initramfs_is_rebuilt(supplied):
    built = image.build("6.12", debs=supplied)
    content = built.initramfs.read_bytes()
    built.initramfs.write_bytes(b"planted")

    assert image.find("6.12").initramfs.read_bytes() == content


def test_the_initramfs_contains_init_busybox_modules_and_firmware(supplied):
    found = names_in(image.build("6.12", debs=supplied).initramfs)
    assert found["init"] == b"#!/bin/busybox sh\n"
    assert found["bin/busybox"] == b"#!busybox 1:1.37.0-6"
    assert {"proc", "sys", "dev", "tmp", "root", "host", "run", "dev/console"} <= set(found)
    order = found["lib/modules/order"].decode().split()
    assert set(order) == {
        *("virtio_rng", "netfs", "9pnet", "9p", "9pnet_virtio", "overlay", "failover", "net_failover"),
        *("virtio_net", "drm", "gpu_sched", "drm_shmem_helper", "intel_vpu"),
    }
    for first, second in [("9pnet", "9p"), ("failover", "net_failover"), ("drm", "drm_shmem_helper")]:
        assert order.index(first) < order.index(second)
    for name in order:
        assert found[f"lib/modules/{name}.ko"][:4] == b"\x7fELF"
    firmware = {path.removeprefix("lib/firmware/intel/vpu/") for path in found if path.endswith(".bin")}
    assert firmware == {"vpu_37xx_v1.bin", "vpu_37xx_v0.0.bin", "vpu_37xx_v2.bin"}


def test_packages_are_fetched_from_the_mirror_and_only_needed_files_are_kept(archive, cache, supplied, make):
    archive.publish(*supplied.iterdir())
    steps = []
    built = image.build("6.12", report=lambda progress: steps.append(progress.step))
    assert list(dict.fromkeys(steps)) == ["index", "fetch", "unpack", "build"]
    files = {str(file.relative_to(cache)) for file in cache.rglob("*") if file.is_file()}
    kept = {Path(file).parts[0] for file in files}
    assert kept == {"lock", "parts", "images", "system-qemu.json"}
    assert not any("e1000" in file for file in files)
    assert built.packages["busybox-static"] == "1:1.37.0-6"


def test_an_existing_image_is_not_rebuilt(supplied, monkeypatch):
    first = image.build("6.12", debs=supplied)
    before = first.initramfs.stat()[:7], first.initramfs.stat().st_mtime_ns  # without the access time

    def fail(*_, **__):
        raise AssertionError("something was done")

    for name in ("from_mirror", "from_folder"):
        monkeypatch.setattr(fetch, name, fail)
    monkeypatch.setattr(store, "writing", fail)
    assert image.build("6.12") == image.find("6.12") == first
    assert (first.initramfs.stat()[:7], first.initramfs.stat().st_mtime_ns) == before


def test_a_changed_init_rebuilds_only_the_initramfs(supplied, monkeypatch):
    first = image.build("6.12", debs=supplied)
    builder.GUEST_INIT.write_text("changed\n")
    monkeypatch.setattr(fetch, "from_mirror", None)
    renewed = image.find("6.12")
    assert renewed.initramfs != first.initramfs
    assert names_in(renewed.initramfs)["init"] == b"changed\n"
    assert renewed.vmlinuz == first.vmlinuz
    assert not first.initramfs.exists(), "the old one is removed"


def test_changed_pins_require_a_build_that_replaces_the_old_part(supplied, debs, make, table, cache):
    first = image.build("6.12", debs=supplied)
    table(("6.12", make.kernel(debs, "6.12.8+deb13-amd64", "6.12.8-1")), ("busybox", make.busybox(debs)))
    with raises("lab.not-built", MachineError):
        image.find("6.12")
    assert image.build("6.12", debs=debs).release == "6.12.8+deb13-amd64"
    assert not first.vmlinuz.exists()
    assert len(list((cache / "parts").iterdir())) == 2


def test_the_error_for_an_image_that_is_not_built_names_the_build_command(supplied):
    with raises("lab.not-built", MachineError) as error:
        image.find("6.12")
    assert error.value.fix == "python -m accel_magic lab build --kernel 6.12"
    assert image.built() == []


def test_the_error_for_an_unknown_kernel_lists_the_known_ones():
    with raises("lab.unknown-kernel", MachineError) as error:
        image.build("5.4")
    assert error.value.fix == "use one of 6.12, 6.18, 7.2"


def test_another_architecture_is_an_error(monkeypatch, supplied):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with raises("lab.platform", MachineError) as error:
        image.build("6.12", debs=supplied)
    assert "linux on aarch64" in error.value.why


def test_notes_on_replaced_packages_are_reported_and_kept_with_the_image(supplied, make):
    (supplied / "busybox-static_1%3a1.37.0-6_amd64.deb").unlink()
    make.busybox(supplied, "1:1.38.0-1")
    seen = []
    built = image.build("6.12", debs=supplied, report=seen.append)
    notes = [progress.text for progress in seen if progress.step == "note"]
    assert notes == list(built.notes) == list(image.find("6.12").notes)
    assert "busybox-static 1:1.38.0-1 is used unverified" in notes[0]


def test_a_kernel_without_the_driver_is_an_error_and_leaves_no_part(debs, make, table, own_qemu, cache):
    modules = {"overlay": "", "virtio_net": "", "virtio_rng": "", "9p": "", "9pnet_virtio": "", "gpu_sched": ""}
    table(("6.12", make.kernel(debs, modules=modules)), ("busybox", make.busybox(debs)))
    with raises("lab.no-module", MachineError, match="intel_vpu"):
        image.build("6.12", debs=debs)
    assert not list((cache / "parts").glob("kernel*"))
    assert list((cache / "tmp").iterdir()) == []


def test_a_full_disk_is_an_error_and_leaves_no_partial_files(supplied, monkeypatch, cache):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with raises("cache.no-space", MachineError) as error:
        image.build("6.12", debs=supplied)
    assert "ACCEL_MAGIC_CACHE" in error.value.fix
    assert not (cache / "parts").exists()


def test_a_cache_that_cannot_be_created_is_an_error(supplied, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path / "file"))
    with raises("cache.not-writable", MachineError) as error:
        image.build("6.12", debs=supplied)
    assert "ACCEL_MAGIC_CACHE" in error.value.fix


def test_cleaning_a_kernel_keeps_the_others(debs, make, table, own_qemu, cache):
    table(
        ("6.12", make.kernel(debs)),
        ("6.18", make.kernel(debs, "6.18.2+deb13-amd64", "6.18.2-1")),
        ("busybox", make.busybox(debs)),
    )
    images = image.build_all(("6.12", "6.18"), debs=debs)
    size = images[0].initramfs.stat().st_size
    assert image.clean("6.12") > size
    assert [one.kernel for one in image.built()] == ["6.18"]
    assert image.clean() > size
    assert [file.name for file in cache.iterdir()] == ["lock"]
    assert image.clean() == 0


def test_cleaning_keeps_files_of_others(supplied, cache):
    image.build("6.12", debs=supplied)
    (cache / "runs").mkdir()
    image.clean()
    assert (cache / "runs").is_dir()


SCRIPT = """
    import sys, time
    from pathlib import Path
    from accel_magic.lab import image
    from accel_magic.lab.image import builder, pins, kernel, store
    pins.TABLE, builder.GUEST_INIT = Path(sys.argv[1]), Path(sys.argv[2])
    real = kernel.unpack
    def slow(debs, part, progress):
        (part / "unfinished").touch()
        print("unpacking", flush=True)
        time.sleep(float(sys.argv[4]))
        (part / "unfinished").unlink()
        return real(debs, part, progress)
    kernel.unpack = slow
    built = image.build("6.12", debs=Path(sys.argv[3]), report=lambda one: print(one.step, flush=True))
    print("built", built.initramfs)
"""


@pytest.fixture
def other(supplied):
    """A function that starts a build in another process; unpacking the kernel takes the given number of seconds."""
    from accel_magic.lab.image import pins

    started = []

    def start(seconds):
        arguments = [pins.TABLE, builder.GUEST_INIT, supplied, str(seconds)]
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SCRIPT), *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_two_concurrent_builds_give_the_same_image_and_unpack_once(other, cache):
    processes = [other(0.5), other(0.5)]
    outputs = [process.communicate(timeout=60)[0].split("\n") for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert len({output[-2] for output in outputs}) == 1
    assert sum(output.count("unpacking") for output in outputs) == 1
    assert sum(output.count("wait") for output in outputs) == 1


def test_a_killed_build_leaves_no_part_and_the_next_one_succeeds(other, supplied, cache):
    process = other(60)
    assert process.stdout.readline() == "unpacking\n"
    process.kill()
    process.wait()
    assert list(cache.rglob("unfinished"))
    assert not list(cache.glob("parts/kernel*"))
    with store.writing(silent):
        assert not list(cache.rglob("unfinished")), "removed by the next writer"
    built = image.build("6.12", debs=supplied)
    assert built.vmlinuz.is_file()


def test_a_build_with_nothing_to_do_starts_no_process_and_writes_nothing(supplied, cache, monkeypatch):
    def files():
        return {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}

    built = image.build("6.12", debs=supplied)
    before = files()
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a program is started"))

    assert image.build("6.12") == built
    assert files() == before


def test_importing_the_package_does_not_import_the_lab():
    script = "import sys, accel_magic; print([name for name in sys.modules if name.startswith('accel_magic.lab')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"ACCEL_MAGIC_CACHE": "/a"}, "/a/lab"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/accel_magic/lab"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/accel_magic/lab"),
        ({"HOME": "/h"}, "/h/.cache/accel_magic/lab"),
    ],
)
def test_the_environment_determines_the_cache_folder(monkeypatch, variables, expected):
    for name in ("ACCEL_MAGIC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(image.cache()) == expected


def test_a_part_with_a_damaged_manifest_counts_as_missing(supplied, cache):
    image.build("6.12", debs=supplied)
    manifest = next(cache.glob("parts/kernel*/part.json"))
    manifest.write_text(json.dumps(json.loads(manifest.read_text()))[:20])
    with raises("lab.not-built", MachineError):
        image.find("6.12")
    assert image.build("6.12", debs=supplied).vmlinuz.is_file()
