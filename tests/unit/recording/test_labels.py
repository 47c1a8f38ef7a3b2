"""Labels of frames."""

import pytest

from accel_magic.kernel.stacks.frames import Frame, Kind
from accel_magic.recording.profile import label


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (Frame("forward", Kind.PYTHON, "/home/u/model.py", 123), "forward (model.py:123)"),
        (Frame("forward", Kind.PYTHON, "cell [12]", 3), "forward (cell [12]:3)"),
        (Frame("len", Kind.PYTHON, "/x/a.py"), "len (a.py)"),
        (Frame("len", Kind.PYTHON), "len"),
        (Frame("gemm", Kind.NATIVE, "/usr/lib/libblas.so"), "gemm"),
        (Frame("libfoo.so+0x1234", Kind.NATIVE, "/usr/lib/libfoo.so"), "libfoo.so+0x1234"),
        (Frame("", Kind.NATIVE, "/usr/lib/libblas.so"), "[libblas.so]"),
        (Frame("", Kind.GPU_SOURCE), "[unknown]"),
        (Frame("futex_wait_queue", Kind.KERNEL), "futex_wait_queue"),
        (Frame("ivpu_ioctl", Kind.KERNEL, "intel_vpu"), "ivpu_ioctl [intel_vpu]"),
        (Frame("render", Kind.OTHER, "https://a.org/app.js", 8), "render (app.js:8)"),
        (Frame("lock", Kind.WAIT), "lock"),
    ],
)
def test_the_label_of_a_frame_has_its_name_and_place(frame, text):
    assert label(frame) == text
