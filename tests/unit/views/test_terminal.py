"""Untrusted names cannot control the terminal that shows them, or start a new line."""

import io
import re
import unicodedata
from dataclasses import fields, replace

import numpy as np
import pytest

from accel_magic import errors, terminal
from accel_magic.api.doctor import Check, Report
from accel_magic.api.gpu_recording import frame_of
from accel_magic.banners import Replayed
from accel_magic.command_line.progress import Bar
from accel_magic.devices.device import DeviceClock
from accel_magic.findings import Finding
from accel_magic.gpu.dry_run import GpuDryRun
from accel_magic.kernel.attach.function_bindings import FunctionBinding
from accel_magic.kernel.bcc.compiler import ProgramMap
from accel_magic.kernel.load.bpf_maps import MapElements
from accel_magic.kernel.stacks import stack_table
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.lab.image.progress import Progress
from accel_magic.probes.plan import Plan, Skipped
from accel_magic.recording.gpu_data import KERNELS, LAUNCHES, MODULES, SITES, GpuRecording
from accel_magic.recording.profile import Lost, ProfileBuilder
from accel_magic.recording.program_data import ProgramRecording
from accel_magic.recording.recording import EventColumn
from accel_magic.result_bases.profile import ProfileResult
from accel_magic.results.gpu_result import GpuResult
from accel_magic.results.program_result import ProgramResult
from accel_magic.results.trace_result import TraceResult
from accel_magic.subsystems.iaprof.parse import read
from accel_magic.subsystems.iaprof.result import IaprofResult
from accel_magic.views.diagnosis import Diagnosis
from accel_magic.views.dry_run import DryRun
from accel_magic.views.flame.flame_summary import ThreadDryRun
from accel_magic.views.program_view import ProgramDryRun

EVIL = "e\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08v\x7f\u202eil\u2028\nnote: made up"


TURNING = {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}


def commands(text):
    """The control characters in a text, except line breaks."""
    return [
        character
        for character in text
        if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}
        or unicodedata.bidirectional(character) in TURNING
        if character not in "\n\t"
    ]


def trace_result(make_recording, make_point):
    points = [make_point(0, f"latency:uprobe:{EVIL}:f", function=f"f{EVIL}", probe=EVIL)]
    recording = make_recording(
        points,
        [(1, 0, 5)],
        plan={"notes": (EVIL,), "skipped": (Skipped(EVIL, EVIL),), "stacks": ("user",)},
        replayed=Replayed(EVIL, EVIL),
        machine=dict.fromkeys(("kernel", "cpu", "host", "device", "python", "accel_magic", "simulated"), EVIL),
        started=EVIL,
        columns={"user_stack": EventColumn(np.array([7], np.uint64))},
        stacks=stack_table.table(
            np.array([7], np.uint64), np.array([1], np.uint8), [(Frame(EVIL, FrameKind.NATIVE, f"/{EVIL}"),)]
        ),
    )
    return TraceResult(recording)


def compared(make_recording, make_point):
    return trace_result(make_recording, make_point).compare(trace_result(make_recording, make_point))


def profile_result(*_):
    builder = ProfileBuilder()
    builder.add(builder.stack([builder.frame(EVIL, FrameKind.PYTHON, f"/{EVIL}.py", 1)]), 5)
    builder.add(builder.stack([builder.frame(f"{EVIL}2", FrameKind.NATIVE, EVIL)]), 5)
    made = builder.build(origin=EVIL, notes=[EVIL], banners=[EVIL], lost=[Lost(1, EVIL)], machine={"host": EVIL})
    return ProfileResult(made)


def profiles_compared(*_):
    return profile_result().compare(profile_result())


def findings(*_):
    known = {"severity": "warning", "threshold": 1.0, "where": (), "evidence": {EVIL: 1.0}}
    texts = {field.name: EVIL for field in fields(Finding) if field.name not in known}
    return Diagnosis((Finding(**known, **texts),), checked=(EVIL,), unchecked={EVIL: EVIL})


def iaprof_result(*_):
    text = "".join(
        line + "\n"
        for line in (
            *(f"string\t{at}\t{EVIL.replace(chr(10), ' ')}{at}" for at in range(1, 6)),
            "interval\t0\t1.0",
            "kernel\t0x1000\t1\t7\t2\t3\t4",
            "eustall\t0x10\t5\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10",
        )
    )
    made = read(io.BytesIO(text.encode(errors="replace")), "skip")
    return IaprofResult(replace(made, notes=(EVIL,), machine={"host": EVIL}, lost=(Lost(1, EVIL),)), banners=(EVIL,))


def iaprof_stalls(*_):
    return iaprof_result().stalls


