"""What one subject of traces contributes to results and displays."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from accel_magic.probes.presets import is_of
from accel_magic.result_bases.compared import Compared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pandas as pd
    from bokeh.model import Model

    from accel_magic.analysis.findings import Findings
    from accel_magic.analysis.flame.stacks import Stacks
    from accel_magic.checks import Check, Use
    from accel_magic.cluster.clock import ClockLine
    from accel_magic.findings import Rule
    from accel_magic.formats.recognise import FileFormat
    from accel_magic.kernel.pci import PciDevice
    from accel_magic.probes.plan import Plan, ProbePoint
    from accel_magic.probes.presets import Preset
    from accel_magic.recording.observation import Observer
    from accel_magic.recording.profile import ProfileBuilder
    from accel_magic.recording.recording import Recording
    from accel_magic.result_bases.profile import ProfileResult
    from accel_magic.views.live.device_counters import LiveItems
    from accel_magic.views.tables import FormattedTable


@dataclass(frozen=True)
class NodesTrace:
    """One trace of many nodes.

    Attributes:
        points: The probe points.
        lost: Probes of which each node lost events, by its name.
        clocks: The clock of each node, by its name.
        load: Loads the events of all nodes on one clock, with `node`, `host` and `rank`; if they are too many to load,
            those of the points for which the function returns True.

    """

    points: tuple[ProbePoint, ...]
    lost: Mapping[str, frozenset[str]]
    clocks: Mapping[str, ClockLine]
    load: Callable[[Callable[[ProbePoint], bool]], pd.DataFrame]


class NodesTables(Protocol):
    """The tables of a subsystem about many nodes."""

    def tracks(self, bases: Mapping[str, int]) -> Iterable[bytes]:
        """Entries of a Perfetto trace, as `accel_magic.formats.trace_event_writer` makes them.

        Args:
            bases: What is added to each node's process and thread ids.

        """


@dataclass(frozen=True)
class Driver:
    """A kernel driver.

    Attributes:
        module: Name of its kernel module.
        kind: The devices that it drives, in words.
        accelerators_of: PCI vendor of the accelerators that it drives, e.g. `8086`; '' if there are none.
        devices: Names of devices by PCI vendor and device, e.g. `8086:7d1d`. Others are in the distribution's list.
        nodes: Globs of its device nodes below `/`, except those of the kernel's classes accel and drm.
        described: Returns a device's name, '' if only the distribution knows it, and what else the driver reports.
            Arguments: the folder with `proc` and `sys`, and the device.

    """

    module: str
    kind: str
    accelerators_of: str = ""
    devices: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    nodes: tuple[str, ...] = ()
    described: Callable[[Path, PciDevice], tuple[str, ...]] = lambda _root, _device: ("",)


class CompanionRun(Protocol):
    """What records beside a flame trace."""

    def prepare(self) -> object:
        """Check that it can record. Raises MachineError if it cannot."""

    def start(self) -> None:
        """Start it. Raises MachineError."""

    def go(self) -> None:
        """Start the recording here: the traced code begins."""

    def halt(self) -> None:
        """End the recording here."""

    def stop(self) -> Any:
        """End it and return what it recorded. Raises AccelMagicError."""

    def abort(self) -> None:
        """End it and discard what it recorded; does nothing if it is not running."""


@dataclass(frozen=True)
class Companion:
    """What a subsystem can record beside a flame trace, as a profile of its own.

    Attributes:
        attribute: The attribute of flame results that has its result, `xe` for `result.xe`.
        samples: What it samples, in words.
        check: Checks the options of a flame trace, by name. Raises ProbeError.
        checks: Makes checks of the doctor for the folder with `proc`, `sys` and `dev`: what it needs. None without its
            hardware, unless these checks were requested (the second argument).
        run: Makes what records, given the options of a flame trace, by name; None if they do not request it.
        stored: Converts what it recorded to JSON values, which are part of the recording and of saved files.
        opened: Makes its result from these JSON values, the value of the cell's last expression, and banners. Raises
            ValueError, LookupError, TypeError or AttributeError if the values are inconsistent.

    """

    attribute: str
    samples: str
    check: Callable[[Mapping[str, Any]], None]
    checks: Callable[[Path, bool], Iterable[Check]]
    run: Callable[[Mapping[str, Any]], CompanionRun | None]
    stored: Callable[[Any], dict[str, Any]]
    opened: Callable[[Any, object, tuple[str, ...]], ProfileResult]


def _claims_nothing(_point: ProbePoint) -> bool:
    return False


@dataclass(frozen=True)
class Subsystem:
    """One subject: a driver, a framework, an API. Everything about it is in one folder, which has one of these.

    Functions import what they need when they are called: the object itself is loaded before the first trace.

    Attributes:
        name: The attribute of results that has its tables, `npu` for `result.npu`.
        presets: Its presets of probes.
        drivers: Its kernel drivers, which the doctor checks.
        checks: More checks of the doctor, for the folder with `proc`, `sys` and `dev`, and how what the presets trace
            works here; not for presets of drivers, which the doctor looks for itself. The context is entered before all
            other checks run, and the checks are iterated last, so that what takes long goes on meanwhile.
        claims: Whether a probe point belongs to it. A trace with such a point is diagnosed, and its summary has the
            lines of this subsystem. Only for those with `tables`.
        tables: Makes its tables, each computed on first use, from a recording and the frame of its events, as
            `TraceResult.events`: what `result.NAME` is; None if single traces have none.
        rules: Returns the rules that diagnose its tables.
        summary: Makes the lines below the headline from a recording, a function that makes the tables and one that
            makes the findings.
        answers: Makes the tables that lead the result of a trace with one of its presets, from a recording and a
            function that makes its tables; the counts and latencies of such a trace fold below them.
        live: Makes its line of the live row for a plan; None if that would have no items.
        figures: Figures of results by name, drawn from the tables.
        tracks: Makes entries of a Perfetto trace from a recording and a function that makes the tables, as
            `accel_magic.formats.trace_event_writer` makes them: each starts with a comma and a newline.
        accelerator: Adds the accelerator's time to a flame graph; returns notes.
        family_of: The family of a function for comparisons by family; `` if it has none.
        compared: What it says about a trace and its baseline, given the tables of both; only asked if both have points
            that it claims.
        watch: Called when the extension is loaded, or tasks are collected in a script: begins to watch this process for
            what cannot be found out later.
        unwatch: Undoes it.
        observer: Makes what looks at a live trace in the traced process, given what will be traced; what it finds is
            stored in the recording. None for nothing.
        attributes: More attributes of results, by the names of the tables that they are; they come before `name`.
        of_nodes: Makes its tables of a trace of many nodes; None if each node has its own.
        formats: Returns the formats of other tools' files that it reads.
        companion: What it can record beside a flame trace; None without.

    """

    name: str
    presets: tuple[Preset, ...] = ()
    drivers: tuple[Driver, ...] = ()
    checks: Callable[[Path], AbstractContextManager[Iterable[Check | Use]]] = lambda _root: nullcontext(())
    claims: Callable[[ProbePoint], bool] = _claims_nothing
    tables: Callable[[Recording, pd.DataFrame], Any] | None = None
    rules: Callable[[], Sequence[Rule[Any]]] = tuple
    summary: Callable[[Recording, Callable[[], Any], Callable[[], Findings]], list[str]] = (
        lambda _recording, _tables, _findings: []
    )
    answers: Callable[[Recording, Callable[[], Any]], list[FormattedTable]] = lambda _recording, _tables: []
    live: Callable[[Plan], LiveItems | None] = lambda _plan: None
    figures: Mapping[str, Callable[[Any], Model]] = field(default_factory=lambda: MappingProxyType({}))
    tracks: Callable[[Recording, Callable[[], Any]], Iterable[bytes]] = lambda _recording, _tables: ()
    accelerator: Callable[[ProfileBuilder, Recording, Stacks], list[str]] = lambda _builder, _recording, _stacks: []
    family_of: Callable[[str], str] = lambda _function: ""
    compared: Callable[[Any, Any], Compared] = lambda _ours, _baseline: Compared()
    watch: Callable[[], None] = lambda: None
    unwatch: Callable[[], None] = lambda: None
    observer: Callable[[Plan], Observer | None] = lambda _plan: None
    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    of_nodes: Callable[[NodesTrace], NodesTables] | None = None
    formats: Callable[[], tuple[FileFormat, ...]] = tuple
    companion: Companion | None = None

    def has_preset_of(self, point: ProbePoint) -> bool:
        """Whether one of its presets, or a part of one, asked for a point."""
        return any(is_of(point.probe, preset.name) for preset in self.presets)
