"""Exercise 6: results, implementations and speed of a student's network are checked without the student's trace."""

import sys

import numpy as np
import pytest

from accel_magic.workshop.exercise import BadAnswerError
from accel_magic.workshop.exercises import speed
from accel_magic.workshop.exercises.speed import EXERCISE

pytestmark = pytest.mark.component

SEEDS = (0, 1, 2)


def with_ov():
    return pytest.importorskip("openvino"), pytest.importorskip("openvino.opset13")


def constant(value):
    return with_ov()[1].constant(np.float32(value))


def built(activation):
    """A student's function with this activation."""
    return lambda network: network(activation)


def scaled_elu(x, alpha, scale):
    _, ops = with_ov()
    return ops.multiply(ops.elu(x, alpha), constant(scale))


def by_cases(x, alpha, scale):
    """SELU from its definition."""
    _, ops = with_ov()
    negative = ops.multiply(constant(alpha), ops.subtract(ops.exp(x), constant(1)))
    return ops.multiply(constant(scale), ops.select(ops.greater(x, constant(0)), x, negative))


def without_scale(x, alpha, scale):
    return with_ov()[1].elu(x, alpha)


def without_alpha(x, alpha, scale):
    return scaled_elu(x, 1.0, scale)


def relu(x, alpha, scale):
    _, ops = with_ov()
    return ops.multiply(ops.relu(x), constant(scale))


def gelu(x, alpha, scale):
    return with_ov()[1].gelu(x, "ERF")


def selu(x, alpha, scale):
    return with_ov()[1].selu(x, constant(alpha), constant(scale))


def mean(x, alpha, scale):
    return with_ov()[1].reduce_mean(scaled_elu(x, alpha, scale), [0], True)


def compiled(network):
    ov, _ = with_ov()
    return ov.Core().compile_model(network(scaled_elu), "CPU")


MISTAKES = {
    "compiled": compiled,
    "shape": built(mean),
    "unscaled": built(without_scale),
    "no-alpha": built(without_alpha),
    "relu": built(relu),
    "values": built(gelu),
    "reference": built(selu),
    "slow": built(by_cases),
}


def judged(function, seed=0):
    (remark,) = EXERCISE(seed).judge({"fast_model": function})
    return remark


@pytest.fixture
def even_times(monkeypatch):
    """Both networks take as long as their processor works for them, in a machine that is not disturbed."""
    monkeypatch.setattr(speed, "_medians_ms", lambda models, features: [3.0, 1.0])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("activation", [scaled_elu, by_cases])
def test_networks_without_reference_layers_and_with_numpys_results_are_right(seed, activation, even_times):
    with_ov()

    remark = judged(built(activation), seed)

    assert remark.right, remark


def test_what_is_measured_is_faster():
    """Of ten rounds, the best: that of a moment in which nothing else runs."""
    ov, _ = with_ov()
    exercise = EXERCISE(seed=0)
    slow, fast = (
        ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1})
        for model in (exercise.slow_model(), exercise.network(scaled_elu))
    )

    ratios = [one / other for one, other in (speed._medians_ms((slow, fast), exercise.features) for _ in range(10))]

    assert max(ratios) > speed.FASTER


@pytest.mark.parametrize("key", EXERCISE.wrong)
def test_a_mistake_has_its_own_sentence(key, monkeypatch):
    with_ov()
    monkeypatch.setattr(speed, "_medians_ms", lambda models, features: [1.4, 1.0])

    remark = judged(MISTAKES[key])

    assert (remark.right, remark.wrong, remark.text) == (False, key, EXERCISE.wrong[key])


def test_a_network_is_slow_only_if_it_is_in_each_of_three_rounds(monkeypatch):
    with_ov()
    rounds = iter([[1.0, 1.0], [1.4, 1.0], [1.6, 1.0]])
    monkeypatch.setattr(speed, "_medians_ms", lambda models, features: next(rounds))

    assert judged(built(scaled_elu)).right
    assert list(rounds) == []


def test_reference_layers_are_found_by_openvino():
    ov, _ = with_ov()
    exercise = EXERCISE(seed=0)

    names = speed._implementations(ov.Core().compile_model(exercise.slow_model(), "CPU"))

    assert sum("ref" in name for name in names) == exercise._layers


def test_numpy_computes_what_the_slow_network_does():
    ov, _ = with_ov()
    exercise = EXERCISE(seed=5)
    by_openvino = ov.Core().compile_model(exercise.slow_model(), "CPU")([exercise.features])[0]

    assert speed._close(by_openvino, exercise._computed(exercise.features, exercise.alpha, exercise.scale))
    assert not speed._close(np.full_like(by_openvino, np.nan), by_openvino)


@pytest.mark.parametrize("answer", [3, "fast_model", [1], np.zeros(3)])
def test_answers_that_are_not_functions_are_bad_answers(answer):
    with pytest.raises(BadAnswerError, match="should be a function"):
        judged(answer)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda network: None, "returns a `NoneType`"),
        (lambda network: network, "returns a `method`"),
        (lambda: None, "takes 0 positional arguments"),
        (lambda network: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda network: network(lambda x: x), "TypeError"),
        (built(lambda x, alpha, scale: None), "does not work"),
    ],
)
def test_what_a_students_function_raises_is_a_remark(function, expected):
    with_ov()

    remark = judged(function)

    assert not remark.right
    assert expected in remark.text
    assert "\n" not in remark.text


def test_an_interrupt_ends_the_check():
    def interrupted(network):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judged(interrupted)


def test_without_openvino_the_remark_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)

    remark = judged(built(scaled_elu_of_nothing))

    assert not remark.right
    assert "pip install openvino" in remark.text


def scaled_elu_of_nothing(x, alpha, scale):
    return x


def test_nothing_has_to_run_before_the_check():
    assert EXERCISE(seed=1).ran()


def test_seeds_give_other_networks():
    shapes = {(one.features.shape, one._layers, one.alpha) for one in map(EXERCISE, range(10))}

    assert len(shapes) == 10
