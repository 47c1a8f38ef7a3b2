"""Exercise 6: make a network fast that spends its time in a reference implementation, and keep its results."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from accel_magic.errors import MachineError
from accel_magic.workshop.exercise import BadAnswerError, Exercise, Remark
from accel_magic.workshop.requirements import openvino

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ANSWER: Final = "fast_model"
INPUTS: Final = 5
"""Random inputs that the results are compared for."""
TOLERANCE: Final = 0.05
"""Largest difference, as a part of the largest result: processors with `bf16` round to three digits."""
FASTER: Final = 1.5
_RUNS, _TRIES = 20, 3
_ONE_THREAD: Final = {"INFERENCE_NUM_THREADS": 1}
"""So that a busy machine delays neither network by more than the other: no thread waits for others."""


class Speed(Exercise):
    """Matrix products with SELU between them: OpenVINO has only a reference implementation of SELU for the CPU."""

    number = 6
    name = "speed"
    title = "Make it fast, keep it right"
    minutes = 9
    needs = "nothing"
    answers: ClassVar = {_ANSWER: "a function that gets `network` and returns an `openvino.Model`"}
    hints = (
        "`t.diagnose()` names the layers that OpenVINO has no fast code for.",
        "For x > 0, SELU is scale * x, else scale * alpha * (exp(x) - 1). Which name in `dir(ops)` looks similar?",
        "`ops.elu(x, alpha)` is x for x > 0, else alpha * (exp(x) - 1). What is missing?",
    )
    takeaway = "An operation without fast code can cost more than everything else. Others may compute the same."
    wrong: ClassVar = {
        "compiled": "That is a compiled model. Return the model: the check compiles yours and the slow one alike.",
        "shape": "The result has another shape than that of the slow model.",
        "unscaled": "A factor is missing: SELU multiplies everything by `scale`, positive values too.",
        "no-alpha": "`alpha` is missing: it multiplies what comes out for negative values.",
        "relu": "The results for negative values are missing: SELU does not make them zero.",
        "values": "The results differ from those of the slow model.",
        "reference": "The results are right, but a layer still has a reference implementation: `ref` is in its name.",
        "slow": f"The results are right, but it is not {FASTER} times as fast. Trace it: what takes the time now?",
    }

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._rows = self.random.choice((768, 1024))
        self._width = self.random.choice((64, 96, 128))
        self._layers = self.random.randint(3, 5)
        self.alpha = round(self.random.uniform(1.4, 1.9), 3)
        self.scale = round(self.random.uniform(1.15, 1.3), 3)
        numbers = np.random.default_rng(seed)
        size = (self._width, self._width)
        self._weights = [
            numbers.standard_normal(size, dtype=np.float32) / np.float32(self._width**0.5) for _ in range(self._layers)
        ]
        self.features = numbers.standard_normal((self._rows, self._width), dtype=np.float32)

    def slow_model(self) -> Any:
        """Return the network with SELU, an `openvino.Model`.

        Raises:
            MachineError: OpenVINO is not installed.

        """
        _, ops = openvino()

        def selu(value: Any, alpha: float, scale: float) -> Any:
            return ops.selu(value, ops.constant(np.float32(alpha)), ops.constant(np.float32(scale)))

        return self.network(selu)

    def network(self, activation: Callable[[Any, float, float], Any]) -> Any:
        """Return the network with another activation, an `openvino.Model`.

        Args:
            activation: Called for each layer with its value, alpha and scale; returns what to compute of the value.

        Raises:
            MachineError: OpenVINO is not installed.

        """
        ov, ops = openvino()
        value = features = ops.parameter([self._rows, self._width], np.float32, name="features")
        for weights in self._weights:
            product = ops.matmul(value, ops.constant(weights), False, False)
            value = activation(product, self.alpha, self.scale)
        return ov.Model([value], [features], "network")

    def ran(self) -> bool:
        """Nothing has to run before: the check compiles and runs both models."""
        return True

    def judge(self, answers: Mapping[str, Any]) -> list[Remark]:
        """Compare results with numpy's, implementations with OpenVINO's own list, and times with those of SELU."""
        function = answers[_ANSWER]
        if not callable(function):
            raise BadAnswerError(_ANSWER, f"`{_ANSWER}` should be a function, and is a `{type(function).__name__}`.")
        try:
            return [self._of_model(function(self.network))]
        except MachineError as error:
            return [_remark(f"Nothing can be checked: {error.what}. To fix it: {error.fix}.")]
        except Exception as error:  # noqa: BLE001 - whatever the student's function or model raises
            return [_remark(f"`{_ANSWER}` does not work: {type(error).__name__}: {_last_line(error)}")]

    def _of_model(self, model: Any) -> Remark:
        ov, _ = openvino()
        if isinstance(model, ov.CompiledModel):
            return self.mistake(_ANSWER, "compiled")
        if not isinstance(model, ov.Model):
            return _remark(f"`{_ANSWER}` should return an openvino.Model, and returns a `{type(model).__name__}`.")
        fast, slow = (ov.Core().compile_model(each, "CPU", _ONE_THREAD) for each in (model, self.slow_model()))
        if key := self._difference(fast):
            return self.mistake(_ANSWER, key)
        if any("ref" in name for name in _implementations(fast)):
            return self.mistake(_ANSWER, "reference")
        for _ in range(_TRIES):
            slow_ms, fast_ms = _medians_ms((slow, fast), self.features)
            if slow_ms >= FASTER * fast_ms:
                took = f"{fast_ms:.2f} ms instead of {slow_ms:.2f} ms"
                return Remark(_ANSWER, True, f"`{_ANSWER}`: the same results as numpy, in {took}.")
        return self.mistake(_ANSWER, "slow")

    def _difference(self, fast: Any) -> str:
        """Key of the mistake that the results show; '' if they are right."""
        numbers = np.random.default_rng()
        for _ in range(INPUTS):
            features = numbers.standard_normal(self.features.shape, dtype=np.float32)
            result = np.asarray(fast([features])[0])
            if result.shape != features.shape:
                return "shape"
            if not _close(result, self._computed(features, self.alpha, self.scale)):
                others = {"unscaled": (self.alpha, 1.0), "no-alpha": (1.0, self.scale), "relu": (0.0, self.scale)}
                found = (key for key, one in others.items() if _close(result, self._computed(features, *one)))
                return next(found, "values")
        return ""

    def _computed(self, features: Any, alpha: float, scale: float) -> Any:
        """Return what the network computes, by numpy."""
        value = features
        for weights in self._weights:
            product = value @ weights
            value = scale * np.where(product > 0, product, alpha * np.expm1(np.minimum(product, 0)))
        return value


def _remark(text: str) -> Remark:
    return Remark(_ANSWER, False, text)


def _last_line(error: Exception) -> str:
    """OpenVINO's own exceptions begin with lines about its sources."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else "no text"


def _close(result: Any, expected: Any) -> bool:
    return bool(np.abs(result - expected).max() <= TOLERANCE * np.abs(expected).max())


def _implementations(compiled: Any) -> list[str]:
    """Implementations of all layers, as OpenVINO names them, such as `jit_avx512_f32` or `ref_any_f32`."""
    information = (node.get_rt_info() for node in compiled.get_runtime_model().get_ordered_ops())
    return [str(one["primitiveType"].astype(str)) for one in information if "primitiveType" in one]


def _medians_ms(models: tuple[Any, ...], features: Any) -> list[float]:
    """Median time of an inference of each model; they take turns, so that other programs disturb all alike."""
    requests = [model.create_infer_request() for model in models]
    times: list[list[float]] = [[] for _ in models]
    for _ in range(_RUNS + 1):
        for request, own in zip(requests, times, strict=True):
            start = time.perf_counter()
            request.infer([features])
            own.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(own[1:]) for own in times]


EXERCISE = Speed
