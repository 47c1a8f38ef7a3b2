"""Models that packages ship, compared with the program's own clock and OpenVINO's profiling.

`make test-models` installs the packages; without them, these tests are skipped.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.support import openvino

COUNTED = """
import time
class Counter:
    \"\"\"Counts and times calls of `InferRequest.infer`, by the path of the model; made before the trace.\"\"\"
    def __init__(self):
        self.took, original = [], ov.InferRequest.infer
        def infer(*arguments, **options):
            began = time.perf_counter_ns()
            try:
                return original(*arguments, **options)
            finally:
                self.took.append(time.perf_counter_ns() - began)
        ov.InferRequest.infer = infer
"""
PROFILED = """
core, rounds = ov.Core(), []
model = core.read_model(sys.argv[2])
for _ in range({rounds}):
    compiled = core.compile_model(model, "CPU", {{"PERF_COUNT": True}})
    request = compiled.create_infer_request()
    data = {{name: np.full(shape, 0.5).astype(kind) for name, (shape, kind) in {inputs}.items()}}
    took = []
    with accel_magic.trace("openvino:layers", "openvino:primitives") as t:
        for _ in range({times}):
            began = time.perf_counter_ns()
            request.infer(data)
            took.append(time.perf_counter_ns() - began)
    spent = {{one.node_name: one.real_time.total_seconds() * 1e9 for one in request.profiling_info
             if str(one.status).endswith(".EXECUTED")}}
    layers = t.result.openvino.layers
    outer = layers[layers["parent"] == ""]
    whole = sum(spent.values())
    shares = {{name: abs(row.total_ns / outer["total_ns"].sum() - spent.get(name, 0) / whole)
              for name, row in outer.iterrows()}}
    requests = t.result.openvino.requests
    rounds.append({{"inferences": len(requests), "worst": max(shares.values()), "took": took,
                   "call": float(requests["call_ns"].median()), "outside": int(requests["outside_ns"].min()),
                   "missing": sorted(set(spent) - set(outer.index)), "sum": float(layers["share"].sum()),
                   "names": requests["model"].unique().tolist()}})
finish(t, rounds=rounds)
"""
MODELS = {
    "silero-vad": (
        "silero_vad",
        "data/silero_vad_openvino_16k.onnx",
        {"input": ([1, 576], "f4"), "state": ([2, 1, 128], "f4")},
    ),
    "magika": ("magika", "models/*/model.onnx", {"bytes": ([1, 2048], "i4")}),
    "text direction": ("rapidocr", "models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", {"x": ([1, 3, 48, 192], "f4")}),
    "text detection": ("rapidocr", "models/*_det_small.onnx", {"x": ([1, 3, 320, 480], "f4")}),
    "text recognition": ("rapidocr", "models/*_rec_small.onnx", {"x": ([1, 3, 48, 320], "f4")}),
}


def shipped(package, pattern):
    """The file of a model in an installed package; skips the test without it."""
    spec = find_spec(package)
    if spec is None:
        pytest.skip(f"{package} is not installed: make test-models")
    (found,) = sorted(Path(spec.origin).parent.glob(pattern))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_layers_take_what_openvinos_profiling_says_and_calls_what_the_program_measures(tmp_path, name):
    package, pattern, inputs = MODELS[name]
    file = shipped(package, pattern)
    script = "import time\n" + PROFILED.format(rounds=5, inputs=inputs, times=20)
    rounds = openvino.run(tmp_path, script, more=[file]).told["rounds"]

    for one in rounds:
        assert one["inferences"] == len(one["took"]) == 20
        assert one["missing"] == []
        assert one["outside"] >= 0
        assert 0.3 < one["sum"] <= 1
    assert {len(one["names"]) for one in rounds} == {1}
    # The best of some rounds: other processes may interrupt the process between two clocks.
    assert min(one["worst"] for one in rounds) < 0.02
    ratios = [one["call"] / np.median(one["took"]) for one in rounds]
    assert min(abs(ratio - 1) for ratio in ratios) < 0.03


PAGE = """
import logging
from PIL import Image, ImageDraw, ImageFont
from rapidocr import EngineType, RapidOCR
picture = Image.new("RGB", (700, 300), "white")
draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size=28)
for number in range(5):
    draw.text((30, 20 + 50 * number), f"Line {number}: a page of text {37 * number}", fill="black", font=font)
logging.disable(logging.WARNING)
counter = Counter()
engine = RapidOCR(params={f"{part}.engine_type": EngineType.OPENVINO for part in ("Det", "Cls", "Rec")})
page = np.array(picture)
texts = engine(page).txts
counter.took.clear()
with accel_magic.trace("openvino") as t:
    for _ in range(2): engine(page)
finish(t, texts=texts, took=counter.took)
"""


def test_a_page_is_read_by_three_models_and_each_is_named_and_counted(tmp_path):
    shipped("rapidocr", "__init__.py")
    found = openvino.run(tmp_path, COUNTED + PAGE)
    tables = found.result.openvino

    assert any("page of text" in text for text in found.told["texts"])
    assert len(tables.requests) == len(found.told["took"]) == tables.models["inferences"].sum()
    names = sorted(tables.models.index)
    assert len(names) == 3
    assert [Path(file).stem for file in tables.models.loc[names, "file"]] == names
    assert [name.count("_det_") + name.count("_rec_") + name.count("_cls_") for name in names] == [1, 1, 1]
    assert tables.layers["share"].sum() <= 1
    assert (tables.layers["model"] != "").all()
    assert tables.requests["call_ns"].sum() == pytest.approx(sum(found.told["took"]), rel=0.03)
    wrong = {"small-layers", "stream-wait", "reorders", "slow-implementation", "compiled-again", "workers-spin"}
    assert not wrong & set(found.result.diagnose().ids)


QUANTIZED = """
import nncf
value = given = op.parameter([1, 3, 64, 64], np.float32, name="picture")
for number, (before, after) in enumerate(((3, 32), (32, 64), (64, 64))):
    weights = op.constant((random.standard_normal((after, before, 3, 3)) / before).astype(np.float32))
    value = op.relu(op.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1], name=f"conv{number}"))
network = ov.Model([op.result(op.reduce_mean(value, [2, 3], True))], [given], "network")
pictures = [random.random((1, 3, 64, 64), np.float32) for _ in range(8)]
ov.save_model(nncf.quantize(network, nncf.Dataset(pictures), subset_size=8), sys.argv[2])
with accel_magic.trace("openvino:layers") as t: pass
finish(t)
"""


def test_an_int8_network_computes_in_int8_and_its_conversions_are_named(tmp_path):
    pytest.importorskip("nncf", reason="nncf is not installed: make test-models")
    file = tmp_path / "network.xml"
    openvino.run(tmp_path, QUANTIZED, more=[file])
    script = "import time\n" + PROFILED.format(rounds=5, inputs={"picture": ([1, 3, 64, 64], "f4")}, times=20)
    found = openvino.run(tmp_path, script, more=[file])
    layers = found.result.openvino.layers

    products = layers.loc[["conv0", "conv1", "conv2"]]
    assert set(products["precision"]) <= {"u8", "i8"}
    assert products["implementation"].str.contains("I8|amx|vnni", case=False, regex=True).all()
    assert layers["reorder"].any()
    assert not layers.loc[layers["reorder"], "type"].isin(["Convolution", "Reduce"]).any()
    assert min(one["worst"] for one in found.told["rounds"]) < 0.02
    assert all(one["missing"] == [] for one in found.told["rounds"])
