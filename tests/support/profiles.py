"""Synthetic profiles with known functions, shares and times."""

from __future__ import annotations

from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.recording.profile import ProfileBuilder, ThreadState

KINDS = {
    "n": FrameKind.NATIVE,
    "k": FrameKind.KERNEL,
    "w": FrameKind.WAIT,
    "d": FrameKind.DRIVER,
    "g": FrameKind.GPU_KERNEL,
    "t": FrameKind.THREAD,
}
MODULES = {FrameKind.PYTHON: "model.py", FrameKind.NATIVE: "libwork.so"}
PHASES = (
    (0, 10, "main;load;read[k]"),
    (10, 25, "main;compute;gemm[n]"),
    (25, 30, "main;store"),
)
"""Seconds from, seconds to, stack: a third, a half and a sixth of 30 s."""


def phases(stretches=PHASES, *, hz=100, unit="ns", waits=(), **fields):
    """Build the profile of a thread that does one thing after another, sampled `hz` times a second at even intervals.

    Args:
        stretches: (seconds from, seconds to, stack) each; a stack has names joined by `;`, of Python functions, or of
            the kind in `KINDS` given by a letter in brackets.
        hz: Samples per second; the first sample of a stretch is half an interval after its start.
        unit: With `ns` the weight of a sample is 1e9 / hz, else 1.
        waits: (seconds from, seconds to, stack) each: one sample of the state OFF_CPU, weighted by its duration.
        fields: Further arguments of `ProfileBuilder.build`.

    """
    builder = ProfileBuilder()
    step = 1_000_000_000 // hz
    weight = step if unit == "ns" else 1
    for start, end, text in stretches:
        stack = builder.stack(frames(builder, text))
        for time_ns in range(round(start * 1e9) + step // 2, round(end * 1e9), step):
            builder.add(stack, weight, time_ns=time_ns, tid=1)
    for start, end, text in waits:
        stack = builder.stack(frames(builder, text))
        length = round((end - start) * 1_000_000_000)
        builder.add(stack, length, time_ns=round(start * 1_000_000_000), tid=1, state=ThreadState.OFF_CPU)
    longest = max((end for _, end, _ in (*stretches, *waits)), default=0)
    given = {"unit": unit, "origin": "made for a test", "duration_ns": round(longest * 1_000_000_000)}
    return builder.build(**{**given, **fields})


def frames(builder, text):
    """Yield the frame numbers of a stack given as text: `main;compute;gemm[n]`."""
    for word in text.split(";"):
        name, _, letter = word.rstrip("]").partition("[")
        kind = KINDS.get(letter, FrameKind.PYTHON)
        line = 10 * len(name) if kind is FrameKind.PYTHON else 0
        yield builder.frame(name, kind, MODULES.get(kind, ""), line)


def training(seconds=40):
    """Build the profile of a synthetic training: steps of 0.4 s, and a checkpoint of 1.2 s every 10 s."""
    spans = []
    for start in range(0, 10 * seconds, 4):
        at = start / 10
        if start % 100 >= 88:
            spans.append((at, at + 0.15, "main;fit;save;Tensor.tobytes;memcpy[n]"))
            spans.append((at + 0.15, at + 0.4, "main;fit;save;write;write[n];do_syscall_64[k];ext4_file_write_iter[k]"))
            continue
        spans += [
            (at + 0.06, at + 0.09, "main;fit;next_batch;collate"),
            (at + 0.09, at + 0.17, "main;fit;forward;Linear.forward;sgemm[n]"),
            (at + 0.17, at + 0.2, "main;fit;forward;relu;max[n]"),
            (at + 0.2, at + 0.36, "main;fit;backward;sgemm[n]"),
            (at + 0.36, at + 0.4, "main;fit;optimizer_step;add[n]"),
        ]
    waits = [
        (start / 10, start / 10 + 0.06, "main;fit;next_batch;Queue.get;lock[w]")
        for start in range(0, 10 * seconds, 4)
        if start % 100 < 88
    ]
    return phases(spans, waits=waits)
