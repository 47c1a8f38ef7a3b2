"""Findings as plain text and as HTML: title, evidence, meaning, advice; worst first."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from accel_magic import terminal
from accel_magic.banners import banners_of
from accel_magic.quantities import (
    bytes_text,
    count_text,
    counted_text,
    duration_text,
    exact_text,
    ratio_text,
    share_text,
)
from accel_magic.views.element import element_html
from accel_magic.views.headline import Note

if TYPE_CHECKING:
    from accel_magic.analysis.findings import Findings
    from accel_magic.findings import Finding, Stretch

WIDTH = 100
_SHOWN_PLACES = 5
_INDENT = "    "


MOST_TITLES = 3


def findings_text(findings: Findings) -> str:
    """All findings with evidence, meaning and advice; one line if there are none."""
    lines = [*_banners(findings), headline_text(findings)]
    for finding in findings:
        lines += ["", f"{finding.severity.upper()}  {finding.title}  [{finding.id}]"]
        lines += _wrapped(", ".join(f"{name} {value}" for name, value in evidence_cells(finding)))
        lines += _wrapped(finding.meaning) + _wrapped(f"try: {finding.advice}")
        lines += _wrapped(rule_text(finding))
        lines += _wrapped(where_text(finding)) if finding.where else []
    if findings.unchecked:
        lines += ["", *textwrap.wrap(unchecked_text(findings), WIDTH)]
    return terminal.page(lines)


def findings_html(findings: Findings) -> str:
    """The same as one self-contained element, without figures or scripts."""
    shown = [
        {
            "finding": each,
            "evidence": evidence_cells(each),
            "rule": rule_text(each),
            "where": where_text(each) if each.where else "",
        }
        for each in findings
    ]
    return element_html(
        (),
        [Note(headline_text(findings))],
        banners=_banners(findings),
        template="findings",
        findings=shown,
        unchecked=unchecked_text(findings) if findings.unchecked else "",
    )


def headline_text(findings: Findings) -> str:
    """The number of findings of each severity, and of rules checked."""
    count = len(findings.checked)
    rules = f"{counted_text(count, 'rule')} checked"
    if not findings:
        return f"nothing found, {rules}"
    counts = [
        counted_text(count, severity)
        for severity in ("problem", "warning", "note")
        if (count := sum(finding.severity == severity for finding in findings))
    ]
    return f"{', '.join(counts)}, {rules}"


def brief_text(findings: Findings) -> str:
    """The headline and the first titles, in one line."""
    titles = [f"{finding.severity}: {finding.title}" for finding in findings]
    return "; ".join([f"diagnose(): {headline_text(findings)}", *titles[:MOST_TITLES]])


def evidence_cells(finding: Finding) -> tuple[tuple[str, str], ...]:
    """Names and formatted values of the evidence; the suffix of a name is its unit."""
    return tuple(_cell(name, value) for name, value in finding.evidence.items())


def rule_text(finding: Finding) -> str:
    """The threshold of the rule and its source."""
    unit = finding.unit.removeprefix("share ")
    value = f"{finding.threshold:g}" if unit == finding.unit else share_text(finding.threshold)
    limit = "" if math.isnan(finding.threshold) else f"{value} {unit}; "
    return f"limit: {limit}{finding.source}"


def where_text(finding: Finding) -> str:
    """Name the first places in the trace."""
    shown = ", ".join(map(_place, finding.where[:_SHOWN_PLACES]))
    more = len(finding.where) - _SHOWN_PLACES
    return f"where: {shown}{f' and {more} more' if more > 0 else ''}"


def unchecked_text(findings: Findings) -> str:
    """The rules that could not be checked, and what the trace lacks for them."""
    missing: dict[str, list[str]] = {}
    for rule, why in findings.unchecked.items():
        missing.setdefault(why, []).append(rule)
    return "rules not checked: " + "; ".join(
        f"{', '.join(rules)} (the trace lacks {why})" for why, rules in missing.items()
    )


def _cell(name: str, value: float) -> tuple[str, str]:
    stem, _, unit = name.rpartition("_")
    formats = {"ns": duration_text, "bytes": bytes_text, "share": share_text, "ratio": ratio_text}
    if unit in formats:
        label = f"{stem} share" if unit == "share" else stem or unit
        return label.replace("_", " ").strip(), formats[unit](float(value))
    whole = float(value).is_integer() and math.isfinite(value)
    return name.replace("_", " "), exact_text(int(value)) if whole else count_text(float(value))


def _place(place: Stretch) -> str:
    row = f"row {place.first_row}" if place.first_row >= 0 else ""
    if place.first_row != place.last_row and row:
        row = f"rows {place.first_row} to {place.last_row}"
    if not place.end_ns:
        return row
    length = place.end_ns - place.start_ns
    time = f"at {duration_text(place.start_ns)}" + (f" for {duration_text(length)}" if length else "")
    return f"{time} ({row})" if row else time


def _banners(findings: Findings) -> tuple[str, ...]:
    recording = findings.recording
    return () if recording is None else banners_of(recording)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
