"""The doctor's report."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel_magic._version import __version__
from accel_magic.checks import Check, Use
from accel_magic.kernel import features

if TYPE_CHECKING:
    from accel_magic.errors import MachineError


@dataclass(frozen=True)
class Report:
    """How each use works on this machine, and what was checked, as text (`str`, `repr`), HTML and JSON.

    Attributes:
        checks: What was checked.
        uses: How each use works.
        complete: Whether text lists all checks, and HTML shows them unfolded; else only those that prevent or limit
            something are shown at once.

    """

    checks: tuple[Check, ...]
    uses: tuple[Use, ...] = ()
    complete: bool = False

    @property
    def exit_status(self) -> int:
        """1 if something prevents any tracing here, else 0."""
        return int(any(check.status == "missing" for check in self.checks))

    @property
    def verdict(self) -> str:
        """One line: whether tracing works here."""
        missing = [check.name for check in self.checks if check.status == "missing"]
        if missing:
            return f"live tracing does not work here; to fix: {', '.join(missing)}"
        warnings = [check.name for check in self.checks if check.status == "warning"]
        return "live tracing works here" + (f", with limits: {', '.join(warnings)}" if warnings else "")

    @property
    def text(self) -> str:
        """Plain text, wrapped at 110 columns; longer words are not broken."""
        from accel_magic.views import doctor_report

        return doctor_report.text(self.verdict, self.uses, self.checks, complete=self.complete)

    @property
    def html(self) -> str:
        """A self-contained HTML fragment, everything escaped."""
        from accel_magic.views import doctor_report

        return doctor_report.html(self.verdict, self.uses, self.checks, complete=self.complete)

    def to_json(self) -> str:
        """JSON object: `accel_magic`, `kernel`, `machine`, `verdict`, `exit_status`, `uses` and `checks`."""
        data: dict[str, Any] = {
            "accel_magic": __version__,
            "kernel": features.kernel_release(),
            "machine": features.machine(),
            "verdict": self.verdict,
            "exit_status": self.exit_status,
            "uses": [asdict(use) for use in self.uses],
            "checks": [asdict(check) for check in self.checks],
        }
        return json.dumps(data, indent=2)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        return {"text/plain": self.text, "text/html": self.html}


def needed(name: str, error: MachineError | None, detail: str) -> Check:
    """Make the check of something that every trace needs: `error` if it is missing, else `detail`."""
    if error is None:
        return Check(name, "ok", detail)
    return Check(name, "missing", f"{error.what}: {error.why}", error.fix)
