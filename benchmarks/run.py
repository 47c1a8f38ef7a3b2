"""Run the benchmarks: `python benchmarks/run.py [--quick] [--only NAME] [--json FILE] [--markdown FILE]`.

Needs the requirements of live tracing (root, tracefs, BCC), a C compiler and bpftrace. Takes about ten minutes, four
of them in the lab; `--quick` takes two and only checks that everything runs. `gpu-device` needs only an NVIDIA GPU, and
is skipped without one; `ocr` is skipped without rapidocr, `llm` without openvino-genai. Exits 0 whatever the verdicts,
and 1 if nothing was measured, or if something that was to be measured did not happen: the rest of that group is left
out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from typing import TYPE_CHECKING

from benchmarks import (
    broker,
    cluster,
    consume,
    cost,
    datasets,
    flame,
    flame_cost,
    gpu,
    gpu_device,
    iaprof,
    itt,
    lab,
    lab_start,
    language_model,
    notebook,
    npu,
    ocr,
    opencl,
    patching,
    policies,
    report,
    stragglers,
)
from benchmarks.kernel import CellError
from benchmarks.peers import PeerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.arithmetic import Measured

GROUPS = {
    "counting": cost.counting,
    "recording": cost.recording,
    "loss": cost.loss,
    "streaming": datasets.streaming,
    "querying": datasets.querying,
    "consuming": consume.consuming,
    "cells": notebook.cells,
    "live": notebook.live,
    "functions": cost.functions,
    "broker": broker.tracing,
    "cluster": cluster.attaching,
    "itt": itt.tasks,
    "patching": patching.patched,
    "ocr": ocr.reading,
    "llm": language_model.decoding,
    "lab": lab.attaching,
    "lab-cold": lab.cold,
    "lab-start": lab_start.starting,
    "npu": npu.analysing,
    "gpu": gpu.translating,
    "gpu-simulated": gpu.simulating,
    "gpu-device": gpu_device.measuring,
    "opencl": opencl.tracing,
    "policies": policies.trying,
    "stragglers": stragglers.finding,
    "iaprof": iaprof.reading,
    "sampling": flame_cost.sampling,
    "flame-cost": flame_cost.in_notebook,
    "waiting": flame_cost.waiting,
    "flame-graph": flame.drawing,
}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python benchmarks/run.py", description="Compare with peers.")
    parser.add_argument("--quick", action="store_true", help="few rounds and calls, only to check that everything runs")
    parser.add_argument("--only", action="append", choices=tuple(GROUPS), help="run only this group; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds of all rows as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to this file")
    given = parser.parse_args(words)
    about = report.machine()
    results: list[Measured] = []
    failed: list[str] = []
    for name in given.only or GROUPS:
        try:
            for measured in GROUPS[name](quick=given.quick):
                results.append(measured)
                print(report.plain(measured), flush=True)
        except (PeerError, CellError, AssertionError, subprocess.CalledProcessError) as error:
            failed.append(name)
            print(f"{name}: FAILED: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(report.as_json(results, about), indent=1) + "\n", encoding="utf-8")
    if given.markdown is not None:
        report.write_table(given.markdown, report.markdown(results, about))
    missed = [measured.name for measured in results if measured.verdict == "missed"]
    print(f"\n{len(results)} rows; bars missed: {', '.join(missed) or 'none'}")
    if failed:
        print(f"groups that did not do what they measure: {', '.join(failed)}", file=sys.stderr)
    return 0 if results and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
