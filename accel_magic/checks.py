"""One check of the doctor, which shows those of the machine and of the subsystems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "missing", "info"]


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
