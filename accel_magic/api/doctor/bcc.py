"""BCC, which compiles the kernel programs; it is not available from PyPI."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from accel_magic.api.doctor.report import needed
from accel_magic.checks import Check
from accel_magic.errors import MachineError
from accel_magic.kernel.bcc import bcc_location

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOAD_BCC = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("bcc", sys.argv[1] + "/__init__.py")
sys.modules["bcc"] = bcc = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bcc)
bcc.BPF
"""


def checks() -> tuple[Check, ...]:
    """Check BCC, and look for another package with that name."""
    return (_bcc(), *_foreign_bcc())


def _bcc() -> Check:
    try:
        found = bcc_location.find_bcc()
    except MachineError as error:
        return needed("BCC", error, "")
    command = [str(found.interpreter), "-I", "-c", _LOAD_BCC, str(found.package)]
    try:
        loaded = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        failure = (loaded.stderr.strip().splitlines() or ["no message"])[-1] if loaded.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        failure = str(error)
    if failure:
        why = f"{found.package} does not load in {found.interpreter}: {failure}"
        return needed(
            "BCC", MachineError("BCC is broken", why=why, fix=bcc_location.install_command(), code="bcc.broken"), ""
        )
    return Check("BCC", "ok", f"{found.version} at {found.package}, loads in {found.interpreter}")


def _foreign_bcc() -> Iterator[Check]:
    """Report an unrelated package called bcc, if there is one."""
    foreign = bcc_location.foreign_bcc()
    if foreign is not None:
        yield Check(
            "other bcc",
            "warning",
            f"{foreign.version} at {foreign.path} is not BCC (the PyPI package `bcc` is a lattice library); "
            "accel_magic does not use it, but `import bcc` in your own code would",
            "pip uninstall bcc",
        )
