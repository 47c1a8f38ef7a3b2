"""A profile's result as text and static HTML: headline, heaviest frames, flame graph; and its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import terminal
from accel_magic.errors import ResultError
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.quantities import (
    NOTHING,
    count_text,
    counted_text,
    duration_text,
    exact_text,
    sentence_text,
    share_text,
    weight_text,
)
from accel_magic.recording.profile import ThreadState, label
from accel_magic.views.element import element_html
from accel_magic.views.figures.bokehjs import figure_html, has_kernel, scripts
from accel_magic.views.headline import Note
from accel_magic.views.tables import FormattedTable, aligned
from accel_magic.views.trace_html import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from bokeh.model import Model
    from markupsafe import Markup

    from accel_magic.recording.profile import Profile

TOP: Final = 15
_NO_SAMPLES: Final = "there are no samples: the profiled code took less time than passes between two, or did nothing"
_STATES: Final = {
    ThreadState.CPU: "on CPU",
    ThreadState.OFF_CPU: "waiting",
    ThreadState.ACCELERATOR: "on an accelerator",
}
_COUNTED: Final = ("samples", "calls", "events")
"""Units that are counts, shown exactly."""
_EVENLY: Final = 0.01
"""Totals that differ by less than this share count as equal."""


def profile_headline(profile: Profile) -> tuple[Note, ...]:
    """Items of the first line: duration, samples, weight, stacks, threads, losses with reasons, and origin."""
    notes = [Note(duration_text(profile.duration_ns))] if profile.duration_ns else []
    if profile.unit != "samples":  # with unit "samples", the weights are the samples
        notes.append(Note(counted_text(len(profile.samples), "sample")))
    notes += [*_weights(profile), Note(counted_text(len(np.unique(profile.samples.stack)), "stack"))]
    threads = len(np.unique(profile.samples.tid[profile.samples.tid != 0]))
    notes += [Note(counted_text(threads, "thread"))] if threads else []
    notes += [Note(sentence_text(lost.count, lost.why), alarm=True) for lost in profile.lost if lost.count]
    notes += [] if any(lost.count for lost in profile.lost) else [Note("0 lost", hint="every sample has a stack")]
    if profile.others:
        notes.append(Note(f"event {profile.event} (1 of {1 + len(profile.others)})", hint=_about_others(profile)))
    return (*notes, Note(profile.origin)) if profile.origin else tuple(notes)


def _about_others(profile: Profile) -> str:
    """Note about the weights that are not shown."""
    others = [f"{each.event} ({_cell(each.total, each.unit, named=True)})" for each in profile.others]
    last = profile.others[-1].event
    return f"weights of several events are not added; for_event({last!r}) shows another: {', '.join(others)}"


def _notes(profile: Profile) -> tuple[str, ...]:
    nothing = () if profile.total else (_NO_SAMPLES,)
    return (*nothing, *((_about_others(profile),) if profile.others else ()), *profile.notes)


def profile_text(
    profile: Profile,
    frames: pd.DataFrame,
    head: Sequence[Note] | None = None,
    tables: Sequence[tuple[str, FormattedTable]] = (),
) -> str:
    """Banners, headline, notes, the frames with the most own weight, and each further table with its title.

    Args:
        profile: What to show.
        frames: Its frames, as `Profile.frame_table` gives them.
        head: Items of the headline; by default those of `profile_headline`.
        tables: Shown below the frames.

    """
    shown = profile_headline(profile) if head is None else head
    lines = [*profile.banners, ", ".join(note.text for note in shown)]
    lines += [f"note: {note}" for note in _notes(profile)]
    lines += ["", *aligned(frames_table(frames, profile.unit, TOP))]
    for title, table in tables:
        lines += ["", title, *aligned(table)]
    return terminal.page(lines)


def profile_html(
    profile: Profile,
    frames: pd.DataFrame,
    head: Sequence[Note] | None = None,
    tables: Sequence[tuple[str, FormattedTable]] = (),
    *,
    figures: bool = True,
) -> str:
    """The same as one self-contained element, with the flame graph (including its heatmap) if asked for."""
    return element_html(
        [frames_table(frames, profile.unit, LIMIT), *tables],
        profile_headline(profile) if head is None else head,
        banners=profile.banners,
        notes=_notes(profile),
        template="profile",
        figure=_figure_html(_flame(profile, with_banners=False)) if figures and profile.total else "",
    )


def bundle(profile: Profile, frames: pd.DataFrame) -> dict[str, str]:
    """Both representations, as `_repr_mimebundle_` returns them; the graph only in a notebook."""
    html = profile_html(profile, frames, figures=has_kernel())
    return {"text/plain": profile_text(profile, frames), "text/html": html}


def frames_table(frame: pd.DataFrame, unit: str, limit: int) -> FormattedTable:
    """Frames by own weight: own and total (including callees) weights and shares."""
    return _table(
        frame,
        [label(each) for each in _frames_of(frame.head(limit))],
        {
            f"own_{unit}": ("own", lambda value: _cell(value, unit)),
            "own_share": ("share", share_text),
            f"total_{unit}": ("total", lambda value: _cell(value, unit)),
            "total_share": ("share", share_text),
        },
        limit,
    )


def flame_figure(profile: Profile, *, invert: bool = False) -> Model:
    """Draw a flame graph with the root at the bottom (`invert`: at the top); it displays itself in a notebook.

    Raises:
        ResultError: No samples were taken.

    """
    _check_samples(profile)
    return _flame(profile, invert=invert)


def heatmap_figure(profile: Profile) -> Model:
    """Draw weights over time; the figure also displays itself in a notebook.

    Raises:
        ResultError: No samples were taken, or they have no times.

    """
    _check_samples(profile)
    if not profile.timed:
        raise ResultError(
            "a heatmap needs times", why=f"{profile.origin or 'this profile'} has no times", code="result.no-times"
        )
    from bokeh.models import ColumnDataSource

    from accel_magic.views.figures.plotting import displayed
    from accel_magic.views.flame.heatmap import heatmap

    return displayed(heatmap(profile, ColumnDataSource({"cells": []})))


def _check_samples(profile: Profile) -> None:
    if not profile.total:
        raise ResultError(
            "nothing to draw",
            why="no samples were taken",
            fix="profile code that runs longer, or sample more often: --rate",
            code="result.empty-figure",
        )


def comparison_figure(profile: Profile, baseline: Profile, *, invert: bool = False) -> Model:
    """Draw the differential graph.

    Raises:
        ResultError: One of the profiles is empty.

    """
    if not profile.total or not baseline.total:
        raise ResultError(
            "nothing to compare",
            why="one of the profiles has no samples",
            fix="compare profiles of code that runs longer",
            code="result.empty-figure",
        )
    return _flame(profile, baseline=baseline, invert=invert)


def comparison_text(frames: pd.DataFrame, profile: Profile, baseline: Profile) -> str:
    """What is compared, and the functions that changed most.

    Args:
        frames: As `ProfileComparison.frames`.
        profile: What is compared.
        baseline: What it is compared with.

    """
    lines = [*_both_banners(profile, baseline), *comparison_lines(profile, baseline), ""]
    return terminal.page([*lines, *aligned(_comparison_table(frames, profile, baseline, TOP))])


def comparison_bundle(frames: pd.DataFrame, profile: Profile, baseline: Profile) -> dict[str, str]:
    """Text and HTML, the graph only in a notebook; arguments as in `comparison_text`."""
    drawn = has_kernel() and profile.total and baseline.total and profile.weighs_like(baseline)
    first, *rest = comparison_lines(profile, baseline)
    html = element_html(
        [_comparison_table(frames, profile, baseline, LIMIT)],
        [Note(first)],
        banners=_both_banners(profile, baseline),
        notes=rest,
        template="profile",
        figure=_figure_html(_flame(profile, baseline=baseline, with_banners=False)) if drawn else "",
    )
    return {"text/plain": comparison_text(frames, profile, baseline), "text/html": html}


def comparison_lines(ours: Profile, theirs: Profile) -> list[str]:
    """What is compared, and whether weights were scaled to the same total."""
    totals = [_cell(profile.total, profile.unit, named=True) for profile in (ours, theirs)]
    lines = ["{} compared with a baseline of {}".format(*totals)]
    if not ours.weighs_like(theirs):
        lines.append(f"one counts {ours.weighs}, the other {theirs.weighs}: only shares can be compared")
    elif ours.total and theirs.total and abs(ours.total / theirs.total - 1) > _EVENLY:
        scale = ours.total / theirs.total
        lines.append(f"changes are in shares: the baseline is scaled to the same total (times {scale:.3g})")
    return lines


def _comparison_table(frame: pd.DataFrame, profile: Profile, baseline: Profile, limit: int) -> FormattedTable:
    ours, theirs = profile.unit, baseline.unit
    return _table(
        frame,
        [label(each) for each in _frames_of(frame.head(limit))],
        {
            f"own_{ours}": ("own", lambda value: _cell(value, ours)),
            f"baseline_own_{theirs}": ("baseline", lambda value: _cell(value, theirs)),
            "own_share": ("share", share_text),
            "baseline_own_share": ("baseline", share_text),
            f"own_change_{ours}": ("change", lambda value: _signed(value, ours)),
        },
        limit,
    )


def _table(
    frame: pd.DataFrame, names: list[str], formats: dict[str, tuple[str, Callable[[float], str]]], limit: int
) -> FormattedTable:
    shown = frame.head(limit)
    cells = [[text(value) for value in shown[column].tolist()] for column, (_, text) in formats.items()]
    return FormattedTable(
        heads=("frame", "kind", *(head for head, _ in formats.values())),
        rows=tuple(zip(names, [_words(str(kind)) for kind in shown["kind"]], *cells, strict=True)),
        names=2,
        more=len(frame) - len(shown),
    )


def _words(kind: str) -> str:
    """Name of a kind of frame as in the graph's legend, which says accelerator because it includes NPUs."""
    return kind.replace("gpu", "accelerator").replace("_", " ")


