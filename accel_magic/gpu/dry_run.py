"""The result of `%%gputrace --dry-run`: attach points, verifier reports and generated code."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from accel_magic import terminal
from accel_magic.gpu.codegen.compile import code_of
from accel_magic.gpu.host.host_programs import examined
from accel_magic.gpu.programs import with_budget
from accel_magic.gpu.verifier import budget
from accel_magic.gpu.verifier.findings import render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel_magic.gpu.program.program_source import GpuSource


@dataclass(frozen=True)
class GpuDryRun:
    """Programs as they would be inserted into kernels; nothing was attached.

    Attributes:
        places: Where each program would be attached, and what is set in it, one line each.
        reports: The verifier's report on each GPU program.
        code: (LLVM IR, PTX) of each accepted program, by its name.
        arch: The architecture that they were compiled for.

    """

    places: tuple[str, ...]
    reports: tuple[str, ...]
    code: dict[str, tuple[str, str]]
    arch: str

    @classmethod
    def of(
        cls,
        sources: Sequence[GpuSource],
        threads: int,
        arch: str = "sm_80",
        bindings: Mapping[str, Sequence[str]] | None = None,
    ) -> GpuDryRun:
        """Compile the programs of sources, with placeholder addresses for their maps.

        Args:
            sources: With verdicts; rejected programs are reported and not compiled.
            threads: Capacity of per-thread maps, in threads.
            arch: The architecture to compile for.
            bindings: Places of CPU programs, by program.

        """
        sources = [with_budget(source, threads) for source in sources]
        places = [
            f"{each.program.name}: {each.attach.where.value} of {each.attach.name}, per {each.per}"
            for source in sources
            for each in source.gpu
        ]
        places += [
            examined(source, program, (bindings or {}).get(program.name, ()))
            for source in sources
            for program in source.cpu
        ]
        places += [f"{source.name}: {line}" for source in sources for line in source.settings.values()]
        reports = [
            render(each.program, each.verdict, map_bytes=budget.map_bytes(source.object.maps, threads))
            for source in sources
            for each in source.gpu
        ]
        accepted = [source for source in sources if not any(each.verdict.errors for each in source.gpu)]
        return cls(tuple(places), tuple(reports), code_of(accepted, arch), arch)

    def _headline(self) -> str:
        count = len(self.reports)
        return f"dry run: {count} program{'s' * (count != 1)} for {self.arch}; nothing was attached"

    def __repr__(self) -> str:
        code = [f"{name}\n{ir}\n{ptx}" for name, (ir, ptx) in self.code.items()]
        places = terminal.page([self._headline(), *self.places])
        return "\n\n".join([places, *map(terminal.block, self.reports), *map(terminal.block, code)])

    def _repr_html_(self) -> str:
        body = "\n\n".join(["\n".join(self.places), *self.reports])
        code = [
            f"<details><summary>{escape(name)}, {what}</summary><pre>{escape(text)}</pre></details>"
            for name, both in self.code.items()
            for what, text in zip(("LLVM IR", "PTX"), both, strict=True)
        ]
        return f"<div><b>{escape(self._headline())}</b><pre>{escape(body)}</pre>{''.join(code)}</div>"
