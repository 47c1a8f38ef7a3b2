"""What `%%gputrace --dry-run` shows: the verifier's report, where programs would go, and what they become."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from accel_magic.gpu.compiled import code_of
from accel_magic.gpu.verifier.report import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.gpu.programs import GpuProgram, Source


@dataclass(frozen=True)
class GpuDryRun:
    """Programs as they would be put into kernels; nothing was attached.

    Attributes:
        sources: The tools and files.
        arch: What the programs were compiled for.
        code: LLVM IR and PTX of each program, by its name.

    """

    sources: tuple[Source, ...]
    arch: str
    code: dict[str, tuple[str, str]]

    @classmethod
    def of(cls, sources: Sequence[Source], arch: str = "sm_80") -> GpuDryRun:
        """Compile the programs of some sources, as if their maps lay at made-up addresses."""
        return cls(tuple(sources), arch, code_of(sources, arch))

    def _headline(self) -> str:
        count = sum(len(source.gpu) for source in self.sources)
        return f"dry run: {count} program{'s' * (count != 1)} for {self.arch}; nothing was attached"

    def _places(self) -> str:
        lines = [
            f"{each.program.name}: {each.attach.where.value} of {each.attach.name}, per {each.per}"
            for source in self.sources
            for each in source.gpu
        ]
        lines += [f"{program.name}: {program.section}, on the CPU" for source in self.sources for program in source.cpu]
        return "\n".join(lines)

    def _reports(self) -> str:
        return "\n\n".join(_report(each) for source in self.sources for each in source.gpu)

    def __repr__(self) -> str:
        code = "\n\n".join(f"{name}\n{ir}\n{ptx}" for name, (ir, ptx) in self.code.items())
        return f"{self._headline()}\n{self._places()}\n\n{self._reports()}\n\n{code}"

    def _repr_html_(self) -> str:
        parts = [
            f"<div><b>{escape(self._headline())}</b><pre>{escape(self._places())}\n\n{escape(self._reports())}</pre>"
        ]
        for name, (ir, ptx) in self.code.items():
            for what, text in (("LLVM IR", ir), ("PTX", ptx)):
                parts.append(f"<details><summary>{escape(name)}, {what}</summary><pre>{escape(text)}</pre></details>")
        return "".join([*parts, "</div>"])


def _report(each: GpuProgram) -> str:
    return render(each.program, each.verdict)
