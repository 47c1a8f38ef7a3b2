"""OpenVINO's inferences, layers, threads and compilation, compared with what OpenVINO reports itself."""

import re

import pytest

pytestmark = pytest.mark.component

PROFILED = """
compiled = ov.Core().compile_model(network(), "CPU", {"PERF_COUNT": True})
request = compiled.create_infer_request()
data = {0: random.random((1, 3, 64, 64), np.float32)}
with accel_magic.trace("openvino") as t:
    for _ in range(200):
        request.infer(data)
# Means over all inferences so far.
profiled = {one.node_name: (one.real_time.total_seconds(), str(one.status)) for one in request.profiling_info}
nodes = compiled.get_runtime_model().get_ordered_ops()
finish(t, profiled=profiled, names=[node.get_friendly_name() for node in nodes],
       types={node.get_friendly_name(): node.get_rt_info()["layerType"].astype(str) for node in nodes})
"""


@pytest.fixture(scope="module")
def profiled(traced):
    return traced(PROFILED)


def test_every_inference_is_a_request_of_its_model(profiled):
    requests = profiled.result.openvino.requests

    assert len(requests) == 200
    assert set(requests["device"]) == {"cpu"}
    assert requests["model"].nunique() == 1
    assert (requests["end_ns"] - requests["start_ns"] == requests["duration_ns"]).all()
    assert (requests["layers_ns"] + requests["outside_ns"] == requests["duration_ns"]).all()
    assert (requests["layers"] == requests["layers"].iloc[0]).all()
    assert requests["gap_ns"].isna().sum() == requests["tid"].nunique()
    assert (requests["gap_ns"].dropna() >= 0).all()


def test_the_layers_are_those_that_openvino_executed_as_often_as_it_did(profiled):
    layers = profiled.result.openvino.layers
    executed = {name for name, (_, status) in profiled.told["profiled"].items() if status.endswith(".EXECUTED")}

    assert executed
    assert executed <= set(layers.index)
    assert (layers.loc[sorted(executed), "executions"] == 200).all()
    assert set(layers.index) <= set(profiled.told["names"])


def test_layers_and_findings_lead_the_result_and_its_counts_fold(profiled):
    page, text = profiled.result._repr_mimebundle_()["text/html"], profiled.result.summary()
    leading, _, folded = page.partition('<details class="am-counted">')

    assert "rules checked" in leading
    assert "classify" in leading
    assert "Node::execute" not in leading
    assert "Node::execute" in folded
    assert text.index("classify") < text.index("Node::execute")


def test_the_share_of_each_layer_is_that_of_openvinos_own_profiling(traced):
    """Both measure the same executions, but not the same moments: the process may be interrupted between them."""
    rounds = traced(
        """
rounds = []
model = network()  # once, since the names of some nodes are numbers that differ between models
for _ in range(7):
    request = ov.Core().compile_model(model, "CPU", {"PERF_COUNT": True}).create_infer_request()
    data = {0: random.random((1, 3, 64, 64), np.float32)}
    with accel_magic.trace("openvino:layers") as t:
        for _ in range(40):
            request.infer(data)
    total = t.result.openvino.layers["total_ns"]
    theirs = {one.node_name: one.real_time.total_seconds() for one in request.profiling_info}
    ours, whole = total / total.sum(), sum(theirs.values())
    rounds.append({name: abs(ours[name] - theirs[name] / whole) for name in theirs if name in ours.index})
finish(t, rounds=rounds)
"""
    ).told["rounds"]
    names = set.union(*map(set, rounds))

    assert {"conv0", "conv1", "conv2"} <= names
    for name in names:
        best = sorted(differences[name] for differences in rounds if name in differences)[:2]
        assert len(best) == 2
        assert max(best) < 0.03, (name, rounds)


def test_types_and_primitives_are_those_of_the_runtime_model(profiled):
    layers = profiled.result.openvino.layers
    types = profiled.told["types"]

    convolutions = [name for name in layers.index if types[name] == "Convolution"]
    assert len(convolutions) == 4
    assert set(layers.loc[convolutions, "type"]) == {"Convolution"}
    assert set(layers.loc[convolutions, "primitive"]) == {"convolution"}
    reorders = {name for name in layers.index if types[name] == "Reorder"}
    assert set(layers.index[layers["reorder"]]) == reorders
    assert (layers["threads"] >= 1).all()


def test_conversions_are_told_from_all_other_kinds_of_nodes(traced):
    found = traced("""
value = given = op.parameter([1, 8, 32, 32], np.float32)
weights = op.constant(random.random((8, 8, 3, 3), np.float32))
value = op.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1])
value = op.softmax(op.transpose(value, [0, 2, 3, 1]), 3)
value = op.concat([op.sin(value), op.reverse_sequence(value, op.constant([32]), 0, 1)], 3)
value = op.gather(op.pad(value, [0, 1, 1, 0], [0, 1, 1, 0], "reflect"), op.constant([3, 1, 2]), op.constant(3))
value = op.topk(op.reduce_sum(op.cum_sum(value, op.constant(1)), [1]), op.constant(5), 1, "max", "value")
model = ov.Model([op.result(value.output(0))], [given], "many")
compiled = ov.Core().compile_model(model, "CPU")
request = compiled.create_infer_request()
data = {0: random.random((1, 8, 32, 32), np.float32)}
with accel_magic.trace("openvino") as t:
    for _ in range(5): request.infer(data)
nodes = compiled.get_runtime_model().get_ordered_ops()
finish(t, types={node.get_friendly_name(): node.get_rt_info()["layerType"].astype(str) for node in nodes})
""")
    layers = found.result.openvino.layers
    types = [found.told["types"][name] for name in layers.index]

    assert len(set(types)) > 8
    assert layers["reorder"].tolist() == [one == "Reorder" for one in types]