def gpu_result(*_):
    def row(columns):
        return {name: {"str": EVIL, "bool": True}.get(kind, 1) for name, kind in columns.items()}

    return GpuResult(
        GpuRecording(
            sources=(EVIL,),
            device=EVIL,
            multiprocessors=4,
            started=EVIL,
            start_ns=0,
            duration_ns=1,
            threads=1,
            kernels=frame_of([row(KERNELS)], KERNELS),
            modules=frame_of([row(MODULES)], MODULES),
            launches=frame_of([row(LAUNCHES)], LAUNCHES),
            sites=frame_of([row(SITES)], SITES),
            maps=(),
            printed=(EVIL.replace("note: ", ""), "one\ntwo\n"),
            findings=(EVIL,),
            outcome="ok",
            notes=(EVIL,),
            machine=dict.fromkeys(("kernel", "host", "simulated"), EVIL),
            clock=DeviceClock(0, 0, 0),
        )
    )


def program_result(*_):
    described = ProgramMap(EVIL, 1, -1, 8, 4, 4, "unsigned int", "unsigned int", ())
    content = MapElements(np.zeros((1, 4), np.uint8), np.zeros((1, 1, 4), np.uint8))
    return ProgramResult(
        ProgramRecording(
            program=EVIL,
            places=(FunctionBinding(EVIL, EVIL, raw_tracepoint=EVIL),),
            duration_ns=1,
            maps=((described, content),),
            rings=(),
            histograms=frozenset(),
            log2=False,
            missed=0,
            outcome="ok",
            notes=(EVIL,),
            machine={},
            started="",
        )
    )


def dry_run(_, make_point):
    points = (make_point(0, f"uprobe:{EVIL}:f", function=EVIL),)
    return DryRun(Plan(points=points, skipped=(Skipped(EVIL, EVIL),)), f"int f;\n\t/* {EVIL} */")


def program_dry_run(*_):
    return ProgramDryRun(EVIL, program_result().recording.places, (program_result().recording.maps[0][0],), (EVIL,))


def gpu_dry_run(*_):
    return GpuDryRun((EVIL,), (EVIL,), {EVIL: (EVIL, EVIL)}, EVIL)


def thread_dry_run(*_):
    return ThreadDryRun(99, (EVIL,))


def report(*_):
    return Report((Check(EVIL, "missing", EVIL, EVIL),))


def error(*_):
    return errors.ProbeError(EVIL, why=EVIL, fix=EVIL, code="probe.no-match")


SHOWN = [
    trace_result,
    compared,
    profile_result,
    profiles_compared,
    findings,
    iaprof_result,
    iaprof_stalls,
    gpu_result,
    program_result,
    dry_run,
    program_dry_run,
    gpu_dry_run,
    thread_dry_run,
    report,
    error,
]
"""Makers of everything that is shown as text, with hostile names everywhere."""


@pytest.mark.parametrize("make", SHOWN, ids=lambda make: make.__name__)
def test_shown_text_has_no_terminal_control_characters(make, make_recording, make_point):
    shown = make(make_recording, make_point)
    texts = [str(shown) if make is error else repr(shown)]
    if hasattr(shown, "_repr_mimebundle_"):
        texts.append(shown._repr_mimebundle_()["text/plain"])
    if hasattr(shown, "summary"):
        texts.append(shown.summary())
    if make is error:
        texts.append("\n".join(shown._render_traceback_()))

    for text in texts:
        assert commands(text) == []
        assert "\\x1b" in text


@pytest.mark.parametrize(
    "make", [each for each in SHOWN if each not in (error, dry_run, gpu_dry_run)], ids=lambda make: make.__name__
)
def test_no_name_starts_a_new_line(make, make_recording, make_point):
    text = repr(make(make_recording, make_point))
    assert not re.search(r"^note: made up", text, re.MULTILINE)


def test_the_progress_of_a_build_has_no_terminal_control_characters():
    for live in (True, False):
        output = io.StringIO()
        output.isatty = lambda live=live: live
        bar = Bar(output)
        bar(Progress("note", 0, 0, EVIL))
        bar(Progress("fetch", 0, 0, EVIL))
        assert commands(output.getvalue().replace("\r", "", 1 if live else 0)) == []


def test_ordinary_text_is_unchanged():
    text = "größe 値 😀 …\tf<T>(…) \\x1b"
    assert terminal.one_line(text) == text
    assert terminal.page(["a", text]) == f"a\n{text}"
    assert terminal.block("a\n\tb\n") == "a\n\tb\n"


def test_control_characters_are_shown_as_escapes():
    assert terminal.one_line("\x1b[31m\x00\x9b\n\u202e\udc80") == r"\x1b[31m\x00\x9b\n\u202e\udc80"
    assert terminal.page(["a\nb", "c"]) == "a\\nb\nc"
    assert terminal.block("a\x1b\r\nb") == "a\\x1b\\r\nb"
