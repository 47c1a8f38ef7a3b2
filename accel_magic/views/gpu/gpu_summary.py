"""A GPU result as text and static HTML: kernels, tables of the tools, findings, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic import terminal
from accel_magic.analysis.gpu.host import summary
from accel_magic.analysis.gpu.nothing import why_empty, why_no_program_ran
from accel_magic.banners import banners_of
from accel_magic.demangle import short_names
from accel_magic.quantities import counted_text, duration_text, exact_text
from accel_magic.recording.gpu_data import NOT_WANTED
from accel_magic.views.element import element_html
from accel_magic.views.figures.bokehjs import figures_html, has_kernel
from accel_magic.views.headline import Note
from accel_magic.views.tables import aligned, frame_table
from accel_magic.views.trace_html import LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from markupsafe import Markup

    from accel_magic.analysis.gpu import GpuAnalysis
    from accel_magic.views.tables import FormattedTable

TOP = 10
_OUTCOMES = {"error": "the traced code failed", "interrupted": "interrupted"}


def gpu_headline(gpu: GpuAnalysis) -> tuple[Note, ...]:
    """Items of the headline."""
    recording, kernels = gpu.recording, _ran(gpu)
    done = int(kernels["instrumented"].sum())
    hint = "\n".join(f"{row.name}: {row.reason}" for row in kernels[~kernels["instrumented"]].head(20).itertuples())
    notes = [
        Note(duration_text(recording.duration_ns)),
        Note(counted_text(len(gpu.launches), "launch", "launches"), hint="as requested by the host"),
        Note(", ".join(recording.sources)),
        Note(f"{exact_text(done)} of {counted_text(len(kernels), 'kernel', 'kernels')} instrumented", hint=hint),
        Note(recording.device),
        Note(
            f"{exact_text(gpu.lost)} lost",
            alarm=gpu.lost > 0,
            hint="dropped: use more map entries in the program, or --threads; see result.losses" if gpu.lost else "",
        ),
    ]
    if recording.api is not None:
        lost = f"{exact_text(recording.api_lost)} more calls were lost" if recording.api_lost else ""
        hint = lost or "driver calls by this process and its children: result.api"
        notes.append(Note(counted_text(len(gpu.api), "host call", "host calls"), alarm=bool(lost), hint=hint))
    if recording.outcome in _OUTCOMES:
        notes.append(Note(_OUTCOMES[recording.outcome], alarm=True, hint="the result covers the time until then"))
    return tuple(notes)


def gpu_text(gpu: GpuAnalysis) -> str:
    """Banners, headline, notes, findings, and each table in aligned columns."""
    recording = gpu.recording
    lines = [*banners_of(recording), ", ".join(note.text for note in gpu_headline(gpu))]
    lines += [f"note: {note}" for note in gpu_notes(gpu)]
    lines += [f"{finding.severity}: {finding.title} [{finding.id}]" for finding in gpu.findings]
    for title, table in _tables(gpu, TOP):
        lines += ["", title, *aligned(table)]
    if gpu.recording.printed:
        lines += ["", "printed"]
        lines += [line for text in gpu.recording.printed[:TOP] for line in text.removesuffix("\n").split("\n")]
        lines += [f"and {len(gpu.recording.printed) - TOP:,} more"] if len(gpu.recording.printed) > TOP else []
    return terminal.page(lines)


def gpu_html(gpu: GpuAnalysis) -> str:
    """The same as one self-contained HTML element, including the tools' figures in notebooks."""
    return element_html(
        _tables(gpu, LIMIT),
        gpu_headline(gpu),
        banners=banners_of(gpu.recording),
        notes=gpu_notes(gpu),
        template="gpu",
        findings=gpu.findings,
        printed="\n".join(gpu.recording.printed[:LIMIT]),
        figures=_figures(gpu) if has_kernel() else "",
    )


def comparison_text(tables: Mapping[str, pd.DataFrame], devices: tuple[str, str], banners: tuple[str, ...]) -> str:
    """A comparison as text: what is compared, and each table.

    Args:
        tables: By title, indexed by the columns that identify a row.
        devices: Devices of the trace and its baseline.
        banners: Banners of both.

    """
    lines = [*banners, _compared(devices), *_without_rows(tables)]
    for title, table in tables.items():
        if len(table):
            lines += ["", title, *aligned(frame_table(_changes(table), TOP))]
    return terminal.page(lines)


