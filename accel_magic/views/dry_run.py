"""The output of `--dry-run`: the matched places and the generated programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic import terminal
from accel_magic.kernel.attach.plan_source import generate
from accel_magic.views.templates import render

if TYPE_CHECKING:
    from accel_magic.probes.plan import Plan

_MOST_SHOWN = 200


@dataclass(frozen=True)
class DryRun:
    """A plan and the C that would be compiled for it; nothing was attached."""

    plan: Plan
    source: str

    @classmethod
    def of(cls, plan: Plan) -> DryRun:
        """Generate the C of a plan; '' if it needs no BPF program."""
        own = plan.with_points(plan.kernel_points)
        return cls(plan, generate(own).text if own.points else "")

    def _places(self) -> list[str]:
        points = self.plan.points
        lines = [
            f"{point.kind:10}  {point.target}:{point.function}" + ("  (latency)" if point.latency else "")
            for point in points[:_MOST_SHOWN]
        ]
        if len(points) > _MOST_SHOWN:
            lines.append(f"and {len(points) - _MOST_SHOWN:,} more")
        lines += [f"skipped     {skip.function}: {skip.why}" for skip in self.plan.skipped[:_MOST_SHOWN]]
        return lines

    def _headline(self) -> str:
        count = len(self.plan.points)
        points = f"{count:,} probe point{'s' * (count != 1)}"
        stacks = f", stacks {', '.join(self.plan.stacks)}" if self.plan.stacks else ""
        return f"dry run: {points}, scope {self.plan.scope_text()}{stacks}; nothing was attached"

    def __repr__(self) -> str:
        source = f"\n\n{terminal.block(self.source)}" if self.source else ""
        return f"{terminal.page([self._headline(), *self._places()])}{source}"

    def _repr_html_(self) -> str:
        code = [("generated C (with the templates in bpf/kernel)", self.source)] if self.source else []
        return render("dry_run", headline=self._headline(), body="\n".join(self._places()), code=code)
