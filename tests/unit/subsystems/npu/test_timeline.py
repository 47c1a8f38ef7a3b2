"""The NPU timeline, read back from its columns and models."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from bokeh.embed import json_item
from bokeh.models import BoxSelectTool, ColumnDataSource, CustomJS, HoverTool, RangeTool, WheelZoomTool

from accel_magic.analysis.nesting import lanes
from accel_magic.errors import ResultError
from accel_magic.results.trace_result import TraceResult
from accel_magic.subsystems.npu import timeline_rows
from accel_magic.subsystems.npu.families import LAYERS
from accel_magic.subsystems.npu.layers import COLUMNS
from accel_magic.subsystems.npu.timeline import COLORS, LAYER_NAMES, timeline
from accel_magic.subsystems.npu.timeline_rows import DEVICE, drawing

LAB = {"kernel": "7.2", "emulated": "Intel NPU"}


class MadeTrace:
    """Steps and jobs as returned by the analyses, and the trace they belong to."""

    def __init__(self, recording):
        self.recording = recording
        self.trace = self
        self.timed = True
        self.rows = []
        self.jobs = pd.DataFrame()

    def step(self, layer, name, start, duration=np.nan, *, parent=-1, inside=None, tid=11, pid=10, comm="load", job=-1):
        number = len(self.rows)
        root = self.rows[parent]["root"] if parent >= 0 else number if layer in ("API", "ioctl") else -1
        self.rows.append(
            {
                "id": number, "parent": parent, "inside": parent if inside is None else inside, "root": root,
                "layer": layer, "name": name, "start_ns": start, "duration_ns": duration, "calls": 1, "pid": pid,
                "tid": tid, "comm": comm, "job": job, "bo": pd.NA, "row": number,
            }
        )  # fmt: skip
        return number

    @property
    def calls(self):
        frame = pd.DataFrame(self.rows, columns=list(COLUMNS))
        return frame.astype({"layer": pd.CategoricalDtype(list(LAYERS)), "name": "category", "comm": "category"})

    def job(self, **known):
        times = dict.fromkeys(("submitted_ns", "queued_ns", "doorbell_ns", "done_ns", "latency_ns", "wait_ns"), pd.NA)
        who = {"pid": 10, "tid": 11, "comm": "load", "status": "ok"}
        self.jobs = pd.concat([self.jobs, pd.DataFrame([times | who | known], dtype=object)], ignore_index=True)

    def a_job(self, number, at, tid=11):
        """A job of 1 us on the NPU, submitted 100 ns earlier, with a wait for it."""
        call = self.step("API", "zeExecute", at - 200, 300, tid=tid, job=number)
        ioctl = self.step("ioctl", "ivpu_submit_ioctl", at - 100, 150, parent=call, tid=tid, job=number)
        rung = self.step("driver", "ivpu_hw_ip_db_set", at, parent=ioctl, tid=tid, job=number)
        wait = self.step("ioctl", "ivpu_bo_wait_ioctl", at + 200, 1000, tid=tid, job=number)
        irq = self.step("interrupt", "ivpu_hw_irq_handler", at + 900, 50, tid=-1, pid=-1, comm="interrupt", job=number)
        handled = self.step("interrupt", "ivpu_job_done_callback", at + 990, 30, parent=rung, inside=-1, tid=90, pid=90)
        self.rows[handled]["job"] = number
        done = self.step("fence", "dma_fence_signaled", at + 1000, parent=handled, tid=90, pid=90, job=number)
        self.step("fence", "dma_fence_wait_end", at + 1100, parent=done, inside=wait, tid=tid, job=number)
        self.job(submitted_ns=at - 100, queued_ns=at - 90, doorbell_ns=at, done_ns=at + 1000, latency_ns=1100, tid=tid)
        return irq


@pytest.fixture
def trace(make_recording):
    return MadeTrace(make_recording(machine=LAB))


def drawn(trace, **options):
    return drawing(trace.calls, trace.jobs, **options)


def bars(drawing, layer):
    code = DEVICE if layer == "NPU" else LAYERS.index(layer)
    return drawing.bars[drawing.bars["layer"] == code]


def of_kind(layout, kind):
    return list(layout.select({"type": kind}))


def source_of(layout):
    return next(s for s in of_kind(layout, ColumnDataSource) if "chain" in s.data)


def test_each_layer_has_a_row_with_its_steps(trace):
    trace.a_job(0, 1000)
    found = drawn(trace)

    assert [row.label for row in found.rows] == [
        "API", "ioctl", "driver", "interrupt", "fence", "jobs on the NPU",
    ]  # fmt: skip
    for row in found.rows:
        lane = found.bars[found.bars["layer"] == row.layer]["lane"]
        assert len(lane)
        assert lane.between(row.first, row.first + row.lanes - 1).all()
    assert [row.first for row in found.rows] == np.cumsum([0, *[row.lanes for row in found.rows]])[:-1].tolist()


def test_times_are_milliseconds_and_instants_have_no_width(trace):
    trace.step("ioctl", "ivpu_get_param_ioctl", 2_000_000, 500_000)
    trace.step("driver", "ivpu_rpm_get", 2_250_000, parent=0)
    found = drawn(trace)

    assert found.bars[["left", "right"]].to_numpy().tolist() == [[2, 2.5], [2.25, 2.25]]
    assert (found.start_ns, found.end_ns) == (2_000_000, 2_500_000)


def test_nested_calls_and_threads_are_below_each_other(trace):
    outer = trace.step("driver", "a", 0, 100)
    inner = trace.step("driver", "b", 10, 50, parent=outer)
    trace.step("IPC", "c", 20, 10, parent=inner)
    trace.step("driver", "d", 22, 1, parent=2)  # inside a message inside a driver's function
    trace.step("driver", "e", 0, 100, tid=12)
    trace.step("ioctl", "f", 0, 1)  # gives the process its own rows
    found = drawn(trace)

    lane = dict(zip((found.names[code] for code in found.bars["name"]), found.bars["lane"], strict=True))
    assert lane["b"] == lane["a"] + 1
    assert lane["d"] == lane["b"] + 1
    assert lane["e"] == lane["d"] + 1
    assert lane["c"] > lane["e"]


def test_several_processes_and_kernel_threads_have_their_own_rows(trace):
    trace.step("ioctl", "x", 100, 10, pid=20, tid=21, comm="b")
    trace.step("ioctl", "x", 200, 10, pid=10, tid=11, comm="a")
    trace.step("driver", "y", 300, 10, pid=5, tid=5, comm="kworker")

    assert [row.label for row in drawn(trace).rows] == ["ioctl, b 20", "ioctl, a 10", "driver, kernel threads"]


def test_the_tasks_of_each_thread_have_a_row_and_those_of_each_domain_a_color(trace):
    domains = {"infer": "ov::phases", "conv": "ov::op", "relu": "ov::op", "for": "tbb"}
    infer = trace.step("task", "infer", 0, 100)
    conv = trace.step("task", "conv", 10, 50, parent=infer)
    trace.step("task", "relu", 20, 10, parent=conv)
    trace.step("task", "for", 0, 100, tid=12)
    found = drawn(trace, domains=domains)

    assert [row.label for row in found.rows] == ["task, thread 11", "task, thread 12"]
    assert [row.lanes for row in found.rows] == [3, 1]
    kinds = {
        found.names[name]: found.kinds[kind] for name, kind in zip(found.bars["name"], found.bars["kind"], strict=True)
    }
    assert kinds == {"infer": "task, ov::phases", "conv": "task, ov::op", "relu": "task, ov::op", "for": "task, tbb"}
    assert set(drawn(trace).bars["kind"]) == {LAYERS.index("task")}  # nothing to tell apart


def test_more_domains_than_colors_share_the_last_one(trace):
    for number in range(10):
        for at in range(20 - number):
            trace.step("task", f"t{number}", 100 * at + number, 1)
    found = drawn(trace, domains={f"t{number}": f"d{number}" for number in range(10)})

    assert found.kinds[-8:] == [*(f"task, d{number}" for number in range(7)), "other tasks"]
    others = found.bars[found.bars["kind"] == len(found.kinds) - 1]
    assert {found.names[name] for name in others["name"]} == {"t7", "t8", "t9"}


def test_with_many_processes_the_later_ones_share_rows(trace):
    for number in range(timeline_rows.PROCESSES + 3):
        trace.step("ioctl", "x", number, 10, pid=100 + number, tid=100 + number, comm="p")
    labels = [row.label for row in drawn(trace).rows]

    assert len(labels) == timeline_rows.PROCESSES + 1
    assert labels[-1] == "ioctl, 3 other processes"


def test_the_chain_of_causes_is_in_order_and_cut_in_the_middle(trace):
    for number in range(10):
        trace.step("driver", f"f{number}", number, 100 - number, parent=number - 1)
    found = drawn(trace)

    chains = [found.chains[code] for code in found.bars["chain"]]
    assert chains[:3] == ["", "f0", "f0 > f1"]
    assert chains[9] == "f0 > f1 > f2 > … > f5 > f6 > f7 > f8"


def test_a_jobs_bar_is_its_time_on_the_npu_and_names_the_submitting_thread(trace):
    trace.a_job(0, 1000)
    [bar] = bars(drawn(trace), "NPU").to_dict("records")

    assert (bar["left"], bar["right"], bar["job"]) == (0.001, 0.002, 0)
    found = drawn(trace)
    assert found.who[bar["who"]] == "load 10, thread 11"
    assert found.chains[bar["chain"]] == "zeExecute > ivpu_submit_ioctl"


def test_concurrent_jobs_are_below_each_other(trace):
    for number, at in enumerate((1000, 1500, 2500)):
        trace.a_job(number, at)
    on_npu = bars(drawn(trace), "NPU")

    assert (on_npu["lane"] - on_npu["lane"].min()).tolist() == [0, 1, 0]


def test_an_unfinished_job_is_drawn_to_the_end_and_a_refused_one_is_not_drawn(trace):
    trace.step("ioctl", "x", 0, 10_000)
    trace.job(submitted_ns=1000, status="unfinished")
    trace.job(submitted_ns=2000, status="refused")
    trace.job(submitted_ns=3000, status="not known")

    assert bars(drawn(trace), "NPU")[["job", "left", "right"]].to_numpy().tolist() == [[0, 0.001, 0.01]]


def test_arrows_lead_from_the_doorbell_via_the_npu_and_the_handler_to_the_wait(trace):
    trace.a_job(0, 1000)
    found = drawn(trace)

    lane = {name: found.bars["lane"][found.bars["name"] == code].iloc[0] for code, name in enumerate(found.names)}
    npu = lane["job"]
    assert found.links[["x0", "lane0", "x1", "lane1"]].to_numpy().tolist() == [
        [0.001, lane["ivpu_hw_ip_db_set"], 0.001, npu],
        [0.00199, npu, 0.00199, lane["ivpu_job_done_callback"]],
        [0.00199, lane["ivpu_job_done_callback"], 0.0021, lane["ivpu_bo_wait_ioctl"]],
    ]


def test_without_a_handler_arrows_lead_via_the_fence(trace):
    trace.a_job(0, 1000)
    trace.rows[5]["name"] = "something_else"
    found = drawn(trace)

    lane = {name: found.bars["lane"][found.bars["name"] == code].iloc[0] for code, name in enumerate(found.names)}
    assert found.links[["x0", "lane0", "x1", "lane1"]].to_numpy().tolist()[1] == [
        0.002, lane["job"], 0.002, lane["dma_fence_signaled"],
    ]  # fmt: skip


def test_a_range_has_only_steps_that_overlap_it(trace):
    for number, at in enumerate((1000, 5000, 9000)):
        trace.a_job(number, at)
    found = drawn(trace, start_ns=4000, end_ns=7000)

    assert set(found.bars["job"]) == {1}
    assert (found.start_ns, found.end_ns) == (4000, 7000)
    assert set(found.links["job"]) == {1}


def test_too_many_steps_are_merged_into_blocks_without_losses(trace, monkeypatch):
    monkeypatch.setattr(timeline_rows, "DRAWN", 200)
    trace.step("ioctl", "long", 0, 1_000_000)
    for number in range(2000):
        trace.step("driver", "short", number * 500, 100, parent=0, job=number // 1000)
    found = drawn(trace)

    assert len(found.bars) <= 200 + 1
    assert found.bars["steps"].sum() == found.bars["calls"].sum() == 2001
    assert found.merged + (found.bars["steps"] == 1).sum() == 2001
    assert found.blocks == (found.bars["steps"] > 1).sum()
    blocks = found.bars[found.bars["steps"] > 1]
    assert (blocks["right"] - blocks["left"] <= 2.02 * found.shorter_ns / 1e6).all()
    assert set(blocks["job"]) <= {-1, 0, 1}
    assert blocks["right"].max() == pytest.approx(1999 * 500e-6 + 100e-6)
    assert (found.bars["name"] == found.names.index("long")).sum() == 1  # long ones stay


def test_a_block_with_steps_of_several_jobs_has_no_job(trace, monkeypatch):
    monkeypatch.setattr(timeline_rows, "DRAWN", 50)
    for number in range(1000):
        trace.step("driver", "short", number * 500, 100, job=number % 2)
    blocks = drawn(trace).bars.query("steps > 1")

    assert len(blocks)
    assert set(blocks["job"]) == {-1}


def test_there_are_as_many_lanes_as_overlapping_steps():
    begin, end = np.array([0, 1, 2, 10, 11]), np.array([10, 5, 3, 12, 13])

    assert lanes(begin, end).tolist() == [0, 1, 2, 0, 1]
    assert lanes(begin[:0], end[:0]).tolist() == []


def test_the_plot_pans_along_time_only_and_has_tooltips(trace):
    trace.a_job(0, 1000)
    layout = timeline(trace)

    [wheel] = of_kind(layout, WheelZoomTool)
    assert (wheel.dimensions, wheel.modifiers) == ("width", {"ctrl": True})  # plain scrolling must scroll the page
    [select] = of_kind(layout, BoxSelectTool)
    assert layout.children[1].toolbar.active_drag is select
    [hover] = of_kind(layout, HoverTool)
    assert [label for label, _ in hover.tooltips] == [
        "step", "layer", "start", "duration", "thread", "job", "caused by",
    ]  # fmt: skip
    [window] = of_kind(layout, RangeTool)
    assert window.x_range is layout.children[1].x_range


def test_the_columns_of_the_source_are_those_of_the_drawing(trace):
    trace.a_job(0, 1000)
    found, data = drawn(trace), source_of(timeline(trace)).data

    assert data["left"].tolist() == found.bars["left"].tolist()
    assert (data["left"] + data["width"]).tolist() == pytest.approx(found.bars["right"].tolist())
    assert data["job"].tolist() == found.bars["job"].tolist()
    assert len(COLORS) == len(LAYER_NAMES) == len(set(COLORS)) == DEVICE + 1


def test_the_script_gets_the_jobs_and_all_its_arguments(trace):
    trace.a_job(0, 1000)
    script = next(js for js in of_kind(timeline(trace), CustomJS) if "texts" in js.args)

    assert script.args["jobs"] == {
        "job": [0], "status": ["ok"], "submitted": [0.0009], "latency": [0.0011],
        "wait": [pytest.approx(np.nan, nan_ok=True)],
        "thread": ["load 10, thread 11"],
    }  # fmt: skip
    assert set(
        re.findall(r"\b(source|arrows|labels|plot|range|pane|jobs|links|texts|lane_px|table_rows)\b", script.code)
    ) == set(script.args)


def test_the_timeline_of_an_emulated_device_has_a_banner(trace, make_recording):
    trace.a_job(0, 1000)
    assert "NPU LAB" in json.dumps(json_item(timeline(trace)))

    trace.recording = make_recording()
    assert "NPU LAB" not in json.dumps(json_item(timeline(trace)))


def test_the_title_says_how_much_is_left_out(trace, monkeypatch):
    trace.a_job(0, 1000)
    assert timeline(trace).children[1].title.text == "8 steps"

    monkeypatch.setattr(timeline_rows, "DRAWN", 50)
    monkeypatch.setattr(timeline_rows, "JOBS", 3)
    for number in range(1, 100):
        trace.a_job(number, 1000 + 1000 * number)
    text = timeline(trace).children[1].title.text
    assert re.fullmatch(r"800 steps; \d+ of them, shorter than .*, drawn as \d+ blocks: .*; 97 jobs left out", text)


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_many_steps_take_only_a_few_megabytes(trace):
    rng = np.random.default_rng(1)
    names = [f"ivpu_function_number_{number}" for number in range(150)]
    trace.a_job(0, 1000)
    one = trace.calls
    many = pd.concat([one] * 25_000, ignore_index=True)
    many["id"] = many["row"] = np.arange(len(many))
    many["name"] = pd.Categorical.from_codes(rng.integers(0, len(names), len(many)), categories=names)
    many["start_ns"] += np.repeat(np.arange(25_000), len(one)) * 2000
    turn = np.repeat(np.arange(25_000), len(one)) * len(one)
    for column in ("parent", "inside", "root"):
        many[column] = np.where(many[column] >= 0, many[column] + turn, -1)
    item = type("Npu", (), {"calls": many, "jobs": trace.jobs, "trace": trace, "recording": trace.recording})()

    assert len(json.dumps(json_item(timeline(item)))) < 3_000_000


@pytest.mark.parametrize(
    ("change", "what"),
    [({"timed": False}, "result.no-times"), ({"rows": []}, "result.empty-figure")],
)
def test_an_empty_timeline_is_rejected_with_the_reason(trace, change, what):
    trace.a_job(0, 1000)
    trace.jobs = trace.jobs[:0]
    for name, value in change.items():
        setattr(trace, name, value)

    with pytest.raises(ResultError) as error:
        timeline(trace)
    assert error.value.code == what


def test_it_displays_itself_without_bokehs_own_mechanism(trace):
    trace.a_job(0, 1000)
    bundle = timeline(trace)._repr_mimebundle_()

    assert set(bundle) == {"text/plain"}  # no notebook here


def test_a_result_draws_its_timeline(make_recording):
    recording = make_recording(["latency:kprobe:intel_vpu:ivpu_get_param_ioctl"], events=[(1000, 0, 500)])
    result = TraceResult(replace(recording))

    data = source_of(result.figure("timeline")).data
    assert (data["left"].tolist(), data["width"].tolist()) == ([0.001], [0.0005])
