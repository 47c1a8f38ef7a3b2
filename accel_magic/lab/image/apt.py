"""A private apt: its own sources, lists and packages in the cache; the system's configuration is only read.

The system's settings for proxies, timeouts and credentials of mirrors apply here too. Whatever would act on the system
(hooks, its own sources, its preferences) is switched off, and so is every permission to use unsigned repositories. apt
verifies the lists against the keyring, and every package against the lists.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError
from accel_magic.lab.image import store
from accel_magic.lab.image.pins import SUITE
from accel_magic.lab.image.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from accel_magic.lab.image.mirror import Mirror
    from accel_magic.lab.image.progress import Report

_POLL_SECONDS = 0.2
_STOP_SECONDS = 5
_CONFIGURATION = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Update::Post-Invoke-Stats;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear AptCli::Hooks;
#clear APT::Architectures;
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Default-Release "";
APT::Sandbox::User "{user}";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
APT::Get::AllowUnauthenticated "false";
Acquire::Languages "none";
Acquire::GzipIndexes "true";
Acquire::Retries "1";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{folder}/state";
Dir::State::lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::State::extended_states "{folder}/state/extended_states";
Dir::Cache "{folder}/cache";
Dir::Cache::archives "{folder}/archives";
Dir::Log "{folder}/log";
"""
_FOLDERS = ("state", "lists/partial", "cache", "archives/partial", "log", "download")
_COMPLAINT = re.compile(r"^(?:E:|Err:|W: (?:Failed|GPG|An error))")
_UNREACHABLE = re.compile(
    "(?i)temporary failure resolving|could not resolve|could not connect|unable to connect|connection (?:failed|refused"
    "|timed out)|network is unreachable|no route to host|cannot initiate the connection|timed out"
)
_UNSIGNED = re.compile("NO_PUBKEY|EXPKEYSIG|BADSIG|not signed|no longer signed|signatures? (?:couldn't|were invalid)")
_FULL = re.compile("(?i)no space left|enough free space|disk quota")
_DAMAGED = re.compile("(?i)hash sum mismatch|unexpected size")


@dataclass(frozen=True)
class Package:
    """A package as the mirror's lists describe it: name, version, bytes, SHA256, path below the mirror."""

    name: str
    version: str
    size: int
    sha256: str
    path: str

    @property
    def file(self) -> str:
        """Name that the .deb gets on this machine: unlike a mirror's, it has the epoch."""
        architecture = self.path.rpartition("_")[2]
        return f"{self.name}_{self.version.replace(':', '%3a')}_{architecture}"


