"""Colors of frames: one for every kind, distinguishable with every kind of color vision."""

from itertools import combinations

import numpy as np
import pytest

from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.views.flame.colors import CATEGORIES, INK, MODULE_COLORS, NO_MODULE, OTHER, category, module_of

# Linear RGB as seen by a viewer; color blindness after Machado, Oliveira and Fernandes 2009, severity 1.
SIGHT = {
    "normal": np.eye(3),
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.119192, 0.9503041]])


def linear(color):
    values = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(light):
    scaled = XYZ @ np.clip(light, 0, 1) / [0.95047, 1, 1.08883]
    x, y, z = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
def test_kinds_can_be_distinguished_with_every_kind_of_color_vision(sight):
    seen = {color: lab(np.array(SIGHT[sight]) @ linear(color)) for name, color in CATEGORIES if name != OTHER.name}

    assert len(seen) == len(CATEGORIES) - 1
    assert min(np.linalg.norm(seen[a] - seen[b]) for a, b in combinations(seen, 2)) >= 14


@pytest.mark.parametrize("color", sorted({*(color for _, color in CATEGORIES), *MODULE_COLORS}))
def test_text_is_readable_on_every_color(color):
    bright, dark = (XYZ[1] @ linear(each) + 0.05 for each in (color, INK))

    assert bright / dark >= 4.5


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        (Frame("f", FrameKind.PYTHON, "a.py", 1), "Python"),
        (Frame("gemm", FrameKind.NATIVE), "native"),
        (Frame("ns::gemm()", FrameKind.NATIVE), "C++"),
        (Frame("ns::gemm()", FrameKind.OTHER), "C++"),
        (Frame("anything"), "other"),
        (Frame("a::b", FrameKind.PYTHON), "Python"),
        (Frame("vfs_read", FrameKind.KERNEL), "kernel"),
        (Frame("dpas", FrameKind.GPU_INSTRUCTION), "accelerator instruction"),
        (Frame("gemm.cpp", FrameKind.GPU_SOURCE), "accelerator source"),
        (Frame("sbid", FrameKind.STALL), "stall reason"),
        (Frame("lock", FrameKind.WAIT), "wait"),
        (Frame("ivpu_ioctl", FrameKind.DRIVER), "traced call or task"),
        (Frame("Convolution_3", FrameKind.TASK), "traced call or task"),
    ],
)
def test_a_frame_is_colored_by_its_kind(frame, name):
    assert CATEGORIES[category(frame)].name == name


def test_every_kind_has_a_color():
    assert all(0 <= category(Frame("f", kind)) < len(CATEGORIES) for kind in FrameKind)


@pytest.mark.parametrize(
    ("module", "kind", "group"),
    [
        ("/usr/lib/python3.13/site-packages/torch/nn/modules/linear.py", FrameKind.PYTHON, "torch"),
        ("/usr/lib/python3/dist-packages/six.py", FrameKind.PYTHON, "six"),
        ("/usr/lib/python3.13/json/decoder.py", FrameKind.PYTHON, "json"),
        ("/usr/lib/python3.13/threading.py", FrameKind.PYTHON, "threading"),
        ("/home/me/model.py", FrameKind.PYTHON, "model"),
        ("/usr/lib/libopenvino.so.2520", FrameKind.NATIVE, "libopenvino"),
        ("/x/_json.cpython-313-x86_64-linux-gnu.so", FrameKind.NATIVE, "_json"),
        ("", FrameKind.KERNEL, "kernel"),
        ("intel_vpu", FrameKind.KERNEL, "intel_vpu"),
        ("", FrameKind.WAIT, NO_MODULE),
    ],
)
def test_modules_are_packages_libraries_and_the_kernel(module, kind, group):
    assert module_of(Frame("f", kind, module)) == group
