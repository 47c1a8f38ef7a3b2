import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.image import apt, mirror
from accel_magic.lab.image.progress import silent
from tests.support.errors import raises

pytestmark = pytest.mark.component

SYSTEM = ("/etc/apt", "/var/lib/apt", "/var/cache/apt", "/var/lib/dpkg/status", "/var/log/apt")


@pytest.fixture
def private(archive, cache):
    """An Apt for the test's archive."""
    cache.mkdir(parents=True)
    return apt.Apt(archive.mirror(), silent)


def snapshot():
    """Path, size and modification time of all files of the system's apt."""
    found = [Path(top) for top in SYSTEM if Path(top).exists()]
    found += [item for top in SYSTEM for item in Path(top).rglob("*")]
    return {str(item): (item.lstat().st_size, item.lstat().st_mtime_ns) for item in found}


def test_a_package_is_listed_and_fetched_completely(private, archive, debs, make, tmp_path):
    deb = make.busybox(debs)
    archive.publish(deb)
    private.update()
    found = private.available(["busybox-static", "no-such-package"])
    assert list(found) == ["busybox-static"]
    package = found["busybox-static"][0]
    assert (package.version, package.size) == ("1:1.37.0-6", deb.stat().st_size)
    private.download([package], tmp_path / "got")
    assert [file.read_bytes() for file in (tmp_path / "got").iterdir()] == [deb.read_bytes()]
    assert package.file == deb.name


def test_the_newest_version_of_several_suites_comes_first(private, archive, debs, make):
    archive.publish(make.busybox(debs, "1:1.9-1"))
    archive.publish(make.busybox(debs, "1:1.10-1"), suite="trixie-security")
    private.update()
    assert [one.version for one in private.available(["busybox-static"])["busybox-static"]] == ["1:1.10-1", "1:1.9-1"]


def test_names_have_the_prefix(private, archive, debs, make):
    archive.publish(make.busybox(debs), make.kernel(debs))
    private.update()
    assert private.names("linux-image-6.12.") == [f"linux-image-{make.release}"]


def test_the_systems_apt_is_unchanged(private, archive, debs, make, tmp_path):
    archive.publish(make.busybox(debs))
    before = snapshot()
    private.update()
    private.download(private.available(["busybox-static"])["busybox-static"], tmp_path / "got")
    private.closure("busybox-static", "trixie")
    assert snapshot() == before


def test_hooks_of_the_systems_configuration_do_not_run(private, archive, debs, make, tmp_path):
    archive.publish(make.busybox(debs))
    mark = tmp_path / "ran"
    names = ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success")
    with Path(os.environ["APT_CONFIG"]).open("a") as configuration:
        configuration.write("".join(f'APT::Update::{name} {{ "touch {mark}"; }};\n' for name in names))
    private.update()
    assert not mark.exists()


def test_the_proxy_of_the_systems_configuration_is_used(archive, cache, debs, make, tmp_path):
    archive.publish(make.busybox(debs))
    Path(os.environ["APT_CONFIG"]).write_text(f'Acquire::http::Proxy "{archive.address}";\n')
    served = mirror.Mirror("http://mirror.invalid/debian", "http://mirror.invalid/debian-security", archive.keyring)
    cache.mkdir(parents=True)
    with raises("lab.apt-failed", MachineError):
        apt.Apt(served, silent).update()  # our server is not a proxy; only the request matters
    assert any(path.startswith("http://mirror.invalid/debian/dists/trixie/") for path in archive.asked)


def test_a_package_changed_on_the_mirror_is_rejected(private, archive, debs, make, tmp_path):
    deb = make.busybox(debs)
    archive.publish(deb)
    private.update()
    served = next((archive.folder / "debian/pool/main").iterdir())
    served.write_bytes(bytes(len(deb.read_bytes())))
    with raises("lab.package-damaged", MachineError):
        private.download(private.available(["busybox-static"])["busybox-static"], tmp_path / "got")
    assert list((tmp_path / "got").iterdir()) == []