class Apt:
    """apt-get and apt-cache with state of their own.

    Args:
        mirror: Where the packages come from.
        report: Gets "index" and "fetch".
        suite: The release of Debian.

    Raises:
        MachineError: There is no apt here.

    """

    def __init__(self, mirror: Mirror, report: Report, suite: str = SUITE) -> None:
        require_apt()
        self._mirror = mirror
        self._report = report
        self.folder = store.cache() / "apt"
        # Addresses of mirrors may have passwords in them.
        self.folder.mkdir(mode=0o700, exist_ok=True)
        for name in _FOLDERS:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        (self.folder / "sources.list").write_text(mirror.sources(suite))
        user = "root" if os.geteuid() == 0 else ""  # no change of user: it could not write here
        (self.folder / "apt.conf").write_text(_CONFIGURATION.format(folder=self.folder, user=user))
        self._complaints = ""

    def update(self) -> None:
        """Fetch the lists of packages and have apt verify them.

        Raises:
            MachineError: None could be fetched; where only some could not, the packages in the others are still seen.

        """
        lists = self.folder / "lists"
        text = f"package lists of {self._mirror.archive}"
        _, _, complaints = self._run(
            ["apt-get", "update"], lambda: self._report(Progress("index", store.size_of(lists), 0, text))
        )
        self._complaints = complaints
        # One suite that fails makes apt fail; what it verified of the others is good.
        if not any("_Packages" in file.name for file in lists.iterdir()):
            raise self._failure("the lists of Debian's packages cannot be fetched", complaints)

    def names(self, prefix: str) -> list[str]:
        """Return the names of the packages that begin so."""
        _, output, _ = self._run(["apt-cache", "pkgnames", prefix])
        return sorted(output.split())

    def available(self, names: Iterable[str]) -> dict[str, list[Package]]:
        """Return the versions of packages that the mirror has, the newest first; what it has not is missing."""
        _, output, _ = self._run(["apt-cache", "show", *sorted(set(names))])
        found: dict[str, list[Package]] = {}
        for stanza in output.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and line[0] != " ")
            if "Filename" in fields and "SHA256" in fields:
                package = Package(
                    fields["Package"], fields["Version"], int(fields["Size"]), fields["SHA256"], fields["Filename"]
                )
                found.setdefault(package.name, []).append(package)
        return found

    def closure(self, name: str, release: str) -> list[Package]:
        """Return the package of a release, and all it depends on, as apt would install them on an empty system.

        Raises:
            MachineError: The mirror has not got the package, or not all it needs.

        """
        code, output, complaints = self._run(
            ["apt-get", "install", "--simulate", "--no-install-recommends", "--target-release", release, name]
        )
        chosen = dict(re.findall(r"^Inst (\S+) \((\S+) ", output, re.MULTILINE))
        if code or not chosen:
            raise self._failure(f"the mirror has no {name} that can be installed", complaints)
        known = self.available(chosen)
        return [package for name, version in chosen.items() for package in known[name] if package.version == version]

    def download(self, packages: Sequence[Package], target: Path) -> None:
        """Fetch packages into a folder, but for those that are there; each appears in it verified and complete.

        Raises:
            MachineError: Some could not be fetched; the others are in the folder all the same.

        """
        target.mkdir(exist_ok=True)
        folder = self.folder / "download"
        self._keep(packages, folder, target)
        missing = [package for package in packages if not _is_whole(target / package.file, package)]
        if not missing:
            return
        # apt starts again on a file of which it finds a piece, and takes whatever is complete for granted.
        shutil.rmtree(folder)
        folder.mkdir()
        total = sum(package.size for package in missing)
        text = f"{len(missing)} packages from {self._mirror.archive}"
        _, _, complaints = self._run(
            ["apt-get", "download", *(f"{package.name}={package.version}" for package in missing)],
            lambda: self._report(Progress("fetch", min(store.size_of(folder), total), total, text)),
            folder,
        )
        self._keep(packages, folder, target)
        lacking = [package.name for package in missing if not _is_whole(target / package.file, package)]
        if lacking:
            raise self._failure(f"{len(lacking)} packages could not be fetched, {lacking[0]} among them", complaints)
        self._report(Progress("fetch", total, total, text))

    def _keep(self, packages: Sequence[Package], folder: Path, target: Path) -> None:
        """Move what is complete to where it is kept."""
        for package in packages:
            if _is_whole(folder / package.file, package):
                (folder / package.file).rename(target / package.file)

    def _run(
        self, command: list[str], poll: Callable[[], None] | None = None, folder: Path | None = None
    ) -> tuple[int, str, str]:
        """Run to the end, or stop it when we are stopped; returns (status, output, errors)."""
        full = [command[0], "-c", str(self.folder / "apt.conf"), "-q=2" if poll else "-q", *command[1:]]
        process = subprocess.Popen(
            full,
            cwd=folder or self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
        )
        results: list[tuple[str, str]] = []
        reader = threading.Thread(target=lambda: results.append(process.communicate()), daemon=True)
        reader.start()
        try:
            while reader.is_alive():
                reader.join(_POLL_SECONDS)
                if poll:
                    poll()
        except BaseException:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
        return process.returncode, *results[0]

    def _failure(self, what: str, complaints: str) -> MachineError:
        """Make the error for what apt said, of the packages and of the lists before."""
        lines = [line for line in (self._complaints + complaints).splitlines() if _COMPLAINT.match(line)]
        why = "\n       ".join(dict.fromkeys(lines)) or f"apt says nothing more ({self._mirror.archive})"
        if _FULL.search(why):
            return store.no_space(why)
        code, fix = (
            "lab.apt-failed",
            "try again later, or fetch the packages elsewhere: python -m accel_magic lab build --help",
        )
        if _UNREACHABLE.search(why):
            code = "lab.mirror-unreachable"
            fix = (
                "connect this machine to the network (apt's proxy settings are used), or fetch the packages on another "
                "one (python -m accel_magic lab build --urls) and build with --debs FOLDER"
            )
        elif _UNSIGNED.search(why):
            code, fix = "lab.packages-unsigned", "apt install --only-upgrade debian-archive-keyring"
        elif _DAMAGED.search(why):
            code, fix = "lab.package-damaged", "build again; if it stays, the mirror or a proxy on the way is at fault"
        return MachineError(what, why=why, fix=fix, code=code)


def _is_whole(file: Path, package: Package) -> bool:
    return file.is_file() and file.stat().st_size == package.size and sha256_of(file) == package.sha256


def require_apt() -> None:
    """Check that apt is installed.

    Raises:
        MachineError: It is not.

    """
    lacking = [command for command in ("apt-get", "apt-cache") if not shutil.which(command)]
    if lacking:
        raise MachineError(
            "the lab's packages cannot be fetched here",
            why=f"this machine has no {' and no '.join(lacking)}: it is not a Debian or Ubuntu",
            fix="fetch the packages by hand and build with --debs FOLDER",
            code="lab.no-apt",
        )


def sha256_of(file: Path) -> str:
    """SHA256 of a file, hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
