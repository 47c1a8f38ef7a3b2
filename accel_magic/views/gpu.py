"""A GPU result as text and static HTML: what ran, what the tools saw, what was found, what was left out."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from accel_magic import terminal
from accel_magic.analysis.gpu.host import summary
from accel_magic.banners import banners_of
from accel_magic.gpu.recording import NOT_WANTED
from accel_magic.views.bokehjs import figure_html, has_kernel, scripts
from accel_magic.views.format import duration_text, exact_text
from accel_magic.views.frame_tables import frame_table
from accel_magic.views.headline import Note
from accel_magic.views.static import LIMIT, STYLE, note_html, table_html
from accel_magic.views.text import aligned

if TYPE_CHECKING:
    import pandas as pd

    from accel_magic.gpu.result import GpuResult
    from accel_magic.views.tables import Table

TOP = 10
_OUTCOMES = {"error": "the traced code raised", "interrupted": "interrupted"}


def gpu_headline(result: GpuResult) -> tuple[Note, ...]:
    """Items of the first line."""
    recording, kernels = result.recording, _ran(result)
    done = int(kernels["instrumented"].sum())
    hint = "\n".join(f"{row.name}: {row.reason}" for row in kernels[~kernels["instrumented"]].head(20).itertuples())
    notes = [
        Note(duration_text(recording.duration_ns)),
        Note(_plural(len(result.launches), "launch", "launches"), hint="as the host asked for them"),
        Note(", ".join(recording.sources)),
        Note(f"{exact_text(done)} of {_plural(len(kernels), 'kernel', 'kernels')} instrumented", hint=hint),
        Note(recording.device),
        Note(
            f"{exact_text(result.lost)} lost",
            alarm=result.lost > 0,
            hint="maps had no room for these: more entries in the program, or --threads" if result.lost else "",
        ),
    ]
    if recording.api is not None:
        lost = f"the records of {exact_text(recording.api_lost)} more were lost" if recording.api_lost else ""
        hint = lost or "of the CUDA driver, by this process and its children: result.api"
        notes.append(Note(_plural(len(result.api), "host call", "host calls"), alarm=bool(lost), hint=hint))
    if recording.outcome in _OUTCOMES:
        notes.append(Note(_OUTCOMES[recording.outcome], alarm=True, hint="the result is what was there by then"))
    return tuple(notes)


def gpu_text(result: GpuResult) -> str:
    """Banners, headline, findings, and each table in aligned columns."""
    recording = result.recording
    lines = [*banners_of(recording), ", ".join(note.text for note in gpu_headline(result))]
    lines += [f"note: {note}" for note in _notes(result)]
    lines += [f"{finding.severity}: {finding.title} [{finding.id}]" for finding in result.diagnose()]
    for title, table in _tables(result, TOP):
        lines += ["", title, *aligned(table)]
    if result.printed:
        lines += ["", "printed"]
        lines += [line for text in result.printed[:TOP] for line in text.removesuffix("\n").split("\n")]
        lines += [f"and {len(result.printed) - TOP:,} more"] if len(result.printed) > TOP else []
    return terminal.page(lines)


def gpu_html(result: GpuResult) -> str:
    """The same as one self-contained element, with the figures of the tools where a notebook shows them."""
    recording = result.recording
    tables = [f"<div><b>{escape(title)}</b>{table_html(table)}</div>" for title, table in _tables(result, LIMIT)]
    printed = "\n".join(result.printed[:LIMIT])
    return "\n".join(
        [
            '<div class="accel-magic">',
            STYLE,
            *(f'<div class="am-banner">{escape(text)}</div>' for text in banners_of(recording)),
            f'<div class="am-line">{"".join(map(note_html, gpu_headline(result)))}</div>',
            *(f'<div class="am-note">{escape(note)}</div>' for note in _notes(result)),
            *(
                f'<div class="am-brief"><b>{escape(finding.title)}</b> — {escape(finding.advice)}</div>'
                for finding in result.diagnose()
            ),
            f'<div class="am-tables">{"".join(tables)}</div>',
            *([f"<pre>{escape(printed)}</pre>"] if printed else []),
            *([_figures(result)] if has_kernel() else []),
            "</div>",
        ]
    )


def _figures(result: GpuResult) -> str:
    drawn = [figure_html(result.figure(tool)) for tool, table in result.tools.items() if len(table)]
    drawn += [figure_html(result.figure("timeline"))] if len(result.api) else []
    return f'{scripts()}<div class="am-figures">{"".join(drawn)}</div>' if drawn else ""


def _notes(result: GpuResult) -> list[str]:
    ran = _ran(result)
    left_out = ran[~ran["instrumented"]]
    notes = [f"{row.name} was not instrumented: {row.reason}" for row in left_out.head(3).itertuples()]
    more = len(left_out) - len(notes)
    notes += [f"and {more:,} more kernels, see result.kernels"] if more > 0 else []
    with_rest = ran[ran["instrumented"] & (ran["reason"] != "")]
    notes += [f"{row.name}: {row.reason}" for row in with_rest.head(3).itertuples()]
    # Where nothing can call a driver, it is no news that nothing did.
    if result.api_off and result.api_off != NOT_WANTED and "simulated" not in result.machine:
        notes.append(f"host calls were not recorded: {result.api_off}")
    return [*result.recording.notes, *notes, *result.recording.findings]


def _ran(result: GpuResult) -> pd.DataFrame:
    """Kernels that were launched or could not be traced; a module may hold many that nobody uses."""
    kernels = result.kernels
    return kernels[(kernels["launches"] > 0) | (kernels["kernel"] < 0)]


def _tables(result: GpuResult, limit: int) -> list[tuple[str, Table]]:
    """Tables of the tools; of the user's own programs their maps."""
    tables = [(f"{name}, {_plural(len(frame), 'row', 'rows')}", frame) for name, frame in result.tools.items()]
    for source in result.recording.sources:
        if source not in result.tools:
            tables += [
                (f"map {name}, {_plural(len(frame), 'row', 'rows')}", frame)
                for name, frame in result.maps_of(source).items()
            ]
    if len(result.api):
        tables.append((f"host calls, {exact_text(len(result.api))}", summary(result.api)))
    return [(title, frame_table(_shown(frame), limit)) for title, frame in tables]


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    """Files without their folders: a column is narrow."""
    return frame.assign(file=frame["file"].str.rpartition("/")[2]) if "file" in frame else frame


def _plural(count: int, one: str, many: str) -> str:
    return f"{exact_text(count)} {one if count == 1 else many}"