CARELESS = """
Acquire::AllowInsecureRepositories "true";
Acquire::AllowWeakRepositories "true";
Acquire::AllowDowngradeToInsecureRepositories "true";
APT::Get::AllowUnauthenticated "true";
"""
"""Settings that an administrator may have made for another repository."""


@pytest.mark.parametrize("before", ["", "signed", "unsigned"])
@pytest.mark.usefixtures("private")
def test_unsigned_lists_are_rejected_whatever_the_systems_configuration(archive, make, tmp_path, before, monkeypatch):
    with Path(os.environ["APT_CONFIG"]).open("a") as configuration:
        configuration.write(CARELESS)
    deb = make.busybox(tmp_path)
    if before:
        for suite in ("trixie", "trixie-security", "trixie-backports"):
            archive.publish(deb, suite=suite, sign=before == "signed")
        with monkeypatch.context() as patch:
            if before == "unsigned":  # accepted by an earlier version
                patch.setattr(apt, "_CONFIGURATION", apt._CONFIGURATION + CARELESS)
            earlier = apt.Apt(archive.mirror(), silent)
        earlier.update()
        assert "busybox-static" in earlier.available(["busybox-static"])
    deb = make.busybox(tmp_path, "1:9.9-1")
    for suite in ("trixie", "trixie-security", "trixie-backports"):
        archive.publish(deb, suite=suite, sign=False)

    private = apt.Apt(archive.mirror(), silent)
    with contextlib.nullcontext() if before == "signed" else raises("lab.packages-unsigned", MachineError):
        private.update()
        private.download(private.available(["busybox-static"])["busybox-static"], tmp_path / "got")

    # Earlier signed lists are still valid.
    assert [file.name.split("_")[1] for file in tmp_path.glob("got/*")] == ["1%3a1.37.0-6"] * (before == "signed")


@pytest.mark.parametrize("harm", ["unsigned", "changed", "foreign key"])
def test_lists_without_a_valid_signature_are_rejected(private, archive, make, harm, tmp_path):
    deb = make.busybox(tmp_path)
    for suite in ("trixie", "trixie-security", "trixie-backports"):
        archive.publish(deb, suite=suite, sign=harm != "unsigned")
    if harm == "changed":
        for file in archive.folder.rglob("InRelease"):
            file.write_text(file.read_text().replace("Components: main", "Components: main evil"))
    if harm == "foreign key":
        other = tmp_path / "other.gpg"
        shutil.copy("/usr/share/keyrings/debian-archive-keyring.gpg", other)
        private = apt.Apt(mirror.Mirror(archive.mirror().archive, archive.mirror().security, other), silent)
    with raises("lab.packages-unsigned", MachineError) as error:
        private.update()
        private.download(private.available(["busybox-static"])["busybox-static"], tmp_path / "got")
    assert "debian-archive-keyring" in error.value.fix
    assert not (tmp_path / "got").exists()


def test_the_error_for_an_unreachable_mirror_suggests_a_workaround(archive, cache):
    cache.mkdir(parents=True)
    nobody = mirror.Mirror("http://127.0.0.1:9/debian", "http://127.0.0.1:9/debian-security", archive.keyring)
    with raises("lab.mirror-unreachable", MachineError) as error:
        apt.Apt(nobody, silent).update()
    assert "127.0.0.1:9" in error.value.why
    assert "network" in error.value.fix
    assert "--debs" in error.value.fix


def test_other_suites_are_usable_if_the_mirror_lacks_one(private, archive, debs, make):
    archive.publish(make.busybox(debs))
    shutil.rmtree(archive.folder / "debian-security")
    private.update()
    assert "busybox-static" in private.available(["busybox-static"])


