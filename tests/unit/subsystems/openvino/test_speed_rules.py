"""Findings about what layers need and what the machine offers: shown for a program with the problem, not without."""

import os
from dataclasses import replace

import pytest

from accel_magic.subsystems.openvino import processors
from accel_magic.subsystems.openvino.tables import OpenVinoTables

pytestmark = pytest.mark.component

ATTEMPTS = 3
"""A machine that is busy while its speed is measured looks slow, and its layers fast."""
FILTERS = """
value = given = op.parameter([1, {channels}, {length}], np.float32, name="signal")
kernel = op.constant(random.random(({channels}, {channels}, 64), np.float32))
value = op.convolution(value, kernel, [1], [32], [31], [1], name="filter")
compiled = ov.Core().compile_model(ov.Model([op.result(value)], [given], "m"), "CPU",
                                   {{"INFERENCE_PRECISION_HINT": "f32"}})
data = np.ones((1, {channels}, {length}), np.float32)
with accel_magic.trace("openvino:layers") as t:
    for _ in range(20): compiled([data])
finish(t)
"""


@pytest.mark.parametrize(("channels", "length", "shown"), [(1, 1 << 18, True), (64, 1 << 12, False)])
def test_a_layer_far_below_both_peaks_is_found(traced, channels, length, shown):
    """A filter over one channel takes about 100 times what it needs, one over 64 channels about twice."""
    for _ in range(ATTEMPTS):
        found = traced(FILTERS.format(channels=channels, length=length)).result.openvino
        if ("far-below-peak" in found.findings.ids) == shown:
            break

    assert "far-below-peak" in found.findings.checked
    assert ("far-below-peak" in found.findings.ids) == shown
    if shown:
        (finding,) = [one for one in found.findings if one.id == "far-below-peak"]
        machine, layer = found.recording.machine, found.layers.loc["filter"]
        computing = layer["flops"] / float(machine["f32_flops_per_s"])
        moving = layer["bytes"] / float(machine["memory_bytes_per_s"])
        assert finding.evidence["needed_ns"] == pytest.approx(max(computing, moving) * 1e9)
        assert finding.evidence["ratio"] == pytest.approx(layer["p10_ns"] / finding.evidence["needed_ns"])
        assert finding.title.startswith("filter (Convolution) takes ")


def test_a_model_with_some_of_the_threads_is_compared_with_some_of_the_speed(traced):
    found = traced(FILTERS.format(channels=64, length=1 << 12)).result
    models = found.openvino.models.assign(threads=1)
    machine = {**found.recording.machine, "cores": "4"}

    from accel_magic.subsystems.openvino.roofline import needed_ns

    few, all_of_them = (needed_ns(found.openvino.layers, models.assign(threads=number), machine) for number in (1, 4))
    twice = needed_ns(found.openvino.layers, models.assign(threads=4, streams=2), machine)
    assert (few["needed_ns"].dropna() == 4 * all_of_them["needed_ns"].dropna()).all()
    assert (twice["needed_ns"].dropna() == 2 * all_of_them["needed_ns"].dropna()).all()


@pytest.mark.parametrize(("bytes_per_s", "shown"), [("1e12", True), ("1e6", False)])
def test_a_reference_implementation_that_is_as_fast_as_memory_is_not_slow(traced, bytes_per_s, shown):
    """The speed of memory is given; a padding is only implemented as a plain loop."""
    result = traced("""
given = op.parameter([1, 8, 256, 256], np.float32, name="x")
value = op.relu(op.pad(given, [0, 0, 3, 3], [0, 0, 3, 3], "reflect", name="pad"))
compiled = ov.Core().compile_model(ov.Model([op.result(value)], [given], "m"), "CPU")
with accel_magic.trace("openvino:layers") as t:
    for _ in range(10): compiled(np.ones((1, 8, 256, 256), np.float32))
finish(t)
""").result
    machine = {**result.recording.machine, "memory_bytes_per_s": bytes_per_s}
    tables = OpenVinoTables(replace(result.recording, machine=machine), result.events)

    assert tables.layers.loc["pad", "implementation"].startswith("ref")
    assert ("slow-implementation" in tables.findings.ids) == shown