def test_shares_and_exact_sums_agree_with_the_events(profiled):
    openvino = profiled.result.openvino
    layers, requests = openvino.layers, openvino.requests

    assert profiled.result.lost == 0
    assert layers["total_ns"].sum() == requests["layers_ns"].sum()
    assert abs(layers["share"].sum() - requests["layers_ns"].sum() / requests["duration_ns"].sum()) < 1e-9
    assert layers["total_ns"].is_monotonic_decreasing


def test_threads_worked_no_longer_than_the_trace(profiled):
    threads = profiled.result.openvino.threads

    assert threads["inferences"].sum() == 200
    assert (threads["working_ns"] <= profiled.result.duration_s * 1e9).all()
    assert (threads["working_share"] <= 1).all()
    traced = any(point.function == "sys_enter_sched_yield" for point in profiled.result.plan.points)
    assert threads["yields"].notna().all() == traced  # needs root


def test_the_result_names_inferences_and_slowest_layers(profiled):
    text = str(profiled.result)

    slowest = profiled.result.openvino.layers.index[0]
    assert "200 inferences of " in text
    assert f"slowest layers: {slowest} " in text
    assert slowest in profiled.result.openvino._repr_html_()


def test_compiling_a_model_creates_its_primitives(traced):
    found = traced("""
with accel_magic.trace("openvino:compile") as t:
    request = ov.Core().compile_model(network(), "CPU").create_infer_request()
    request.infer({0: random.random((1, 3, 64, 64), np.float32)})
finish(t)
""")
    table = found.result.openvino.compile

    assert table.loc["convolution", "count"] >= 1
    assert (table["during_inferences"] == 0).all()
    assert table.loc[table["kind"] == "primitive", "total_ns"].is_monotonic_decreasing
    created = table.loc[table["kind"] == "primitive", "count"].sum()
    assert f"{created} oneDNN primitives created in " in str(found.result)


def test_asynchronous_requests_run_on_several_threads_and_are_all_seen(traced):
    found = traced("""
compiled = ov.Core().compile_model(network(), "CPU", {"PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": 2})
data = {0: random.random((1, 3, 64, 64), np.float32)}
queue = ov.AsyncInferQueue(compiled, 4)
done = []
queue.set_callback(lambda request, number: done.append(number))
with accel_magic.trace("openvino:layers") as t:
    for number in range(100):
        queue.start_async(data, number)
    queue.wait_all()
finish(t, done=len(done))
""")
    requests = found.result.openvino.requests

    assert len(requests) == found.told["done"] == 100
    assert 1 <= requests["tid"].nunique() <= 2
    assert (found.result.openvino.layers["executions"] == 100).all()


def test_layers_of_two_models_are_told_apart_by_their_inferences(traced):
    found = traced("""
core = ov.Core()
def product(width, name):
    given = op.parameter([1, width], np.float32)
    weights = op.constant(random.random((width, width), np.float32))
    return ov.Model([op.result(op.matmul(given, weights, False, False, name=name))], [given], name)
models = product(64, "one"), product(96, "two")
requests = [core.compile_model(model, "CPU").create_infer_request() for model in models]
with accel_magic.trace("openvino:layers") as t:
    for _ in range(10):
        requests[0].infer({0: np.ones((1, 64), np.float32)})
    for _ in range(30):
        requests[1].infer({0: np.ones((1, 96), np.float32)})
finish(t)
""")
    openvino = found.result.openvino

    assert sorted(openvino.requests["model"].value_counts()) == [10, 30]
    assert openvino.layers.loc["one", "executions"] == 10
    assert openvino.layers.loc["two", "executions"] == 30
    assert openvino.layers.loc["one", "model"] != openvino.layers.loc["two", "model"]


def test_a_trace_without_openvino_has_empty_tables():
    from accel_magic.api.tracing import trace

    with trace("openvino:layers") as t:
        pass
    openvino = t.result.openvino

    assert [len(table) for table in (openvino.requests, openvino.layers, openvino.threads, openvino.compile)] == [0] * 4
    assert "OpenVINO did nothing" in str(openvino)


