"""Labels of frames."""

import pytest

from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import label


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (Frame("forward", FrameKind.PYTHON, "/home/u/model.py", 123), "forward (model.py:123)"),
        (Frame("forward", FrameKind.PYTHON, "cell [12]", 3), "forward (cell [12]:3)"),
        (Frame("len", FrameKind.PYTHON, "/x/a.py"), "len (a.py)"),
        (Frame("len", FrameKind.PYTHON), "len"),
        (Frame("gemm", FrameKind.NATIVE, "/usr/lib/libblas.so"), "gemm"),
        (Frame("libfoo.so+0x1234", FrameKind.NATIVE, "/usr/lib/libfoo.so"), "libfoo.so+0x1234"),
        (Frame("", FrameKind.NATIVE, "/usr/lib/libblas.so"), "[libblas.so]"),
        (Frame("", FrameKind.GPU_SOURCE), "[unknown]"),
        (Frame("futex_wait_queue", FrameKind.KERNEL), "futex_wait_queue"),
        (Frame("ivpu_ioctl", FrameKind.KERNEL, "intel_vpu"), "ivpu_ioctl [intel_vpu]"),
        (Frame("render", FrameKind.OTHER, "https://a.org/app.js", 8), "render (app.js:8)"),
        (Frame("lock", FrameKind.WAIT), "lock"),
    ],
)
def test_the_label_of_a_frame_has_its_name_and_place(frame, text):
    assert label(frame) == text
