"""Results as JSON and as a table, and a description of the machine."""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.arithmetic import median, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.arithmetic import Measured

_VERDICTS = {"met": "met", "missed": "**missed**", "information": ""}


def machine() -> dict[str, Any]:
    """Describe the machine and the software that the results depend on."""
    from accel_magic import __version__
    from benchmarks.peers import PeerError, bpftrace_version

    info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    models = [line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")]
    try:
        bpftrace = bpftrace_version()
    except PeerError:
        bpftrace = "none"
    return {
        "date": datetime.now().astimezone().isoformat(timespec="minutes"),
        "cpu": models[0] if models else platform.machine(),
        "cpus": os.cpu_count(),
        "virtual": any(line.startswith("flags") and " hypervisor" in line for line in info.splitlines()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "accel_magic": __version__,
        "bpftrace": bpftrace,
        "load_before": os.getloadavg()[0],
    }


def number(value: float) -> str:
    """Format with three significant digits and no exponent."""
    if math.isnan(value):
        return "?"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def _range(values: Sequence[float]) -> str:
    low, high = spread(values)
    return f"{number(low)} to {number(high)}"


def _amount(values: Sequence[float], unit: str, lost: Sequence[float]) -> str:
    return f"{number(median(values))} {unit}" + (f", {number(median(lost))} % lost" if lost else "")


def row(measured: Measured) -> tuple[str, ...]:
    """Cells of a table row: what, ours, peer, ratio, range, bar, verdict."""
    unit = measured.unit
    peer = f"{_amount(measured.theirs, unit, measured.peer_lost)} ({measured.peer})" if measured.theirs else ""
    bar, compared, around = "", "", _range(measured.ours)
    if measured.kind == "value":
        bar = "" if measured.bar is None else f"at most {number(measured.bar)} {unit}"
        around += f" {unit}"
    else:
        times = "x faster" if measured.kind == "speedup" else "x"
        compared = f"{number(measured.middle)}{times}"
        around = _range(measured.compared)
        word = "at least" if measured.kind == "speedup" else "at most"
        bar = "" if measured.bar is None else f"{word} {number(measured.bar)}x"
    rounds = sum(not math.isnan(value) for value in measured.compared)
    ours = _amount(measured.ours, unit, measured.lost)
    what = f"{measured.what} ({measured.note})" if measured.note else measured.what
    return what, ours, peer, compared, f"{around} ({rounds})", bar, _VERDICTS[measured.verdict]


HEADS = ("what", "ours", "peer", "ours / peer", "lowest to highest (rounds)", "bar", "verdict")


def markdown(results: Sequence[Measured], about: dict[str, Any]) -> str:
    """Table of all rows, after a description of the machine."""
    kind = "virtual machine" if about["virtual"] else "bare metal"
    where = (
        f"Measured {about['date']} on {about['cpu']}, {about['cpus']} CPUs ({kind}), Linux {about['kernel']}, "
        f"Python {about['python']}, {about['bpftrace']}, accel_magic {about['accel_magic']}; load average before: "
        f"{about['load_before']:.2f}."
    )
    lines = [
        where,
        "",
        "| " + " | ".join(HEADS) + " |",
        "|" + "---|" * len(HEADS),
        *("| " + " | ".join(row(measured)) + " |" for measured in results),
    ]
    return "\n".join(lines) + "\n"


def write_table(path: Path, table: str) -> None:
    """Write the table to a new file, or replace the one between the markers in an existing file."""
    start, end = "<!-- results -->", "<!-- end of results -->"
    before, after = "", ""
    if path.exists():
        before, found, rest = path.read_text(encoding="utf-8").partition(start)
        after = rest.partition(end)[2]
        if not found:
            raise ValueError(f"{path} has no line {start} to mark the table's position")
    path.write_text(f"{before}{start}\n\n{table}\n{end}{after or chr(10)}", encoding="utf-8")


def plain(measured: Measured) -> str:
    """Format one row for the terminal."""
    what, ours, peer, compared, around, bar, verdict = row(measured)
    parts = [ours, f"peer {peer}" if peer else "", compared, around, bar]
    verdict = verdict.strip("*").upper() if measured.verdict == "missed" else verdict
    return f"{measured.name:<18}{what}\n{'':<18}{'; '.join(filter(None, parts))}{'  -> ' + verdict if verdict else ''}"


def as_json(results: Sequence[Measured], about: dict[str, Any]) -> dict[str, Any]:
    """All results with every round; NaN becomes null."""
    rows = [
        {
            **dataclasses.asdict(measured),
            "compared": [None if math.isnan(value) else value for value in measured.compared],
            "middle": None if math.isnan(measured.middle) else measured.middle,
            "verdict": measured.verdict,
        }
        for measured in results
    ]
    return {"machine": about, "argv": sys.argv[1:], "rows": rows}