HEAVY = """
def rounded(value, low, high, levels):
    low, high = np.float32(low), np.float32(high)
    return op.fake_quantize(value, low, high, low, high, levels) if {quantized} else value
value = given = op.parameter([1, 64, 48, 48], np.float32, name="x")
for _ in range(4):
    kernel = rounded(op.constant(random.random((64, 64, 3, 3), np.float32)), -1, 1, 255)
    value = op.relu(op.convolution(rounded(value, 0, 2.55, 256), kernel, [1, 1], [1, 1], [1, 1], [1, 1]))
compiled = ov.Core().compile_model(ov.Model([op.result(value)], [given], "m"), "CPU", {settings})
data = np.ones((1, 64, 48, 48), np.float32)
with accel_magic.trace("openvino:layers") as t:
    for _ in range(10): compiled([data])
finish(t)
"""


def with_units(result, units):
    """The tables as if the processor had these units: they are given, since this one may lack them."""
    machine = {**result.recording.machine, "low_precision_units": units}
    return OpenVinoTables(replace(result.recording, machine=machine), result.events)


@pytest.mark.parametrize(
    ("units", "advice"),
    [("none", ""), ("avx512_vnni", "nncf.quantize"), ("amx_bf16 amx_int8", "bf16"), ("avx512_bf16", "bf16")],
)
def test_computing_in_f32_beside_faster_units_is_found(traced, units, advice):
    """The units are given. The layers and their speed are real."""
    result = traced(HEAVY.format(quantized=False, settings={})).result
    shown = units != "none" and (result.openvino.layers["precision"] == "f32").all()  # a processor with bf16 uses it
    found = with_units(result, units).findings

    assert "single-precision" in found.checked
    assert ("single-precision" in found.ids) == shown
    if shown:
        assert advice in next(one for one in found if one.id == "single-precision").advice


@pytest.mark.parametrize(("quantized", "settings"), [(True, {}), (False, {"INFERENCE_PRECISION_HINT": "f32"})])
def test_integers_and_requested_precisions_are_not_reported(traced, quantized, settings):
    result = traced(HEAVY.format(quantized=quantized, settings=settings)).result
    found = with_units(result, "amx_bf16 amx_int8").findings

    assert "single-precision" in found.checked
    assert "single-precision" not in found.ids


@pytest.mark.skipif(processors.cores() < 2, reason="needs two cores")
@pytest.mark.parametrize(("threads", "together", "shown"), [(1, False, True), (None, False, False), (1, True, False)])
def test_a_model_with_fewer_threads_than_cores_is_found_if_it_runs_alone(traced, threads, together, shown):
    settings = {} if threads is None else {"INFERENCE_NUM_THREADS": threads}
    script = f"""
import threading
value = given = op.parameter([1, 32, 96, 96], np.float32)
for _ in range(3):
    kernel = op.constant(random.random((32, 32, 3, 3), np.float32))
    value = op.convolution(value, kernel, [1, 1], [1, 1], [1, 1], [1, 1])
model, data = ov.Model([op.result(value)], [given], "m"), np.ones((1, 32, 96, 96), np.float32)
requests = [ov.Core().compile_model(model, "CPU", {settings}).create_infer_request() for _ in range(2)]
def work(request):
    for _ in range(20): request.infer([data])
with accel_magic.trace("openvino:layers") as t:
    threads = [threading.Thread(target=work, args=[one]) for one in requests[: 2 if {together} else 1]]
    [one.start() for one in threads]; [one.join() for one in threads]
finish(t)
"""
    for _ in range(3):  # on a busy machine, what is between the inferences may take most of the time
        found = traced(script).result.openvino
        assert "fewer-threads" in found.findings.checked
        if ("fewer-threads" in found.findings.ids) == shown:
            break
    assert ("fewer-threads" in found.findings.ids) == shown


BATCH = """
value = given = op.parameter([{batch}, 64], np.float32, name="x")
for _ in range(3):
    value = op.relu(op.matmul(value, op.constant(random.random((64, 64), np.float32)), False, False))
compiled = ov.Core().compile_model(ov.Model([op.result(value)], [given], "m"), "CPU")
items = [random.random((1, 64), np.float32) for _ in range(64)]
compiled(items[0])
with accel_magic.trace("openvino:layers") as t:
    {work}
finish(t)
"""
ONE_EACH = "for item in items: compiled(item)"


