"""The data in a flame graph's page: narrow columns, every text once, exact weights."""

import json

import numpy as np
import pytest

from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import ProfileBuilder, label
from accel_magic.views.flame.flame_layout import tree
from accel_magic.views.flame.page_data import ALONE, KINDS, LINE, narrow, packed, page_data

FRAMES = (
    Frame("Model.forward", FrameKind.PYTHON, "/home/me/model.py", 12),
    Frame("Model.forward", FrameKind.PYTHON, "/home/me/model.py", 15),
    Frame("ns::gemm<float>", FrameKind.NATIVE, "/usr/lib/libwork.so.1"),
    Frame("", FrameKind.NATIVE, "/usr/lib/libwork.so.1"),
    Frame("ivpu_ioctl", FrameKind.KERNEL, "intel_vpu"),
    Frame("a:7)", FrameKind.PYTHON, "b:7).py", 7),
)


def data_of(*frames):
    builder = ProfileBuilder()
    builder.add(builder.stack([builder.frame(*frame) for frame in frames]), 1)
    return page_data(tree(builder.build()))


def texts_of(data):
    return json.loads(bytes(data["texts"]))


def labels(data, *, lines=True):
    """Labels, assembled as in tree.js."""
    columns, texts = data["frames"], texts_of(data)
    for name, tail, line in zip(columns["name"], columns["tail"], columns["line"], strict=True):
        text = texts["tails"][tail]
        if text.startswith(ALONE):
            yield text[1:]
        elif lines:
            yield texts["names"][name] + text.replace(LINE, str(line), 1)
        else:
            yield texts["names"][name] + text.replace(f":{LINE}", "", 1)


def test_labels_are_the_same_as_elsewhere():
    found = dict(zip(labels(data_of(*FRAMES)), ("all", *FRAMES), strict=True))

    assert [label(frame) for frame in FRAMES] == list(found)[1:]
    assert "ivpu_ioctl [intel_vpu]" in found
    assert "[libwork.so.1]" in found


def test_without_lines_a_label_names_the_function():
    assert list(labels(data_of(*FRAMES), lines=False))[1:3] == ["Model.forward (model.py)"] * 2


def test_frames_that_differ_only_in_line_are_one_function():
    functions = data_of(*FRAMES)["frames"]["function"].tolist()

    assert functions[1] == functions[2]
    assert len(set(functions)) == len(FRAMES)  # and all


def test_every_text_is_stored_once():
    texts = texts_of(data_of(*FRAMES))

    assert list(texts) == ["names", "tails", "files", "groups"]
    assert [len(set(each)) for each in texts.values()] == [len(each) for each in texts.values()]


def test_every_kind_of_frame_has_a_name():
    assert list(KINDS) == list(FrameKind)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], "uint8"),
        ([0, 255], "uint8"),
        ([256], "uint16"),
        ([-1, 127], "int8"),
        ([-1, 128], "int16"),
        ([65536], "int32"),
    ],
)
def test_columns_are_as_narrow_as_their_values(values, kind):
    column = np.array(values, np.int64)

    assert narrow(column).dtype == kind
    assert narrow(column).tolist() == values


@pytest.mark.parametrize("weights", [[], [3], [7, 7, 9, 7, 7], list(range(10)), [2**53 - 1] * 4, [1 << 40, 5] * 3])
def test_weights_are_exact(weights):
    found = packed(np.array(weights, np.int64))
    values, codes = found["values"], found["codes"]

    assert [int(value) for value in (values if codes is None else values[codes])] == weights


def test_entries_store_differences_of_nodes():
    builder = ProfileBuilder()
    a, b = builder.frame("a"), builder.frame("b")
    builder.add(builder.stack([a]), 5)
    builder.add(builder.stack([a, b]), 2)
    builder.add(builder.stack([b]), 1)
    data = page_data(tree(builder.build()))

    assert np.cumsum(data["entries"]["node"]).tolist() == [1, 2, 3]
    assert data["baseline"] is None
    assert data["timed"] is None
