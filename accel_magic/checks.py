"""What the doctor reports: checks of the machine and of the subsystems, and how each use works here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "missing", "info"]
How = Literal["live", "simulated", "replay", "no"]
Need = Literal["", "tracing", "functions", "libraries", "samples"]


@dataclass(frozen=True)
class Check:
    """One line of the report.

    Attributes:
        name: What was checked.
        status: `missing`: prevents any tracing; `warning`: something cannot be traced or shown, the rest works; `info`:
            good to know, nothing to fix; `ok`.
        detail: What was found, and what works instead.
        fix: The command or change that fixes it; empty if there is nothing to fix.

    """

    name: str
    status: Status
    detail: str
    fix: str = ""


@dataclass(frozen=True)
class Use:
    """One thing that users do, and how it works on this machine.

    Attributes:
        magic: What they type, e.g. `%%ktrace openvino`.
        how: `live`: it measures this machine; `simulated`: something that stands for hardware is measured; `replay`:
            recordings are played back, nothing can be traced here; `no`: it needs something that is missing.
        detail: What it measures here, or why it does not.
        fix: The command or change that makes it work, or work live; empty if there is none.
        needs: What else a live one needs of the machine: any tracing at all, functions of the kernel, functions of
            libraries, samples. Without that, the report shows it as `replay`.

    """

    magic: str
    how: How
    detail: str
    fix: str = ""
    needs: Need = ""
