"""The lecturer's ten slides and the students' hand-out, both made of the same tables and of the exercises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.workshop.exercises import NAMES, find

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Slide:
    """One slide.

    Attributes:
        title: A sentence.
        points: What is said, with code between backticks.
        cell: A cell, shown below the points; "" for none.
        table: Rows of two columns, shown below the code.

    """

    title: str
    points: tuple[str, ...] = ()
    cell: str = ""
    table: tuple[tuple[str, str], ...] = ()


PROBES: Final = (
    ("`%%ktrace intel_vpu:ivpu_*`", "count and record all functions of a driver with such names"),
    ("`%%ktrace latency:MODULE:FUNCTION`", "measure each call of a function"),
    ("`%%ktrace npu`, `npu:ipc`", "a preset, or a part of it: the informative functions of this kernel's driver"),
    ("`%%ktrace openvino`", "models, inferences and layers of OpenVINO"),
    ("`%%flame --off-cpu --by-thread`", "where threads run, and what they wait for"),
    ("`%%gputrace memtrace`, `branchdiv`", "eBPF in GPU kernels: memory accesses, branches"),
    ("`%gpupolicy mine lru --trace t`", "a policy of the GPU's driver, beside others"),
    ("`--args 'size=arg1[0]:u64'`", "a column: 8 bytes at the address in the second argument"),
    ("`-o t`", "put the result into the variable `t`; `--dry-run` only shows what would be traced"),
)
"""What to write above a cell, and what it does."""

RESULTS: Final = (
    ("`t.counts`", "hits of each function: exact, even if events are lost"),
    ("`t.events`", "one row per call: `time_ns`, `tid`, `duration_ns`, your columns"),
    ("`t.latency`", "distribution of each measured function"),
    ("`t.npu`, `t.openvino`, `f.frames`", "tables of a subject: jobs, messages, mappings, calls; layers; frames"),
    ("`t.diagnose()`", "what is wrong, with evidence, and what to try"),
    ("`t.npu.timeline()`, `t.figure()`", "the same over time; drag to select, click to follow a job"),
)
"""What a result has."""

_CHAIN: Final = (
    ("`zeCommandQueueExecuteCommandLists`", "the program's call"),
    ("`ivpu_cmdq_submit_ioctl`", "the driver: pages, queue, doorbell"),
    ("the NPU works", "one job at a time; the others wait"),
    ("`ivpu_hw_irq_handler`", "an interrupt: something has happened"),
    ("`ivpu_job_done_callback`", "its thread reads the message: this job is done"),
    ("`ivpu_bo_wait_ioctl` returns", "the program's thread wakes up"),
)


def slides() -> tuple[Slide, ...]:
    """Return the ten slides in order."""
    return (
        Slide(
            "What did my program make the accelerator do?",
            (
                "Start the Jupyter kernel now: choose it at the top right.",
                "Each exercise: predict, run, answer, `check`.",
                "Your numbers differ from your neighbor's.",
                'Stuck for more than two minutes: `hint("jobs")`.',
            ),
        ),
        Slide(
            "A thousand messages?",
            (
                "A published trace of an NPU driver: 946 calls of `ivpu_ipc_irq_handler`.",
                "Its text: nearly a thousand messages during the computation.",
                "It was one loop that waited for the firmware to boot, and five messages.",
                "Today: find out what a count means before you explain it.",
            ),
        ),
        Slide("A probe above a cell", cell="%%ktrace intel_vpu:ivpu_* -o t\nexercise.run()", table=PROBES),
        Slide("What you get back", table=RESULTS),
        Slide("From the call to the interrupt and back", table=_CHAIN),
        Slide("The NPU's driver", ("Live in a virtual machine: the real driver, an emulated NPU.",), table=_rows(0, 4)),
        Slide("OpenVINO", ("OpenVINO marks its own work; no privilege is needed to read it.",), table=_rows(4, 6)),
        Slide(
            "Waiting",
            ("A thread that waits uses no processor: an ordinary profile is blind to it.",),
            table=_rows(6, 7),
        ),
        Slide("In the GPU, and in its driver", ("On a simulated GPU: counts are exact.",), table=_rows(7, 10)),
        Slide(
            "Three things to remember",
            (
                "Count before you time: most surprises are in how often, not in how long.",
                "A call is not an event: a loop that looks for a message is one wait.",
                "Follow the cause, not the clock: what comes next in time is not what was caused.",
                "On your own machine: `%accel_doctor`, then `%%ktrace` over the slow cell.",
            ),
        ),
    )


def to_html(target: Path) -> list[Path]:
    """Write `slides.html` and `handout.html`: pages that need no network and that a browser prints.

    Args:
        target: The folder; created if necessary.

    Returns:
        The two files.

    Raises:
        OSError: A file cannot be written.

    """
    from accel_magic.views.templates import render

    target.mkdir(parents=True, exist_ok=True)
    exercises = [find(name) for name in NAMES]
    pages = {
        "slides.html": render("workshop_slides", slides=slides()),
        "handout.html": render("workshop_handout", probes=PROBES, results=RESULTS, exercises=exercises),
    }
    for name, content in pages.items():
        (target / name).write_text(content, encoding="utf-8")
    return [target / name for name in pages]


def _rows(first: int, end: int) -> tuple[tuple[str, str], ...]:
    """Rows about exercises: number and title, and what to remember."""
    return tuple((f"{one.number}. {one.title}", one.takeaway) for one in map(find, NAMES[first:end]))
