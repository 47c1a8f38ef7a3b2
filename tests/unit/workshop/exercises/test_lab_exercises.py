"""Exercises 1 to 4, judged by a given truth; tests/lab/test_workshop.py compares their truths with traces."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from accel_magic.errors import ProbeError
from accel_magic.workshop.exercise import BadAnswerError
from accel_magic.workshop.exercises import find
from tests.support.errors import raises

TRUTHS = {
    "jobs": {"jobs": 40, "buffers": 120, "pages": 33},
    "allocations": {
        "counts": {"16": 26, "512": 15, "4096": 9},
        "median_us": {"16": 50.0, "512": 45.0, "4096": 48.0},
        "grows": False,
        "idle_ms": 800.0,
    },
    "messages": {
        "sick": "b",
        "runs": {"a": {"messages": 50, "lost": 0}, "b": {"messages": 33, "lost": 0x2203}},
    },
    "causes": {
        "submits": "zeCommandQueueExecuteCommandLists",
        "ioctl": "ivpu_cmdq_submit_ioctl",
        "completes": "ivpu_job_done_callback",
        "sleeps_in": "ivpu_bo_wait_ioctl",
        "device_ms": 20,
    },
}
RIGHT = {
    "jobs": [TRUTHS["jobs"], {"jobs": np.int64(40), "buffers": 120.0, "pages": np.float64(33)}],
    "allocations": [
        {
            "counts": {16: 26, 512: 15, 4096: 9},
            "median_us": pd.Series({16: 31.0, 512: 30.0, 4096: 29.0}),
            "grows": np.bool_(False),
            "idle_ms": 801.3,
        }
    ],
    "messages": [
        {"sick": "b", "messages": 33, "unanswered": "UNREGISTER_DB"},
        {"sick": " B ", "messages": 30, "unanswered": "unregister_db_done"},
    ],
    "causes": [TRUTHS["causes"], TRUTHS["causes"] | {"ioctl": "ivpu_cmdq_submit_ioctl()", "device_ms": 23.4}],
}
WRONG = [
    ("jobs", {"jobs": 7026}, "all-hits"),
    ("jobs", {"jobs": 0}, "other-ioctl"),
    ("jobs", {"buffers": 123}, "driver-buffers"),
    ("jobs", {"pages": 11}, "one-buffer"),
    ("jobs", {"pages": 22}, "one-buffer"),
    ("jobs", {"pages": 40 * 33}, "pages-of-all"),
    ("allocations", {"counts": dict.fromkeys(range(10000, 10050), 1)}, "pointer"),
    ("allocations", {"counts": {16384: 26, 524288: 15, 4194304: 9}}, "bytes"),
    ("allocations", {"median_us": {16: 30_000, 512: 31_000, 4096: 28_000}}, "nanoseconds"),
    ("allocations", {"grows": True}, "proportional"),
    ("allocations", {"idle_ms": 0.8}, "seconds"),
    ("messages", {"messages": 770}, "calls"),
    ("messages", {"sick": "a"}, "healthy"),
    ("messages", {"messages": 61}, "both-directions"),
    ("messages", {"messages": 50}, "other-run"),
    ("messages", {"unanswered": "JOB_DONE"}, "job-done"),
    ("causes", {"submits": "zeFenceHostSynchronize"}, "wait"),
    ("causes", {"ioctl": "ivpu_get_param_ioctl"}, "parameter"),
    ("causes", {"completes": "ivpu_hw_irq_handler"}, "interrupt"),
    ("causes", {"device_ms": 66.0}, "queue"),
    ("causes", {"device_ms": 0.9}, "submission"),
    ("causes", {"device_ms": 21_000_000}, "nanoseconds"),
]
UNRECOGNIZED = [
    ("jobs", {"jobs": 41}),
    ("jobs", {"buffers": 60}),
    ("jobs", {"pages": 34}),
    ("allocations", {"counts": {16: 26, 512: 15, 4096: 10}}),
    ("allocations", {"counts": {16: 26, 512: 15}}),
    ("allocations", {"median_us": {16: 3.0, 512: 2.0, 4096: 4.0}}),
    ("allocations", {"idle_ms": 1000}),
    ("messages", {"sick": "c"}),
    ("messages", {"messages": 20}),
    ("messages", {"unanswered": "CREATE_CMD_QUEUE"}),
    ("causes", {"completes": "dma_fence_signaled"}),
    ("causes", {"device_ms": 12.0}),
]


def judged(name, **changed):
    exercise = find(name)(seed=1)
    exercise.truth = TRUTHS[name]
    return exercise.judge(RIGHT[name][0] | changed)


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_right_in_any_form(name):
    for answers in RIGHT[name]:
        assert all(remark.right for remark in judged(name, **answers))


@pytest.mark.parametrize(("name", "changed", "key"), WRONG)
def test_a_known_mistake_has_its_own_sentence(name, changed, key):
    (remark,) = [one for one in judged(name, **changed) if not one.right]

    assert (remark.wrong, remark.text) == (key, find(name).wrong[key])


@pytest.mark.parametrize("name", RIGHT)
def test_every_known_mistake_is_tested(name):
    assert {key for exercise, _, key in WRONG if exercise == name} == set(find(name).wrong)


@pytest.mark.parametrize(("name", "changed"), UNRECOGNIZED)
def test_any_other_answer_is_wrong_without_giving_the_right_one_away(name, changed):
    (remark,) = [one for one in judged(name, **changed) if not one.right]

    assert not remark.wrong
    (answer,) = changed
    right = TRUTHS[name].get(answer, "UNREGISTER_DB")
    assert remark.answer == answer
    assert str(right) not in remark.text.removesuffix(".").split()


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("jobs", {"jobs": "40"}),
        ("jobs", {"pages": pd.Series([1, 2])}),
        ("allocations", {"counts": 3}),
        ("allocations", {"counts": {"small": 3}}),
        ("allocations", {"median_us": {16: "fast"}}),
        ("messages", {"sick": 1}),
        ("causes", {"submits": 7}),
    ],
)
def test_what_is_not_an_answer_is_said(name, changed):
    with pytest.raises(BadAnswerError):
        judged(name, **changed)


def test_both_runs_of_the_messages_have_to_run():
    exercise = find("messages")(seed=1)
    exercise.truth = {"sick": "b", "runs": {"a": {"messages": 5, "lost": 0}}}

    assert not exercise.ran()
    with raises("workshop.unknown-run", ProbeError):
        exercise.run("c")
