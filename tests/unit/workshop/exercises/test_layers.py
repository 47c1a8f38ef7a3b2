"""Exercise 5: its truth is OpenVINO's own profile, its solution passes, and its mistakes are recognized."""

import dataclasses

import numpy as np
import pytest

from accel_magic.errors import MachineError
from accel_magic.workshop import session
from accel_magic.workshop.exercise import BadAnswerError
from accel_magic.workshop.exercises.layers import EXERCISE, POINTS

pytestmark = pytest.mark.component

TRUTH = {
    "kinds": {
        "edges": "layer",
        "edges_relu": "not-executed",
        "parts": "layer",
        "parts_acdb_abcd_flat": "reorder",
        "picture_abcd_acdb_edges": "reorder",
    },
    "shares": {
        "edges": 55.0,
        "edges_relu": 0.0,
        "parts": 20.0,
        "parts_acdb_abcd_flat": 24.0,
        "picture_abcd_acdb_edges": 1.0,
    },
    "of_inference": {"edges": 44.0, "parts_acdb_abcd_flat": 19.0},
    "first": {"edges": 12.0, "parts": 23.0, "parts_acdb_abcd_flat": 5.0},
}
RIGHT = {"slowest": "edges", "slowest_share": 54.0, "reorder": "parts_acdb_abcd_flat", "reorder_share": 25.5}
MISTAKES = {
    "parent": {"slowest": "Node::execute"},
    "not-executed": {"slowest": "edges_relu"},
    "reorder-as-layer": {"slowest": "parts_acdb_abcd_flat"},
    "layer-as-reorder": {"reorder": "parts"},
    "small-reorder": {"reorder": "picture_abcd_acdb_edges"},
    "fraction": {"slowest_share": 0.55},
    "first": {"slowest_share": 13.0},
    "of-inference": {"slowest_share": 44.5},
    "swapped": {"reorder_share": 55.0},
}


def judged(**changed):
    exercise = EXERCISE(seed=1)
    exercise.truth = TRUTH
    return {remark.answer: remark for remark in exercise.judge(RIGHT | changed)}


def profiled(exercise):
    """What the exercise's own network takes, summed up anew: names and shares in per cent."""
    spent = {
        node.node_name: node.real_time.total_seconds()
        for node in exercise._request.profiling_info
        if str(node.status).endswith("EXECUTED")
    }
    whole = sum(spent.values())
    return {name: 100 * value / whole for name, value in spent.items()}


def test_right_answers_solve_it_whoever_made_the_numbers():
    for share in (54.0, np.float64(54.0), np.int64(54)):
        remarks = judged(slowest_share=share)
        assert [one.right for one in remarks.values()] == [True] * 4, remarks


@pytest.mark.parametrize("key", EXERCISE.wrong)
def test_a_mistake_has_its_own_sentence(key):
    ((answer, value),) = MISTAKES[key].items()

    remark = judged(**{answer: value})[answer]

    assert (remark.right, remark.wrong, remark.text) == (False, key, EXERCISE.wrong[key])


def test_its_share_of_the_layers_of_the_first_inference_is_recognized_too():
    assert judged(slowest_share=30)["slowest_share"].wrong == "first"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"slowest": "conv17"}, "no layer of this name"),
        ({"slowest": "parts"}, "another layer takes more time"),
        ({"slowest_share": 90}, "it takes less"),
        ({"reorder_share": 40}, "it takes less"),
        ({"reorder_share": -3}, "it takes more"),
    ],
)
def test_other_wrong_answers_are_described(changed, expected):
    (answer,) = changed

    remark = judged(**changed)[answer]

    assert not remark.right
    assert remark.wrong == ""
    assert expected in remark.text


@pytest.mark.parametrize(
    "changed",
    [
        {"slowest": 3},
        {"reorder": b"parts"},
        {"slowest_share": "54 %"},
        {"reorder_share": [1, 2]},
        {"slowest": object()},
    ],
)
def test_answers_of_another_kind_are_bad_answers(changed):
    (answer,) = changed

    with pytest.raises(BadAnswerError) as error:
        judged(**changed)

    assert error.value.remark.answer == answer
    assert not error.value.remark.right


def test_no_remark_gives_the_answer_away():
    given = {"slowest": "scenes", "slowest_share": 99, "reorder": "scenes", "reorder_share": 99}

    texts = " ".join(one.text for one in judged(**given).values())

    assert not {"edges", "parts_acdb_abcd_flat", "55", "24"} & set(texts.replace("`", " ").split())


def test_without_openvino_the_run_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openvino", None)

    with pytest.raises(MachineError, match="pip install openvino") as error:
        EXERCISE(seed=1).run()

    assert error.value.code == "workshop.no-openvino"


@pytest.mark.parametrize("seed", range(4))
def test_the_truth_is_openvinos_own_profile(seed):
    pytest.importorskip("openvino")
    exercise = EXERCISE(seed)

    exercise.run(4)  # the only run, so that OpenVINO's means are those of these inferences

    own = profiled(exercise)
    reorders = {name: share for name, share in own.items() if exercise.truth["kinds"][name] == "reorder"}
    layers = {name: share for name, share in own.items() if name not in reorders}
    answers = {
        "slowest": max(layers, key=layers.get),
        "slowest_share": max(layers.values()),
        "reorder": max(reorders, key=reorders.get),
        "reorder_share": max(reorders.values()),
    }
    assert all(one.right for one in exercise.judge(answers))
    assert any(name.endswith("_flat") for name in reorders)
    assert sum(exercise.truth["shares"].values()) == pytest.approx(100)


def test_later_runs_do_not_include_the_first():
    pytest.importorskip("openvino")
    exercise = EXERCISE(seed=3)
    exercise.run(1)
    first = exercise.truth

    exercise.run(3)

    assert exercise.truth["first"] == first["of_inference"]
    assert sum(first["of_inference"].values()) < 100, "preparing a layer is outside of layers"
    assert sum(exercise.truth["shares"].values()) == pytest.approx(100)


def test_the_network_of_a_neighbor_differs():
    pytest.importorskip("openvino")
    names = set()
    for seed in range(6):
        exercise = EXERCISE(seed)
        exercise.run(1)
        names.add(exercise._longest("layer"))

    assert len(names) > 1


@pytest.mark.parametrize("variant", range(3))
def test_recordings_have_the_layers_of_their_truth(variant):
    import accel_magic
    from accel_magic.workshop import material

    exercise = EXERCISE(seed=variant)
    exercise.truth = session._recorded_truth(exercise)
    layers = accel_magic.open(material.recordings() / f"layers_{variant}-t.parquet").openvino.layers
    percent = 100 * layers["total_ns"] / layers["total_ns"].sum()
    slowest, reorder = percent[~layers["reorder"]].idxmax(), percent[layers["reorder"]].idxmax()
    answers = {
        "slowest": slowest,
        "slowest_share": percent[slowest],
        "reorder": reorder,
        "reorder_share": percent[reorder],
    }

    remarks = exercise.judge(answers)

    assert [one.right for one in remarks] == [True] * 4, remarks
    assert abs(percent[slowest] - exercise.truth["shares"][slowest]) < POINTS / 2


def test_all_kinds_of_remarks_are_plain_data():
    assert all(dataclasses.asdict(one) for one in judged(slowest="x").values())
