"""Finds the Debian mirror that this machine's apt uses, so that the lab's packages come from the same one."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from accel_magic.errors import MachineError
from accel_magic.lab.image.pins import BACKPORTS, SUITE

_KEYRINGS = (
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
)
_FORMAT = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)"
_PUBLIC = "http://deb.debian.org/debian"
_PUBLIC_SECURITY = "http://deb.debian.org/debian-security"
_RELEASES = frozenset(
    ("bullseye", "bookworm", "trixie", "forky", "duke", "sid", "oldoldstable", "oldstable", "stable", "testing")
)
_SECURITY = ("-security", "/updates")


@dataclass(frozen=True)
class Mirror:
    """Where the packages come from.

    Attributes:
        archive: Base URL of the Debian archive.
        security: Base URL of the security archive.
        keyring: File with the archive's keys, with which apt verifies everything.

    """

    archive: str
    security: str
    keyring: Path

    def sources(self, suite: str = SUITE) -> str:
        """Sources of a release in apt's one-line format; only package lists are fetched from them."""
        options = f"arch=amd64 signed-by={self.keyring} target=Packages"
        backports = ((self.archive, BACKPORTS),) if suite == SUITE else ()
        entries = ((self.archive, suite), (self.security, f"{suite}-security"), *backports)
        return "".join(f"deb [{options}] {address} {name} main\n" for address, name in entries)


@dataclass(frozen=True)
class _Source:
    address: str
    release: str
    component: str
    origin: str


def find_mirror() -> Mirror:
    """Find the mirror in apt's own sources; the public mirror if they have none, as on Ubuntu.

    Raises:
        MachineError: apt cannot read its sources, or Debian's keys are not installed.

    """
    sources = [_Source(*line.split(maxsplit=3)) for line in _targets().splitlines() if len(line.split()) >= 4]
    archive = _best(sources, security=False)
    security = _best(sources, security=True)
    return Mirror(archive or _PUBLIC, security or _PUBLIC_SECURITY, _keyring())


def _targets() -> str:
    command = ["apt-get", "indextargets", "--format", _FORMAT, "Created-By: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MachineError(
            "apt cannot read this machine's package sources",
            why=done.stderr.strip(),
            fix="fix the errors that `apt-get indextargets` reports",
            code="lab.apt-sources",
        )
    return done.stdout


def _best(sources: list[_Source], *, security: bool) -> str:
    """URL of the source that is most likely the Debian archive; "" if none is.

    apt knows a source's origin only after fetching its lists, and other repositories use Debian's release names too,
    so the host, the presence of an updates suite and the path count as evidence.
    """
    siblings = {(source.address, source.release) for source in sources}

    def score(source: _Source) -> int:
        parts = urlsplit(source.address)
        last = parts.path.rstrip("/").rpartition("/")[2]
        return (
            8 * (source.origin == "Debian")
            + 4 * (parts.hostname or "").endswith("debian.org")
            + 2 * ((source.address, f"{source.release}-updates") in siblings)
            + (last == ("debian-security" if security else "debian"))
        )

    found = [
        source
        for source in sources
        if source.component == "main"
        and _is_release(source.release, security=security)
        and (source.origin == "Debian" or source.origin.startswith("$"))
        and not source.address.startswith("cdrom:")
        and score(source)
    ]
    return max(found, key=score).address.rstrip("/") if found else ""


def _is_release(release: str, *, security: bool) -> bool:
    if not security:
        return release in _RELEASES
    return any(release.endswith(ending) and release.removesuffix(ending) in _RELEASES for ending in _SECURITY)


def _keyring() -> Path:
    for path in _KEYRINGS:
        if Path(path).is_file():
            return Path(path)
    raise MachineError(
        "cannot verify Debian's packages",
        why=f"there is no {_KEYRINGS[0]}",
        fix="apt install debian-archive-keyring",
        code="lab.no-keyring",
    )