@pytest.mark.parametrize(
    ("batch", "work", "shown"),
    [
        (-1, ONE_EACH, True),
        (-1, "for at in range(64): compiled(np.concatenate([items[at], items[at - 1]]))", False),
        (1, ONE_EACH, False),
        (-1, "import time\n    for item in items: compiled(item); time.sleep(0.02)", False),
    ],
)
def test_a_loop_over_single_items_of_a_model_that_takes_several_is_found(traced, batch, work, shown):
    found = traced(BATCH.format(batch=batch, work=work)).result.openvino.findings

    assert "batch-of-one" in found.checked
    assert ("batch-of-one" in found.ids) == shown


def test_a_model_whose_layers_use_the_processors_is_not_said_to_need_batches(traced):
    found = traced(
        """
value = given = op.parameter([-1, 64, 48, 48], np.float32, name="x")
for _ in range(3):
    kernel = op.constant(random.random((64, 64, 3, 3), np.float32))
    value = op.convolution(value, kernel, [1, 1], [1, 1], [1, 1], [1, 1])
compiled = ov.Core().compile_model(ov.Model([op.result(value)], [given], "m"), "CPU")
with accel_magic.trace("openvino:layers") as t:
    for _ in range(30): compiled(np.ones((1, 64, 48, 48), np.float32))
finish(t)
"""
    ).result.openvino.findings

    assert "batch-of-one" in found.checked
    assert "batch-of-one" not in found.ids


def test_rules_without_shapes_work_or_cores_say_what_is_missing(traced):
    result = traced(FILTERS.format(channels=1, length=4096).replace('"openvino:layers"', '"openvino:requests"')).result
    machine = {name: value for name, value in result.recording.machine.items() if name != "cores"}
    without = OpenVinoTables(replace(result.recording, machine=machine), result.events)

    assert without.findings.unchecked["far-below-peak"] == "layers"
    assert without.findings.unchecked["single-precision"] == "layers"
    assert without.findings.unchecked["fewer-threads"] == "layers"
    layers = traced(FILTERS.format(channels=1, length=4096)).result
    machine = {name: value for name, value in layers.recording.machine.items() if name != "cores"}
    without = OpenVinoTables(replace(layers.recording, machine=machine), layers.events)
    assert without.findings.unchecked["fewer-threads"] == "cores of the processor"
    assert without.findings.unchecked["far-below-peak"].startswith("how fast the machine computes")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function that makes `/proc` and `/sys` of processors: (socket, core) of each."""

    def made(places, *, fast="", quota="max 100000", flags="fpu sse2"):
        for number, (package, core) in enumerate(places):
            folder = tmp_path / f"sys/devices/system/cpu/cpu{number}/topology"
            folder.mkdir(parents=True)
            (folder / "physical_package_id").write_text(f"{package}\n")
            (folder / "core_id").write_text(f"{core}\n")
        if fast:
            (tmp_path / "sys/devices/cpu_core").mkdir()
            (tmp_path / "sys/devices/cpu_core/cpus").write_text(fast)
        (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
        (tmp_path / "sys/fs/cgroup/cpu.max").write_text(f"{quota}\n")
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(len(places))))
        return tmp_path

    return made


@pytest.mark.parametrize(
    ("places", "options", "cores"),
    [
        ([(0, 0), (0, 1), (0, 2)], {}, 3),
        ([(0, 0), (0, 0), (0, 1), (0, 1)], {}, 2),  # two threads on each core
        ([(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)], {}, 3),  # two sockets
        ([(0, 0), (0, 0), (0, 4), (0, 4), (0, 8), (0, 9), (0, 10)], {"fast": "0-3\n"}, 2),  # efficient cores
        ([(0, 0), (0, 1), (0, 2), (0, 3)], {"quota": "150000 100000"}, 2),  # a container with 1.5 CPUs
    ],
)
def test_cores_are_those_that_openvino_uses_for_one_inference(machine, places, options, cores):
    assert processors.cores(machine(places, **options)) == cores


def test_cores_are_unknown_without_topology_and_units_without_flags(tmp_path):
    assert processors.cores(tmp_path) == 0
    assert processors.units(tmp_path) == "none"


def test_units_are_the_flags_of_the_processor(machine):
    assert processors.units(machine([(0, 0)], flags="fpu avx512_vnni avx2 amx_bf16")) == "amx_bf16 avx512_vnni"