def test_precision_layout_and_implementation_are_those_of_the_runtime_model(traced):
    found = traced("""
compiled = ov.Core().compile_model(network(), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
data = {0: random.random((1, 3, 64, 64), np.float32)}
with accel_magic.trace("openvino") as t:
    compiled(data)
keys = {"precision": "outputPrecisions", "layout": "outputLayouts", "implementation": "primitiveType"}
finish(t, **{column: {node.get_friendly_name(): node.get_rt_info()[key].astype(str)
                      for node in compiled.get_runtime_model().get_ordered_ops()} for column, key in keys.items()})
""")
    layers = found.result.openvino.layers

    assert len(layers) >= 5
    for column in ("precision", "layout", "implementation"):
        told = {name: text.partition(",")[0] for name, text in found.told[column].items()}
        assert layers[column].to_dict() == {name: told[name] for name in layers.index}
    assert "implementation" in repr(found.result.openvino)


def test_inferences_contain_their_layers_in_the_tree_of_calls(profiled):
    openvino = profiled.result.openvino
    calls = openvino.calls
    names = calls["name"].astype(str)

    assert set(calls["layer"].astype(str)) <= {"task", "ioctl", "driver", "fence"}
    inferences = calls[names.str.startswith("SyncInfer")]
    assert len(inferences) == 200
    callers = calls.set_index("id").loc[inferences["parent"]]
    assert set(callers["name"].astype(str).str.partition(" ")[0]) == {"openvino.infer"}
    assert (callers["parent"] == -1).all()
    layers = calls[names.isin(openvino.layers.index)]
    assert len(layers) == int(openvino.requests["layers"].sum())
    assert set(layers["root"]) == set(inferences["parent"])


def test_the_timeline_and_perfetto_show_inferences_layers_and_primitives(profiled, tmp_path):
    import json

    result = profiled.result
    plot = result.openvino.timeline()
    texts = json.dumps(plot.document.to_json() if plot.document else [str(plot)])
    assert texts
    entries = json.loads(result.to_perfetto(tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [entry for entry in entries if entry["ph"] == "X"]
    layer = result.openvino.layers.index[0]
    assert sum(entry["name"] == layer for entry in slices) == 200
    assert sum(entry["name"].startswith("SyncInfer") for entry in slices) == 200


def test_traces_are_compared_by_layer(traced):
    told = traced(
        """
def traced_network(width):
    value = given = op.parameter([1, 16, 64, 64], np.float32)
    for number, (channels, filters) in enumerate(((16, 16), (16, width), (width, 16))):
        weights = op.constant(random.random((filters, channels, 3, 3), np.float32))
        value = op.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1], name=f"conv{number}")
    compiled = ov.Core().compile_model(ov.Model([op.result(value)], [given], "m"), "CPU", {"INFERENCE_NUM_THREADS": 1})
    request, data = compiled.create_infer_request(), {0: random.random((1, 16, 64, 64), np.float32)}
    request.infer(data)
    with accel_magic.trace("openvino:layers") as t:
        for _ in range(60): request.infer(data)
    return t
baseline, t = traced_network(16), traced_network(256)
compared = t.result.compare(baseline.result)
row = compared.table.reset_index().set_index("function").loc["conv1"]
finish(t, row=[int(row.hits), int(row.baseline_hits), float(row.p50_ratio), bool(row.p50_significant)],
       line=compared.summary().splitlines()[0])
"""
    ).told
    hits, baseline_hits, ratio, significant = told["row"]
    assert (hits, baseline_hits, significant) == (60, 60, True)
    assert ratio > 2
    assert re.match(r"m: p50 of inferences [\d.]+ \ws -> [\d.]+ \ws \([\d.]+x\), p99 .*, rate .*", told["line"])


def test_two_compilations_of_a_model_are_compared_although_openvino_numbers_their_nodes(traced):
    told = traced(
        """
def traced_network(hint):
    value = given = op.parameter([1, 16, 32, 32], np.float32)
    for _ in range(3):  # without names: OpenVINO gives them some with a number
        weights = op.constant(random.random((16, 16, 3, 3), np.float32))
        value = op.softmax(op.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1]), 1)
    compiled = ov.Core().compile_model(ov.Model([op.result(value)], [given], "net"), "CPU", {"PERFORMANCE_HINT": hint})
    with accel_magic.trace("openvino:layers") as t:
        for _ in range(10): compiled(np.ones((1, 16, 32, 32), np.float32))
    return t
baseline, t = traced_network("LATENCY"), traced_network("THROUGHPUT")
compared = t.result.compare(baseline.result)
table = compared.table.reset_index().set_index("function")
names = [set(each.result.openvino.layers.index) for each in (baseline, t)]
finish(t, same=len(names[0] & names[1]), layers=len(names[1]), line=compared.lines[0],
       rows={name: [int(row.hits), int(row.baseline_hits)]
             for name, row in table.dropna(subset=["hits", "baseline_hits"]).iterrows()})
"""
    ).told
    assert told["same"] < told["layers"]
    assert told["rows"]["SyncInferenceCPU::infer::net"] == [10, 10]
    layers = ("Convolution", "Convolution #2", "Convolution #3", "Softmax", "Softmax #2", "Softmax #3")
    assert {name: told["rows"][name] for name in layers} == {name: [10, 10] for name in layers}
    assert told["line"].endswith("hint LATENCY -> THROUGHPUT")
