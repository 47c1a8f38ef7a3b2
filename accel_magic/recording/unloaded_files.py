"""Probed files without hits that no traced process has loaded: which file is loaded instead."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.kernel.symbols import mappings
from accel_magic.kernel.symbols.mappings import DELETED
from accel_magic.probes import grammar, presets
from accel_magic.probes.libraries import short_name
from accel_magic.probes.plan import USER_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from accel_magic.kernel.symbols.mapping_events import MappingEvents
    from accel_magic.kernel.symbols.mappings import FileId
    from accel_magic.probes.plan import Plan, ProbePoint

_MOST_NOTES: Final = 3
_MOST_NAMED: Final = 3
_VERSION: Final = re.compile(r"[-.\d]+$")
_LIBRARY: Final = ".so"


@dataclass(frozen=True)
class _Loaded:
    """A file that a process has loaded: the kernel's name and id of it, and the first of its mappings (`START-END`)."""

    pid: int
    name: str
    id: FileId
    place: str

    @property
    def path(self) -> str:
        """Where the file is or was, as the process sees it."""
        return self.name.removesuffix(DELETED)


def file_ids(plan: Plan) -> dict[str, FileId]:
    """Ids of the probed files by path, as mappings show them; without files that cannot be read."""
    targets = dict.fromkeys(point.target for point in plan.points if point.kind in USER_KINDS)
    found = {target: mappings.file_id(Path(target)) for target in targets}
    return {target: id_ for target, id_ in found.items() if id_ is not None}


def notes(plan: Plan, hits: NDArray[np.uint64], files: Mapping[str, FileId], mapped: MappingEvents) -> tuple[str, ...]:
    """Notes on probed files that were not hit because no process in scope has them loaded.

    Args:
        plan: What was traced.
        hits: (points,) uint64.
        files: From `file_ids`, before the trace.
        mapped: What processes mapped meanwhile; stopped.

    """
    hit = {point.target for point, count in zip(plan.points, hits.tolist(), strict=True) if count}
    missed = {
        point.target: point
        for point in reversed(plan.points)  # the first of each file
        if point.kind in USER_KINDS and point.target in files and point.target not in hit
    }
    loaded: dict[str, list[_Loaded]] = {}
    found = []
    for target, point in reversed(missed.items()):
        scope = point.scope.name
        if scope not in loaded:
            loaded[scope] = _loaded(mapped, everywhere=scope == "all")
        if loaded[scope] and all(one.id != files[target] for one in loaded[scope]):
            found.append(_about(point, loaded[scope], complete=mapped.complete))
    if len(found) > _MOST_NOTES:
        found[_MOST_NOTES:] = [f"nor are {len(found) - _MOST_NOTES} other probed files loaded"]
    return tuple(found)


def _loaded(mapped: MappingEvents, *, everywhere: bool) -> list[_Loaded]:
    """The files that the processes in scope have loaded, each process once per file."""
    pids = mapped.tree()
    if everywhere:
        pids = {int(name) for name in os.listdir("/proc") if name.isdecimal()} | mapped.seen()  # noqa: PTH208 - names
    found: dict[tuple[int, str], _Loaded] = {}
    for pid in sorted(pids):
        known = mappings.joined(mapped.of(pid), mappings.read(pid))
        if known is None:
            continue
        rows = zip(known.names, known.files, known.starts.tolist(), known.ends.tolist(), strict=True)
        for name, id_, start, end in rows:
            if id_[1]:
                found.setdefault((pid, name), _Loaded(pid, name, id_, f"{start:x}-{end:x}"))
    return list(found.values())


def _about(point: ProbePoint, loaded: Sequence[_Loaded], *, complete: bool) -> str:
    """The note on one file: what is loaded instead, the most similar first, and how to trace that."""
    whose = "no process" if point.scope.name == "all" else "no process in scope"
    head = f"{whose}{'' if complete else ' that still runs'} has {point.target} loaded: "
    same_path = [one for one in loaded if one.path == point.target]
    if same_path:
        return head + _same_path(point, same_path[0])
    for named in (_same_name, _same_short_name):
        similar = [one for one in loaded if named(one.path, point.target)]
        if similar:
            other = f"process {similar[0].pid} has another file of that name loaded, {similar[0].name}"
            return f"{head}{other}; {_trace(point, similar[0])}"
    if point.scope.name == "all":
        return head.removesuffix(": ")
    programs = list(dict.fromkeys(one.path for one in loaded if _LIBRARY not in Path(one.path).name))
    more = f" and {len(programs) - _MOST_NAMED} more" if len(programs) > _MOST_NAMED else ""
    libraries = any(_LIBRARY in Path(one.path).name for one in loaded)
    static = "" if libraries else ", without shared libraries (linked statically)"
    return f"{head}they run {', '.join(programs[:_MOST_NAMED])}{more}{static}"


def _same_path(point: ProbePoint, one: _Loaded) -> str:
    """What a process has loaded under the probed file's own path."""
    if not Path(f"/proc/{one.pid}/maps").exists():
        return f"process {one.pid}, which has ended, had another file of this path loaded"
    if _elsewhere(one.pid):
        return f"process {one.pid} is in another mount namespace and has its own; {_trace(point, one)}"
    older = f"it was replaced after process {one.pid} had loaded it [{one.path}{DELETED}]"
    return f"{older}; restart that process, or {_trace(point, one)}"


def _trace(point: ProbePoint, one: _Loaded) -> str:
    """Advice to trace the loaded file: by a path that leads to it, whatever else has its name."""
    path = one.path
    if path == point.target or one.name != one.path:
        path = f"/proc/{one.pid}/map_files/{one.place}"
    if _elsewhere(one.pid):
        path = f"/proc/{one.pid}/root{one.path}"
    return f"trace {shlex.quote(_word(point, path))}"


def _word(point: ProbePoint, path: str) -> str:
    """The probe as it was written, for another file; a preset's by its function."""
    if presets.is_preset(point.probe):
        return f"{point.kind}:{path}:{point.function}"
    spec = grammar.parse(point.probe)
    provider = f"{spec.provider}:" if spec.provider else ""
    return f"{grammar.PREFIX_LATENCY if spec.latency else ''}{spec.kind}:{path}:{provider}{spec.name}"


def _elsewhere(pid: int) -> bool:
    """Whether a process runs in another mount namespace."""
    try:
        return Path(f"/proc/{pid}/ns/mnt").stat().st_ino != Path("/proc/self/ns/mnt").stat().st_ino
    except OSError:  # it has ended
        return False


def _same_name(path: str, other: str) -> bool:
    return Path(path).name == Path(other).name


def _same_short_name(path: str, other: str) -> bool:
    return _stem(path) == _stem(other)


def _stem(path: str) -> str:
    return _VERSION.sub("", short_name(Path(path).name))
