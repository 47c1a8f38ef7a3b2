"""A miniature Debian archive: packages built by dpkg-deb, lists signed by gpg, served by a local web server."""

from __future__ import annotations

import functools
import hashlib
import http.server
import lzma
import os
import shutil
import struct
import subprocess
import threading
import types
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from accel_magic.lab.image import builder, mirror, pins

RELEASE = "6.12.7+deb13-amd64"
MODULES = {
    "virtio_net": "net_failover",
    "net_failover": "failover",
    "failover": "",
    "virtio-rng": "",
    "9p": "9pnet,netfs",
    "9pnet": "",
    "netfs": "",
    "9pnet_virtio": "9pnet",
    "overlay": "",
    "gpu_sched": "drm",
    "intel_vpu": "drm,drm_shmem_helper",
    "drm": "",
    "drm_shmem_helper": "drm",
    "e1000": "",
}
BUILTIN = "kernel/drivers/virtio/virtio_pci.ko\nkernel/drivers/char/virtio_console.ko\n"


def module(**fields):
    """Build an ELF file with only a .modinfo section; the value of a field may be a list."""
    pairs = [(key, one) for key, value in fields.items() for one in ([value] if isinstance(value, str) else value)]
    info = b"".join(f"{key}={value}".encode() + b"\0" for key, value in pairs)
    names = b"\0.modinfo\0.shstrtab\0"
    at = 64 + len(info) + len(names)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, at, 0, 64, 0, 0, 64, 3, 2)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 64, len(info), 0, 0, 1, 0)
    sections += struct.pack("<IIQQQQIIQQ", 10, 3, 0, 0, 64 + len(info), len(names), 0, 0, 1, 0)
    return header + info + names + sections


