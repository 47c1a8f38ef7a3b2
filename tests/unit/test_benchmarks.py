"""The arithmetic and reports of the benchmarks; nothing is timed here."""

import dataclasses
import importlib.util
import json
import math
import sys

import pytest

from tests.support.paths import ROOT


@pytest.fixture(scope="module", autouse=True)
def benchmarks_can_be_imported():
    sys.path.insert(0, str(ROOT))
    yield
    sys.path.remove(str(ROOT))


@pytest.fixture
def arithmetic():
    from benchmarks import arithmetic

    return arithmetic


@pytest.fixture
def report():
    from benchmarks import report

    return report


@pytest.fixture
def measured(arithmetic):
    def make(ours, theirs=(), kind="value", bar=None):
        return arithmetic.Measured("row", "what", "ns", tuple(ours), "peer", tuple(theirs), kind, bar)

    return make


def test_ratios_are_computed_for_each_round_before_the_median(measured):
    # The ratio of the medians would be 30 / 100 = 0.3.
    row = measured((10, 30, 200), (100, 60, 1000), "ratio", 0.25)
    assert row.compared == (0.1, 0.5, 0.2)
    assert row.middle == 0.2


def test_one_disturbed_round_does_not_change_a_verdict(measured):
    assert measured((10, 10, 900), (100, 100, 100), "ratio", 0.2).verdict == "met"


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (("ratio", 20.0, 100.0, 0.2), "met"),
        (("ratio", 21.0, 100.0, 0.2), "missed"),
        (("speedup", 10.0, 150.0, 15), "met"),
        (("speedup", 10.0, 149.0, 15), "missed"),
        (("value", 0.0, None, 0.0), "met"),
        (("value", 0.001, None, 0.0), "missed"),
        (("value", 5.0, 73.0, 0.0), "missed"),
        (("value", 5.0, None, None), "information"),
        (("ratio", 5.0, 1.0, None), "information"),
    ],
)
def test_the_bar_is_an_upper_limit_for_costs_and_a_lower_limit_for_speedups(measured, row, verdict):
    kind, ours, theirs, bar = row
    assert measured((ours,), () if theirs is None else (theirs,), kind, bar).verdict == verdict


def test_cost_is_traced_minus_untraced_time_of_the_same_round(arithmetic):
    assert arithmetic.cost_per_call((150.0, 190.0), (100.0, 120.0)) == (50.0, 70.0)


def test_rounds_with_a_reference_below_the_noise_are_ignored(measured):
    row = measured((10, 10, 10), (-3, 20, 40), "ratio", 1.0)
    assert math.isnan(row.compared[0])
    assert row.middle == (0.5 + 0.25) / 2
    assert measured((-4, 10), (40, 40), "ratio", 1.0).middle == 0.25


def test_a_row_that_is_all_noise_does_not_meet_its_bar(measured):
    assert measured((10,), (0,), "ratio", 1.0).verdict == "missed"
    assert measured((10,), (0,), "speedup", 1.0).verdict == "missed"


def test_median_and_spread_ignore_nan(arithmetic):
    assert arithmetic.median((3.0, math.nan, 1.0, 2.0, 10.0)) == 2.5
    assert arithmetic.spread((3.0, math.nan, 1.0)) == (1.0, 3.0)
    assert math.isnan(arithmetic.median(()))


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"), [((), (), "value"), ((1, 2), (1,), "ratio"), ((1,), (), "ratio"), ((1,), (), "speedup")]
)
def test_rows_without_matching_rounds_are_rejected(measured, ours, theirs, kind):
    with pytest.raises(ValueError, match="row: "):
        measured(ours, theirs, kind)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0291, "0.0291"),
        (1.234, "1.23"),
        (17.83, "17.8"),
        (4987.4, "4,987"),
        (math.nan, "?"),
        (-0.5, "-0.500"),
    ],
)
def test_numbers_are_written_with_three_digits_and_no_exponent(report, value, text):
    assert report.number(value) == text


def test_the_table_shows_medians_range_bar_and_verdict(report, measured):
    rows = [measured((10, 30, 20), (100, 60, 100), "ratio", 0.1), measured((1, 2, 3))]
    about = dict.fromkeys(("date", "cpu", "cpus", "virtual", "kernel", "python", "accel_magic", "bpftrace"), "x")
    lines = report.markdown(rows, {**about, "load_before": 0.5}).splitlines()
    assert lines[-2] == "| what | 20.0 ns | 100 ns (peer) | 0.200x | 0.100 to 0.500 (3) | at most 0.100x | **missed** |"
    assert lines[-1] == "| what | 2.00 ns |  |  | 1.00 to 3.00 ns (3) |  |  |"


def test_rounds_without_a_ratio_are_not_counted_in_the_table(report, measured):
    assert report.row(measured((10, 10, 10), (-3, 20, 40), "ratio", 1.0))[4] == "0.250 to 0.500 (2)"


def test_the_table_replaces_the_old_one_and_keeps_the_surrounding_text(report, tmp_path):
    path = tmp_path / "measured.md"
    path.write_text("above\n\n<!-- results -->\nold\n<!-- end of results -->\n\nbelow\n")
    report.write_table(path, "new\n")
    assert path.read_text() == "above\n\n<!-- results -->\n\nnew\n\n<!-- end of results -->\n\nbelow\n"
    report.write_table(tmp_path / "fresh.md", "new\n")
    assert (tmp_path / "fresh.md").read_text() == "<!-- results -->\n\nnew\n\n<!-- end of results -->\n"