def comparison_html(tables: Mapping[str, pd.DataFrame], devices: tuple[str, str], banners: tuple[str, ...]) -> str:
    """A comparison as one self-contained HTML element."""
    shown = [(title, frame_table(_changes(table), LIMIT)) for title, table in tables.items() if len(table)]
    return element_html(shown, [Note(_compared(devices))], banners=banners, notes=_without_rows(tables))


def _without_rows(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """A sentence about the tables that have nothing to compare."""
    empty = [title for title, table in tables.items() if not len(table)]
    return [f"neither trace has rows of {', '.join(empty)}"] if empty else []


def _compared(devices: tuple[str, str]) -> str:
    ours, theirs = devices
    return f"{ours} compared with a baseline on {theirs}; ratios are this trace divided by the baseline"


def _changes(table: pd.DataFrame) -> pd.DataFrame:
    """As many columns as fit: identifying columns, then value, baseline and ratio of the first few numbers."""
    return _shown(table.reset_index())


def _figures(gpu: GpuAnalysis) -> Markup:
    from accel_magic.views.gpu.gpu_figures import timeline_figure, tool_figure  # Bokeh takes a while to import

    drawn = [tool_figure(tool, table) for tool, table in gpu.tools.items() if len(table)]
    return figures_html([*drawn, timeline_figure(gpu)] if len(gpu.api) else drawn)


def gpu_notes(gpu: GpuAnalysis) -> list[str]:
    """Notes of the recording, kernels that were not instrumented, and what the verifier found."""
    ran = _ran(gpu)
    left_out = ran[~ran["instrumented"]]
    notes = [f"{row.name} was not instrumented: {row.reason}" for row in left_out.head(3).itertuples()]
    more = len(left_out) - len(notes)
    notes += [f"and {more:,} more kernels, see result.kernels"] if more > 0 else []
    with_rest = ran[ran["instrumented"] & (ran["reason"] != "")]
    notes += [f"{row.name}: {row.reason}" for row in with_rest.head(3).itertuples()]
    # If nothing can call a driver, do not report that nothing did.
    if gpu.recording.api_off and gpu.recording.api_off != NOT_WANTED and "simulated" not in gpu.recording.machine:
        notes.append(f"host calls were not recorded: {gpu.recording.api_off}")
    if not len(gpu.launches) and ran.empty:
        opencl = "" if "OpenCL" in gpu.recording.device else ", those of OpenCL need --device opencl"
        others = f"kernels launched before or after do not count{opencl}"
        notes.append(f"no kernel was launched, so there was nothing to trace; {others}")
    elif not why_no_program_ran(gpu):
        notes += [f"{tool}: {why_empty(gpu, tool)}" for tool, table in gpu.tools.items() if not len(table)]
    return [*gpu.recording.notes, *notes, *gpu.recording.findings]


def _ran(gpu: GpuAnalysis) -> pd.DataFrame:
    """Kernels that were launched or could not be traced; a module may contain many unused ones."""
    kernels = gpu.kernels
    return kernels[(kernels["launches"] > 0) | (kernels["kernel"] < 0)]


def _tables(gpu: GpuAnalysis, limit: int) -> list[tuple[str, FormattedTable]]:
    """Tables of the tools, and the maps of the user's own programs."""
    tables = [(f"{name}, {counted_text(len(frame), 'row', 'rows')}", frame) for name, frame in gpu.tools.items()]
    for source in gpu.recording.sources:
        if source not in gpu.tools:
            tables += [
                (f"map {name}, {counted_text(len(frame), 'row', 'rows')}", frame)
                for name, frame in gpu.maps_of(source).items()
            ]
    if len(gpu.api):
        tables.append((f"host calls, {exact_text(len(gpu.api))}", summary(gpu.api)))
    return [(title, frame_table(_shown(frame), limit)) for title, frame in tables]


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    """Show files without their folders, and C++ names without what all of them have, to keep the columns narrow."""
    if "file" in frame:
        frame = frame.assign(file=frame["file"].str.rsplit("/", n=1).str[-1])
    if "name" in frame:
        frame = frame.assign(name=frame["name"].map(short_names(frame["name"].dropna().astype(str).unique())))
    return frame