def test_a_complete_package_is_not_fetched_again(private, archive, debs, make, tmp_path):
    archive.publish(make.busybox(debs), make.kernel(debs))
    private.update()
    both = [found[0] for found in private.available(["busybox-static", f"linux-image-{make.release}"]).values()]
    private.download(both[:1], tmp_path / "got")
    del archive.asked[:]
    private.download(both, tmp_path / "got")
    assert len(list((tmp_path / "got").iterdir())) == 2
    assert [both[0].name in path for path in archive.asked if path.endswith(".deb")] == [False]


def test_a_damaged_file_is_fetched_again(private, archive, debs, make, tmp_path):
    deb = make.busybox(debs)
    archive.publish(deb)
    private.update()
    package = private.available(["busybox-static"])["busybox-static"][0]
    private.download([package], tmp_path / "got")
    (tmp_path / "got" / package.file).write_bytes(b"short")
    private.download([package], tmp_path / "got")
    assert (tmp_path / "got" / package.file).read_bytes() == deb.read_bytes()


def test_an_interrupt_stops_apt_and_keeps_complete_files(archive, cache, debs, make, tmp_path):
    small, large = make.busybox(debs), make.kernel(debs)
    archive.publish(small, large)
    held = threading.Event()
    asked = threading.Event()

    class Slow(BaseHTTPRequestHandler):
        """Serves the archive, but withholds most of the large package."""

        def do_GET(self):
            file = archive.folder / self.path.lstrip("/").replace("%2b", "+").replace("%7e", "~")
            if not file.is_file():
                self.send_error(404)
                return
            data = file.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if "linux-image" in self.path:
                self.wfile.write(data[:1000])
                self.wfile.flush()
                asked.set()
                held.wait(20)
                return
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    script = textwrap.dedent(
        f"""
        from pathlib import Path
        from accel_magic.lab.image import apt, mirror, store
        from accel_magic.lab.image.progress import silent
        store.cache().mkdir(parents=True)
        where = mirror.Mirror("{address}/debian", "{address}/debian-security", Path("{archive.keyring}"))
        private = apt.Apt(where, silent)
        private.update()
        found = private.available(["busybox-static", "linux-image-{make.release}"])
        private.download([found["busybox-static"][0], found["linux-image-{make.release}"][0]], store.debs())
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    try:
        assert asked.wait(30)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=4)[1]
    finally:
        process.kill()
        held.set()
        server.shutdown()
        server.server_close()
    children = subprocess.run(["pgrep", "-f", str(cache)], capture_output=True, text=True, check=False).stdout
    assert children == "", "apt is still running"
    private = apt.Apt(archive.mirror(), silent)
    private.update()
    found = private.available(["busybox-static", f"linux-image-{make.release}"])
    private.download([one[0] for one in found.values()], cache / "debs")
    assert [Path(path).name.split("_")[0] for path in archive.asked if path.endswith(".deb")] == [
        f"linux-image-{make.release.replace('+', '%2b')}"
    ]


def test_progress_is_reported_in_bytes_up_to_the_total(archive, cache, debs, make, tmp_path):
    deb = make.busybox(debs)
    archive.publish(deb)
    cache.mkdir(parents=True)
    seen = []
    private = apt.Apt(archive.mirror(), seen.append)
    private.update()
    private.download(private.available(["busybox-static"])["busybox-static"], tmp_path / "got")
    fetched = [one for one in seen if one.step == "fetch"]
    assert {one.total for one in fetched} == {deb.stat().st_size}
    assert fetched[-1].done == deb.stat().st_size
    assert any(one.step == "index" and archive.address in one.text for one in seen)


def test_a_missing_apt_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises("lab.no-apt", MachineError) as error:
        apt.require_apt()
    assert "apt-get" in error.value.why
    assert "--debs FOLDER" in error.value.fix


def test_the_folder_with_mirror_passwords_is_readable_only_by_its_user(private):
    assert private.folder.stat().st_mode & 0o077 == 0