def make_deb(folder, name, version, files, *, packing="xz", depends=""):
    """Build a package with dpkg-deb; `files` maps paths to content, or to a Path that is the target of a link."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("needs dpkg-deb")
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    control = tree / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    control.write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: test <test@example.org>\n"
        f"Description: made by a test\n{f'Depends: {depends}' if depends else 'Section: test'}\n"
    )
    for path, content in files.items():
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            target.symlink_to(content)
        else:
            target.write_bytes(content)
            target.chmod(0o755)
    file = folder / f"{name}_{version.replace(':', '%3a')}_amd64.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", f"-Z{packing}", "-z1", "-b", tree, file], check=True, capture_output=True
    )
    shutil.rmtree(tree)
    return file


def kernel_files(release=RELEASE, modules=MODULES):
    base = f"usr/lib/modules/{release}"
    files = {f"boot/vmlinuz-{release}": b"kernel " + release.encode(), f"{base}/modules.builtin": BUILTIN.encode()}
    for name, depends in modules.items():
        fields = {"depends": depends, "name": name.replace("-", "_")}
        if name == "intel_vpu":
            fields["firmware"] = ["intel/vpu/vpu_40xx_v1.bin", "intel/vpu/vpu_37xx_v1.bin", "intel/vpu/vpu_37xx_v2.bin"]
        files[f"{base}/kernel/drivers/{name}.ko.xz"] = lzma.compress(module(**fields))
    return files


def kernel_deb(folder, release=RELEASE, version="6.12.7-1", **options):
    return make_deb(folder, f"linux-image-{release}", version, kernel_files(release, **options))


def busybox_deb(folder, version="1:1.37.0-6"):
    return make_deb(folder, "busybox-static", version, {"usr/bin/busybox": b"#!busybox " + version.encode()})


def pin_line(group, deb):
    name, version, _ = deb.name.split("_")
    data = deb.read_bytes()
    path = f"debian/pool/main/{deb.name.replace('%3a', ':').replace(version.split('%3a')[0] + ':', '')}"
    return f"{group} {name} {version.replace('%3a', ':')} {len(data)} {hashlib.sha256(data).hexdigest()} {path}"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A separate cache and /init for the test."""
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path / "cache"))
    init = tmp_path / "init"
    init.write_text("#!/bin/busybox sh\n")
    monkeypatch.setattr(builder, "GUEST_INIT", init)
    return tmp_path / "cache" / "lab"


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A function that takes (group, deb) pairs and replaces the pins with theirs."""

    def pin(*packages):
        target = tmp_path / f"pins-{len(packages)}-{hashlib.sha256(repr(packages).encode()).hexdigest()[:8]}.txt"
        target.write_text("".join(pin_line(group, deb) + "\n" for group, deb in packages))
        monkeypatch.setattr(pins, "TABLE", target)
        pins._read.cache_clear()

    yield pin
    pins._read.cache_clear()


@pytest.fixture
def own_qemu(tmp_path, monkeypatch):
    """Put a suitable fake QEMU on the search path; the returned function changes its output."""
    folder = tmp_path / "path"
    folder.mkdir()
    file = folder / "qemu-system-x86_64"

    def say(version="10.1.2", options="vfio-user-pci options:"):
        answers = f'*--version*) echo "QEMU emulator version {version}";; *) echo "{options}";;'
        file.write_text(f'#!/bin/sh\ncase "$*" in {answers} esac\n')
        file.chmod(0o755)

    say()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return say


@pytest.fixture
def debs(tmp_path):
    folder = tmp_path / "debs"
    folder.mkdir()
    return folder


@dataclass
class Archive:
    """A signed Debian archive in a folder, and the requests it received."""

    folder: Path
    home: Path
    address: str = ""
    asked: list = field(default_factory=list)

    @property
    def keyring(self):
        return self.home / "key.gpg"

    def publish(self, *debs, suite="trixie", sign=True):
        """Publish packages in a suite, and sign its lists."""
        pool = self.folder / "debian" / "pool" / "main"
        pool.mkdir(parents=True, exist_ok=True)
        stanzas = []
        for deb in debs:
            shutil.copy(deb, pool / deb.name.replace("%3a", "-"))
            control = subprocess.run(["dpkg-deb", "-f", deb], check=True, capture_output=True, text=True).stdout
            data = deb.read_bytes()
            stanzas.append(
                f"{control}Filename: pool/main/{deb.name.replace('%3a', '-')}\nSize: {len(data)}\n"
                f"SHA256: {hashlib.sha256(data).hexdigest()}\n"
            )
        base = self.folder / ("debian-security" if suite.endswith("-security") else "debian") / "dists" / suite
        packages = base / "main" / "binary-amd64" / "Packages"
        packages.parent.mkdir(parents=True, exist_ok=True)
        packages.write_text("\n".join(stanzas))
        data = packages.read_bytes()
        (base / "Release").write_text(
            f"Origin: Debian\nSuite: {suite}\nCodename: {suite}\nArchitectures: amd64\nComponents: main\n"
            "Date: Sat, 01 Jan 2022 00:00:00 UTC\n"
            f"SHA256:\n {hashlib.sha256(data).hexdigest()} {len(data)} main/binary-amd64/Packages\n"
        )
        (base / "InRelease").unlink(missing_ok=True)
        if sign:
            self.gpg("--clearsign", "-o", str(base / "InRelease"), str(base / "Release"))

    def gpg(self, *arguments):
        subprocess.run(
            ["gpg", "--homedir", self.home, "--batch", "--quiet", "--passphrase", "", *arguments],
            check=True,
            capture_output=True,
        )

    def mirror(self):
        return mirror.Mirror(f"{self.address}/debian", f"{self.address}/debian-security", self.keyring)


@pytest.fixture(scope="session")
def signing(tmp_path_factory):
    """A key for signing archives."""
    if not all(map(shutil.which, ("gpg", "apt-get", "dpkg-deb"))):
        pytest.skip("needs apt, dpkg and gpg")
    home = tmp_path_factory.mktemp("g", numbered=True)
    home.chmod(0o700)
    keeper = Archive(home, home)
    keeper.gpg("--quick-gen-key", "test@example.org", "ed25519", "sign")
    keeper.gpg("--export", "-o", str(home / "key.gpg"))
    yield home
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, capture_output=True)


@pytest.fixture
def archive(tmp_path, signing, monkeypatch):
    """A signed archive with three empty suites on a local web server; it is the build's mirror."""
    found = Archive(tmp_path / "archive", signing)
    for suite in ("trixie", "trixie-security", "trixie-backports"):
        found.publish(suite=suite)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            found.asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=found.folder))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    found.address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("accel_magic.lab.image.fetch.find_mirror", found.mirror)
    # Bypass this machine's proxy, if any.
    configuration = tmp_path / "apt.conf"
    configuration.write_text('Acquire::http::Proxy::127.0.0.1 "DIRECT";\n')
    monkeypatch.setenv("APT_CONFIG", str(configuration))
    yield found
    server.shutdown()
    server.server_close()


@pytest.fixture
def make():
    """The functions of this file that create test data."""
    return types.SimpleNamespace(
        module=module, deb=make_deb, kernel=kernel_deb, kernel_files=kernel_files, busybox=busybox_deb, release=RELEASE
    )
