"""Exercise 5: find the most expensive layer of a network, and the reorder that takes the most time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from accel_magic.workshop.exercise import Exercise, Remark, number, text
from accel_magic.workshop.requirements import openvino

if TYPE_CHECKING:
    from collections.abc import Mapping

INFERENCES: Final = 30
"""Inferences of a run."""
POINTS: Final = 3
"""Tolerance of a share, in percentage points: what docs/openvino.md promises against OpenVINO's own profiling."""
_BLOCKS, _CHANNELS, _WIDE = 6, 16, 48
_NAMES: Final = ("edges", "corners", "colors", "textures", "parts", "shapes", "objects", "scenes")
_CONTAINS_ALL: Final = ("node::execute", "infer", "request", "model")
"""What the names of tasks that contain all layers have in common."""
_LAYER, _REORDER, _NOT_EXECUTED = "layer", "reorder", "not-executed"


class Layers(Exercise):
    """Six convolutions: a hidden one has a larger filter, and what else uses a hidden one needs another layout."""

    number = 5
    name = "layers"
    title = "Which layer takes the time?"
    minutes = 8
    needs = "openvino"
    answers: ClassVar = {
        "slowest": "the name of the layer that takes the most time, a text",
        "slowest_share": "its share of the time of all layers, in per cent",
        "reorder": "the name of the reorder that takes the most time, a text",
        "reorder_share": "its share of the time of all layers, in per cent",
    }
    traces = ("first", "t")
    hints = (
        "`t.openvino.layers` has a row for each layer, the slowest first. Its column `reorder` marks the reorders.",
        "Compare `first.openvino.requests` with `t.openvino.requests`: which of the two shows what is typical?",
        "The column `share` is of whole inferences. Divide the layer's `total_ns` by the sum of that column.",
    )
    takeaway = "Leave the first inference out. And look for reorders: they take time, and nobody wrote them."
    wrong: ClassVar = {
        "parent": "That contains all layers. Which of them takes the most time?",
        "not-executed": "OpenVINO does not execute that on its own: it was fused into a layer, or has nothing to do.",
        "reorder-as-layer": "That is a reorder, which only converts its input. Which layer computes the longest?",
        "layer-as-reorder": "That layer computes something. A reorder only converts the layout of its input.",
        "small-reorder": "That is a reorder, but another one takes more time.",
        "fraction": "That looks like a fraction of 1. The question is about per cent.",
        "first": "That is its share of the first inference, which also prepares the layers. How are the later ones?",
        "of-inference": "That is its share of whole inferences, which do more than layers. Divide by the time of all "
        "layers.",
        "swapped": "That is the share of the other one, of layer and reorder.",
    }

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._names = self.random.sample(_NAMES, _BLOCKS)
        self._costly = self.random.randrange(1, _BLOCKS)
        self._branch = self.random.choice([at for at in range(1, _BLOCKS - 1) if at != self._costly])
        self._filter = self.random.choice((5, 7))
        self._size = self.random.randrange(112, 145, 8)
        self._request: Any = None
        self._first: dict[str, float] = {}

    def run(self, inferences: int = INFERENCES) -> None:
        """Run the network; the first time, it is also compiled. Its layers are not shown before they are checked.

        Args:
            inferences: How many.

        Raises:
            MachineError: OpenVINO is not installed.

        """
        picture = np.random.default_rng(self.seed).random((1, 3, self._size, self._size), dtype=np.float32)
        if self._request is None:
            self._request, self._done = self._compiled().create_infer_request(), 0
        before = {name: mean * self._done for name, mean in _layers_us(self._request).items()}
        took_us = sum(_timed_us(self._request, picture) for _ in range(inferences))
        self._done += inferences
        spent = {name: mean * self._done - before[name] for name, mean in _layers_us(self._request).items()}
        of_inference = _percent(spent, took_us)
        self._first = self._first or of_inference
        self.truth = {
            "kinds": {node.node_name: _kind(node) for node in self._request.profiling_info},
            "shares": _percent(spent, sum(spent.values())),
            "of_inference": of_inference,
            "first": self._first,
        }

    def judge(self, answers: Mapping[str, Any]) -> list[Remark]:
        """Compare with OpenVINO's own profile of the same inferences."""
        return [
            self._named("slowest", text(answers, "slowest"), _LAYER),
            self._shared("slowest_share", number(answers, "slowest_share"), _LAYER, _REORDER),
            self._named("reorder", text(answers, "reorder"), _REORDER),
            self._shared("reorder_share", number(answers, "reorder_share"), _REORDER, _LAYER),
        ]

    def _named(self, answer: str, name: str, kind: str) -> Remark:
        if name == self._longest(kind):
            return Remark(answer, True, f"`{answer}`: {name}, as in OpenVINO's own profile.")
        found = self.truth["kinds"].get(name, "")
        if not found:
            contains = any(word in name.lower() for word in _CONTAINS_ALL)
            unknown = Remark(answer, False, f"`{answer}`: the compiled network has no layer of this name.")
            return self.mistake(answer, "parent") if contains else unknown
        if found == _NOT_EXECUTED:
            return self.mistake(answer, found)
        if found != kind:
            return self.mistake(answer, f"{found}-as-{kind}")
        if kind == _REORDER:
            return self.mistake(answer, "small-reorder")
        return Remark(answer, False, f"`{answer}`: another layer takes more time.")

    def _shared(self, answer: str, value: float, kind: str, other: str) -> Remark:
        truth, name = self.truth, self._longest(kind)
        right = truth["shares"][name]
        if abs(value - right) <= POINTS:
            return Remark(answer, True, f"`{answer}` = {value:.1f} %. OpenVINO's own profile has {right:.1f} %.")
        first = truth["first"]
        alternatives = (
            ("fraction", 100 * value, right),
            ("swapped", value, truth["shares"][self._longest(other)]),
            ("of-inference", value, truth["of_inference"][name]),
            ("first", value, first[name]),
            ("first", value, 100 * first[name] / sum(first.values())),
        )
        for key, given, expected in alternatives:
            if abs(given - expected) <= POINTS:
                return self.mistake(answer, key)
        more = "more" if value < right else "less"
        return Remark(answer, False, f"`{answer}` is not {value:.3g} %: it takes {more}.")

    def _longest(self, kind: str) -> str:
        names: list[str] = [name for name, found in self.truth["kinds"].items() if found == kind]
        return max(names, key=self.truth["shares"].__getitem__)

    def _compiled(self) -> Any:
        ov, ops = openvino()
        random = np.random.default_rng(self.seed)
        value = picture = ops.parameter([-1, 3, self._size, self._size], np.float32, name="picture")
        inputs = 3
        for at, name in enumerate(self._names):
            side = self._filter if at == self._costly else 1
            outputs = _WIDE if at == self._branch else _CHANNELS
            weights = random.standard_normal((outputs, inputs, side, side), dtype=np.float32) / inputs / side
            pads, inputs = [side // 2] * 2, outputs
            value = ops.convolution(value, ops.constant(weights), [1, 1], pads, pads, [1, 1], name=name)
            value = ops.relu(value, name=f"{name}_relu")
            if at == self._branch:  # the picture's layout is needed to flatten it: that takes a reorder
                flat = ops.reshape(value, ops.constant(np.array([0, outputs, -1])), True, name="flat")
                column = ops.constant(random.standard_normal((self._size**2, 1), dtype=np.float32))
                score = ops.matmul(flat, column, False, False, name="score")
        mean = ops.reduce_mean(value, [2, 3], True, name="mean")
        model = ov.Model([ops.result(mean), ops.result(score)], [picture], "pictures")
        settings = {"PERF_COUNT": True, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
        return ov.Core().compile_model(model, "CPU", settings)


def _timed_us(request: Any, picture: Any) -> float:
    start = time.perf_counter()
    request.infer([picture])
    return 1e6 * (time.perf_counter() - start)


def _percent(spent: Mapping[str, float], whole: float) -> dict[str, float]:
    return {name: 100 * value / whole for name, value in spent.items()}


def _layers_us(request: Any) -> dict[str, float]:
    """Mean time of each layer over all inferences since the network was compiled."""
    return {node.node_name: 1e6 * node.real_time.total_seconds() for node in request.profiling_info}


def _kind(node: Any) -> str:
    if str(node.status).endswith("NOT_RUN"):
        return _NOT_EXECUTED
    return _REORDER if node.node_type == "Reorder" else _LAYER


EXERCISE = Layers