def test_a_file_without_a_place_for_the_table_is_not_overwritten(report, tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("mine\n")
    with pytest.raises(ValueError, match="no line <!-- results -->"):
        report.write_table(path, "new\n")
    assert path.read_text() == "mine\n"


def test_json_keeps_every_round_and_is_strict(report, measured):
    row = measured((10, 30), (-1, 60), "ratio", 1.0)
    data = json.loads(json.dumps(report.as_json([row], {}), allow_nan=False))["rows"][0]
    assert data["ours"] == [10, 30]
    assert data["theirs"] == [-1, 60]
    assert data["compared"] == [None, 0.5]
    assert (data["middle"], data["verdict"]) == (0.5, "met")
    assert set(data) == {field.name for field in dataclasses.fields(row)} | {"compared", "middle", "verdict"}


def test_every_group_can_be_selected(capsys):
    from benchmarks import run

    with pytest.raises(SystemExit) as left:
        run.main(["--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in run.GROUPS)
    assert importlib.util.find_spec("benchmarks.run").origin == str(ROOT / "benchmarks" / "run.py")


def test_cost_per_delivered_event_is_the_total_cost_divided_by_the_delivered_events(arithmetic):
    # 1,000 calls cost 70 ns more each; 14 % of the peer's events arrived, and none in the last round.
    cost = arithmetic.cost_per_delivered((170.0, 170.0, 170.0), (100.0, 100.0, 100.0), 1000, (1000, 140, 0))

    assert cost[:2] == (70.0, 500.0)
    assert math.isnan(cost[2])
    # BCC's counter is not limited to one process: other processes may add to it.
    assert arithmetic.lost_percent(1000, (1000, 140, 0, 1003)) == (0.0, 86.0, 100.0, 0.0)


def test_the_table_shows_the_losses_of_each_side_next_to_its_number(report, measured):
    row = dataclasses.replace(measured((10, 20, 30), (100, 200, 300), "ratio"), lost=(0, 0, 0), peer_lost=(86, 90, 5))

    assert report.row(row)[1:3] == ("20.0 ns, 0 % lost", "200 ns, 86.0 % lost (peer)")


def test_a_peer_that_delivered_nothing_has_no_ratio(report, measured):
    row = dataclasses.replace(measured((10,), (math.nan,), "ratio"), lost=(0,), peer_lost=(100,))

    assert report.row(row)[2:4] == ("? ns, 100 % lost (peer)", "?x")


@pytest.fixture
def kernel():
    """A kernel that runs cells like those of the notebook rows."""
    from benchmarks.kernel import new_kernel

    with new_kernel() as started:
        yield started


def test_replies_to_other_requests_are_not_mistaken_for_the_cells_reply(kernel):
    from benchmarks.kernel import CellError

    # On a slow machine, replies to the requests that probe for readiness arrive late.
    kernel._client.kernel_info()
    assert kernel.run("answer = 6 * 7", "answer").values == {"answer": 42}

    with pytest.raises(CellError, match="ZeroDivisionError"):
        kernel.run("1 / 0")
    assert kernel.run("answer += 1", "answer").values == {"answer": 43}


CALLED = [(at * 1000, 0) for at in range(5)]
TIMED = [(at * 1000, 0, 100) for at in range(5)]


@pytest.mark.parametrize(
    ("probe", "events", "fields", "failure"),
    [
        pytest.param("tracepoint:a:b", CALLED, {}, None, id="all there"),
        pytest.param("tracepoint:a:b", CALLED, {"lost": [2], "hits": [5]}, "lost 2 events of 5", id="losses"),
        pytest.param("tracepoint:a:b", CALLED[:3], {"hits": [5]}, "recorded or lost 3 events of 5", id="a limit"),
        pytest.param("tracepoint:a:b", [], {"hits": [5], "plan": {"mode": "count"}}, None, id="counted"),
        pytest.param("tracepoint:a:b", CALLED[:4], {}, "counted 4 hits of 5", id="not counted"),
        pytest.param("latency:uprobe:/x:f", TIMED, {}, None, id="timed"),
        pytest.param("latency:uprobe:/x:f", TIMED, {"durations": {0: [100] * 4}}, "timed 4 calls of 5", id="not timed"),
    ],
)
def test_a_row_fails_if_its_calls_were_not_traced(make_recording, probe, events, fields, failure):
    from accel_magic.results.trace_result import TraceResult
    from benchmarks import peers

    result = TraceResult(make_recording([probe], events, **fields))
    if failure is None:
        peers.check(result, 5)
        return
    with pytest.raises(peers.PeerError, match=failure):
        peers.check(result, 5)


def test_a_row_fails_if_events_have_no_stack(monkeypatch, make_recording):
    from accel_magic.results.trace_result import TraceResult
    from benchmarks import peers

    result = TraceResult(make_recording(["tracepoint:a:b"], CALLED, plan={"stacks": ("user",)}))
    monkeypatch.setattr(peers, "with_stack", lambda _: 4)
    with pytest.raises(peers.PeerError, match="4 events of 5 have a stack"):
        peers.check(result, 5)


def test_a_group_whose_work_did_not_happen_is_an_error_and_the_others_run(monkeypatch, measured, capsys):
    from benchmarks import peers, run

    def broken(*, quick):
        peers.require(quick, "unlike this")
        peers.require(False, "nothing was traced")
        yield

    monkeypatch.setattr(run, "GROUPS", {"broken": broken, "other": lambda *, quick: [measured((1.0, 2.0))]})
    assert run.main(["--quick"]) == 1
    output, errors = capsys.readouterr()
    assert "1 rows" in output
    assert "broken: FAILED: PeerError: nothing was traced" in errors
    assert run.main(["--quick", "--only", "other"]) == 0