def _frames_of(table: pd.DataFrame) -> list[Frame]:
    lines = [0] * len(table) if "line" not in table else table["line"].fillna(0).astype("int64").tolist()
    return [
        Frame(name, FrameKind[str(kind).upper()], module, line)
        for name, kind, module, line in zip(table["name"], table["kind"], table["module"], lines, strict=True)
    ]


def _weights(profile: Profile) -> list[Note]:
    """Weight of all samples, exact for counts; by state if there are several."""
    samples, unit = profile.samples, profile.unit
    sums = {state: int(samples.weight[samples.state == state].sum()) for state in ThreadState}
    present = {state: weight for state, weight in sums.items() if weight}
    if profile.unit == "events":
        return [Note(f"{_cell(profile.total, unit, named=True)} of {profile.event or 'an unnamed event'}")]
    if len(present) > 1:
        return [Note(f"{_cell(weight, unit, named=True)} {_STATES[state]}") for state, weight in present.items()]
    hint = "" if unit in _COUNTED else f"exactly {exact_text(profile.total)} {unit}"
    return [Note(_cell(profile.total, unit, named=True), hint=hint)]


def _cell(weight: float, unit: str, *, named: bool = False) -> str:
    """Weight as in a table; with `named`, counts have their unit too."""
    if unit not in _COUNTED or weight != round(weight):
        return weight_text(weight, unit)
    whole = int(weight)
    return counted_text(whole, unit.removesuffix("s")) if named else exact_text(whole)


def _flame(
    profile: Profile, *, baseline: Profile | None = None, invert: bool = True, with_banners: bool = True
) -> Model:
    from accel_magic.views.flame import flame_graph

    title = f"event {profile.event} (1 of {1 + len(profile.others)})" if profile.others and with_banners else ""
    return flame_graph(profile, baseline=baseline, invert=invert, title=title, with_banners=with_banners)


def _figure_html(model: Model) -> Markup:
    return scripts() + figure_html(model)


def _both_banners(profile: Profile, baseline: Profile) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*profile.banners, *baseline.banners)))


def _signed(value: float, unit: str) -> str:
    text = count_text(abs(value)) if unit in _COUNTED else weight_text(abs(value), unit)
    return text if text == NOTHING or not value else f"{'+' if value > 0 else '-'}{text}"
