"""Programs compiled for an architecture: to be injected, and to be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.gpu import codegen, maps
from accel_magic.gpu.lowering import Target, lower

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.gpu.placement import Placement
    from accel_magic.gpu.places import Attach
    from accel_magic.gpu.programs import GpuProgram, Source
    from accel_magic.gpu.ptx.probe import ProbeCode

_SHOWN_THREADS: Final = 1024
_SHOWN_BASES: Final = (0x7000_0000_0000, 0x7800_0000_0000)


def compile_probes(sources: Sequence[tuple[Source, Placement]], arch: str) -> tuple[tuple[Attach, ProbeCode], ...]:
    """Compile all GPU programs of some sources.

    Args:
        sources: Each with the place of its maps.
        arch: Such as `sm_80`.

    """
    return tuple(
        (each.attach, codegen.to_ptx(_ir(source, each, placement), arch))
        for source, placement in sources
        for each in source.gpu
    )


def code_of(sources: Sequence[Source], arch: str) -> dict[str, tuple[str, str]]:
    """Compile programs to be read: LLVM IR and PTX by program, with made-up addresses of the maps."""
    found = {}
    for source in sources:
        plan = maps.plan_memory(source.object.maps, _SHOWN_THREADS, limit=1 << 40)
        placement = maps.placement(plan, *_SHOWN_BASES)
        for each in source.gpu:
            ir = _ir(source, each, placement)
            found[each.program.name] = (ir, codegen.to_ptx(ir, arch).text)
    return found


def _ir(source: Source, each: GpuProgram, placement: Placement) -> str:
    return lower(
        each.program,
        source.object.maps,
        placement,
        target=Target.NVPTX,
        per=each.per,
        promoted=each.verdict.promoted,
        pointers=each.verdict.pointers,
    )
