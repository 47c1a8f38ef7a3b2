"""A private apt with its own sources, lists and packages in the cache; the system's configuration is only read.

The system's settings for proxies, timeouts and mirror credentials apply. Its hooks, sources and preferences are
disabled, and unsigned repositories are never allowed. apt verifies the lists with the keyring, and every package
against the lists.
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
    """A package in the mirror's lists: name, version, size in bytes, SHA256, path below the mirror."""

    name: str
    version: str
    size: int
    sha256: str
    path: str

    @property
    def file(self) -> str:
        """File name that apt gives the .deb on this machine: unlike on a mirror, it includes the epoch."""
        architecture = self.path.rpartition("_")[2]
        return f"{self.name}_{self.version.replace(':', '%3a')}_{architecture}"


class Apt:
    """apt-get and apt-cache with private state.

    Args:
        mirror: Where the packages come from.
        report: Called with the progress of "index" and "fetch".
        suite: The Debian release.

    Raises:
        MachineError: apt is not installed.

    """

    def __init__(self, mirror: Mirror, report: Report, suite: str = SUITE) -> None:
        require_apt()
        self._mirror = mirror
        self._report = report
        self.folder = store.cache() / "apt"
        # Mirror URLs may contain passwords.
        self.folder.mkdir(mode=0o700, exist_ok=True)
        for name in _FOLDERS:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        (self.folder / "sources.list").write_text(mirror.sources(suite))
        user = "root" if os.geteuid() == 0 else ""  # another user could not write to this folder
        (self.folder / "apt.conf").write_text(_CONFIGURATION.format(folder=self.folder, user=user))
        self._complaints = ""

    def update(self) -> None:
        """Fetch the package lists; apt verifies them.

        Raises:
            MachineError: No list could be fetched. If only some failed, the packages in the others are available.

        """
        lists = self.folder / "lists"
        text = f"package lists of {self._mirror.archive}"
        _, _, complaints = self._run(
            ["apt-get", "update"], lambda: self._report(Progress("index", store.size_of(lists), 0, text))
        )
        self._complaints = complaints
        # apt fails if any suite fails, but the lists of the other suites are verified and usable.
        if not any("_Packages" in file.name for file in lists.iterdir()):
            raise self._failure("cannot fetch Debian's package lists", complaints)

    def names(self, prefix: str) -> list[str]:
        """Return the names of the packages that start with a prefix, sorted."""
        _, output, _ = self._run(["apt-cache", "pkgnames", prefix])
        return sorted(output.split())

    def available(self, names: Iterable[str]) -> dict[str, list[Package]]:
        """Return the versions of packages on the mirror, newest first; packages it lacks are missing."""
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
        """Return a package from a release and its dependencies, as apt would install them on an empty system.

        Raises:
            MachineError: The mirror lacks the package or a dependency.

        """
        code, output, complaints = self._run(
            ["apt-get", "install", "--simulate", "--no-install-recommends", "--target-release", release, name]
        )
        chosen = dict(re.findall(r"^Inst (\S+) \((\S+) ", output, re.MULTILINE))
        if code or not chosen:
            raise self._failure(f"the mirror has no installable {name}", complaints)
        known = self.available(chosen)
        return [package for name, version in chosen.items() for package in known[name] if package.version == version]

    def download(self, packages: Sequence[Package], target: Path) -> None:
        """Fetch the packages that are missing from a folder; each appears there verified and complete.

        Raises:
            MachineError: Some could not be fetched; the others are in the folder.

        """
        target.mkdir(exist_ok=True)
        folder = self.folder / "download"
        self._keep(packages, folder, target)
        missing = [package for package in packages if not _is_whole(target / package.file, package)]
        if not missing:
            return
        # Start with an empty folder: apt trusts complete files without verifying them, and refetches partial ones.
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
            raise self._failure(f"{len(lacking)} packages could not be fetched, including {lacking[0]}", complaints)
        self._report(Progress("fetch", total, total, text))

    def _keep(self, packages: Sequence[Package], folder: Path, target: Path) -> None:
        """Move complete packages to the target folder."""
        for package in packages:
            if _is_whole(folder / package.file, package):
                (folder / package.file).rename(target / package.file)

    def _run(
        self, command: list[str], poll: Callable[[], None] | None = None, folder: Path | None = None
    ) -> tuple[int, str, str]:
        """Run a command; stop it if interrupted. Returns (status, output, errors)."""
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
        """Create an error from apt's messages about the packages and the earlier update of the lists."""
        lines = [line for line in (self._complaints + complaints).splitlines() if _COMPLAINT.match(line)]
        why = "\n       ".join(dict.fromkeys(lines)) or f"apt gave no reason ({self._mirror.archive})"
        if _FULL.search(why):
            return store.no_space(why)
        code, fix = (
            "lab.apt-failed",
            "try again later, or fetch the packages on another machine: see python -m accel_magic lab build --help",
        )
        if _UNREACHABLE.search(why):
            code = "lab.mirror-unreachable"
            fix = (
                "connect this machine to the network (apt's proxy settings are used), or fetch the packages on another "
                "machine (python -m accel_magic lab build --urls) and build with --debs FOLDER"
            )
        elif _UNSIGNED.search(why):
            code, fix = "lab.packages-unsigned", "apt install --only-upgrade debian-archive-keyring"
        elif _DAMAGED.search(why):
            code, fix = "lab.package-damaged", "build again; if the error persists, use another mirror or proxy"
        return MachineError(what, why=why, fix=fix, code=code)


def _is_whole(file: Path, package: Package) -> bool:
    return file.is_file() and file.stat().st_size == package.size and sha256_of(file) == package.sha256


def require_apt() -> None:
    """Check that apt is installed.

    Raises:
        MachineError: It is not.

    """
    missing = [command for command in ("apt-get", "apt-cache") if not shutil.which(command)]
    if missing:
        raise MachineError(
            "cannot fetch the lab's packages",
            why=f"this machine has no {' and no '.join(missing)}: it does not run Debian or Ubuntu",
            fix="fetch the packages manually and build with --debs FOLDER",
            code="lab.no-apt",
        )


def sha256_of(file: Path) -> str:
    """SHA256 of a file, hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
