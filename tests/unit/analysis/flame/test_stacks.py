"""Measured calls among the frames of a stack."""

import pytest

from accel_magic.analysis.flame.stacks import Span, with_spans
from accel_magic.kernel.stacks.frames import Frame, FrameKind

CELL, WORK, INFER = (
    Frame(name, FrameKind.PYTHON, "cell", line) for line, name in enumerate(("<module>", "work", "infer"), 1)
)
NATIVE = Frame("execute", FrameKind.NATIVE, "lib")
TASK, INNER = Frame("request", FrameKind.TASK), Frame("layer", FrameKind.TASK)
IOCTL = Frame("ioctl", FrameKind.DRIVER)


def span(frame, *python):
    return Span(frame, None if frame.kind == FrameKind.DRIVER else python)


@pytest.mark.parametrize(
    ("code", "spans", "expected"),
    [
        ((CELL, WORK, NATIVE), (), (CELL, WORK, NATIVE)),
        ((CELL, WORK, NATIVE), (span(TASK, CELL, WORK),), (CELL, WORK, TASK, NATIVE)),
        ((CELL, WORK, NATIVE), (span(TASK, CELL, WORK), span(INNER, CELL, WORK)), (CELL, WORK, TASK, INNER, NATIVE)),
        # marked in Python code, around Python code
        ((CELL, WORK, INFER, NATIVE), (span(TASK, CELL),), (CELL, TASK, WORK, INFER, NATIVE)),
        (
            (CELL, WORK, INFER),
            (span(TASK, CELL._replace(line=9)), span(INNER, CELL, WORK)),
            (CELL, TASK, WORK, INNER, INFER),
        ),
        # of a thread without Python, or whose stack is unknown
        ((NATIVE,), (span(TASK),), (TASK, NATIVE)),
        ((CELL, NATIVE), (span(TASK),), (CELL, TASK, NATIVE)),
        # an inner span is never outside an outer one
        ((CELL, WORK, NATIVE), (span(TASK, CELL, WORK), span(INNER, CELL)), (CELL, WORK, TASK, INNER, NATIVE)),
        # other calls are innermost
        ((CELL, NATIVE), (span(IOCTL),), (CELL, NATIVE, IOCTL)),
        ((CELL, NATIVE), (span(TASK, CELL), span(IOCTL)), (CELL, TASK, NATIVE, IOCTL)),
    ],
)
def test_tasks_are_around_what_they_contain(code, spans, expected):
    assert tuple(with_spans(code, spans)) == expected
