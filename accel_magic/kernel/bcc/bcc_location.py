"""Find the distribution's BCC without importing it.

BCC works only with the interpreter it was packaged for, so it is never loaded here: a separate process compiles with
it. Detection looks for its files: the Python package and the shared library it needs.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from accel_magic.errors import MachineError

_ROOT = Path("/")
_PACKAGES = (
    "usr/lib/python3/dist-packages/bcc",
    "usr/lib/python3*/site-packages/bcc",
    "usr/lib/python3*/dist-packages/bcc",
    "usr/lib64/python3*/site-packages/bcc",
    "usr/local/lib/python3*/site-packages/bcc",
    "usr/local/lib/python3*/dist-packages/bcc",
)
_LIBRARIES = (
    "usr/lib/*-linux-gnu/libbcc.so.0",
    "usr/lib64/libbcc.so.0",
    "usr/lib/libbcc.so.0",
    "usr/local/lib/libbcc.so.0",
    "usr/local/lib64/libbcc.so.0",
)
# By the ID and ID_LIKE words of /etc/os-release.
_INSTALL = {
    "debian": "apt install python3-bpfcc",
    "ubuntu": "apt install python3-bpfcc",
    "fedora": "dnf install python3-bcc",
    "rhel": "dnf install python3-bcc",
    "centos": "dnf install python3-bcc",
    "suse": "zypper install python3-bcc",
    "opensuse": "zypper install python3-bcc",
    "arch": "pacman -S python-bcc",
    "alpine": "apk add py3-bcc",
}


@dataclass(frozen=True)
class BccInstall:
    """BCC as the distribution installed it.

    Attributes:
        interpreter: The Python that it was packaged for, which must run it.
        package: Folder of the `bcc` package.
        version: BCC's own version, "unknown" if the package does not have it.

    """

    interpreter: Path
    package: Path
    version: str


@dataclass(frozen=True)
class ForeignBcc:
    """A Python package called `bcc` in the running environment that is not BCC (PyPI has a lattice library)."""

    version: str
    path: Path


@cache
def find_bcc() -> BccInstall:
    """Find BCC's Python package, its library and its interpreter; cached once found.

    Raises:
        MachineError: The package, its library or both are missing; `fix` is this distribution's command.

    """
    package = next((path for path in _candidates() if _is_real(path)), None)
    library = _has_library()
    if package is not None and library:
        return BccInstall(_interpreter_of(package), package, _version_of(package))
    if package is None:
        what = "BCC is not installed"
        why = "it is needed to compile kernel programs, and comes from the distribution, not from PyPI"
        foreign = foreign_bcc()
        if foreign is not None:
            why += f" ({foreign.version} at {foreign.path} is unrelated: PyPI's bcc is a lattice library)"
    else:
        what = "BCC's shared library libbcc.so.0 is missing"
        why = f"the Python package at {package} cannot work without it"
    raise MachineError(what, why=why, fix=install_command(), code="bcc.not-installed")


def foreign_bcc() -> ForeignBcc | None:
    """Find a `bcc` package that is not BCC in the running environment, or None."""
    folder = _importable_bcc()
    if folder is None or _is_real(folder):
        return None
    import importlib.metadata  # slow on an emulated processor, and rarely needed

    try:
        version = f"bcc {importlib.metadata.version('bcc')}"
    except importlib.metadata.PackageNotFoundError:
        version = "bcc"
    return ForeignBcc(version, folder)


def install_command() -> str:
    """Command that installs BCC on this distribution, or a general hint if the distribution is unknown."""
    for word in _distribution():
        if word in _INSTALL:
            return _INSTALL[word]
    return "install your distribution's Python 3 package of BCC (python3-bpfcc, python3-bcc or python-bcc)"


def _distribution() -> list[str]:
    """Words of ID, then of ID_LIKE, from os-release."""
    try:
        text = (_ROOT / "etc/os-release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    values = dict(re.findall(r"^(ID|ID_LIKE)=[\"']?([^\"'\n]*)", text, re.MULTILINE))
    words = f"{values.get('ID', '')} {values.get('ID_LIKE', '')}".split()
    # openSUSE's IDs include the edition: opensuse-leap, opensuse-tumbleweed.
    return [word.split("-")[0] for word in words]


def _candidates() -> list[Path]:
    """Folders named `bcc`: the distribution's first, then the running environment's (conda, a shared venv)."""
    found = [path for pattern in _PACKAGES for path in sorted(_ROOT.glob(pattern), reverse=True)]
    own = _importable_bcc()
    return found if own is None else [*found, own]


def _importable_bcc() -> Path | None:
    """Folder or file that `import bcc` would load here; it is not imported."""
    try:
        spec = importlib.util.find_spec("bcc")
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin:
        return None
    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin


def _is_real(package: Path) -> bool:
    """Whether the folder contains BCC: the binding to libbcc, its tables and the BPF class."""
    try:
        binding = (package / "libbcc.py").read_text(encoding="utf-8", errors="replace")
        front = (package / "__init__.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    has_class = re.search(r"^class BPF\b", front, re.MULTILINE) is not None
    return "libbcc.so" in binding and has_class and (package / "table.py").is_file()


def _has_library() -> bool:
    # The usual folders first: find_library may start ldconfig and even a compiler.
    if any(next(_ROOT.glob(pattern), None) is not None for pattern in _LIBRARIES):
        return True
    return ctypes.util.find_library("bcc") is not None


def _interpreter_of(package: Path) -> Path:
    """Python that a package folder belongs to, by its path; the running one for paths outside the system's."""
    try:
        parts = package.relative_to(_ROOT).parts
    except ValueError:
        return Path(sys.executable)
    if parts[0] != "usr":
        return Path(sys.executable)
    name = next((part for part in parts if re.fullmatch(r"python3(\.\d+)?", part)), "python3")
    # Debian's Python also reads /usr/local/lib, but a Python installed in /usr/local takes precedence there.
    folders = ("usr/local/bin", "usr/bin") if parts[1] == "local" and parts[-2] == "site-packages" else ("usr/bin",)
    paths = [_ROOT / folder / name for folder in folders]
    return next((path for path in paths if path.exists()), Path(sys.executable))


def _version_of(package: Path) -> str:
    try:
        text = (package / "version.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown"
    match = re.search(r"__version__\s*=\s*[\"']([^\"']+)", text)
    return match.group(1) if match else "unknown"
