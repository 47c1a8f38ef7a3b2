"""Shapes of the inputs of inferences that Python code starts: of models whose inputs have dynamic shapes.

A call's shapes are those of what it was given, which costs less than a microsecond per input; only if it was given
nothing, they are read from the tensors of its request.
"""

from __future__ import annotations

import contextlib
import threading
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Key = tuple["ModelInputs", int, tuple[Any, ...] | None, tuple[Any, ...]]
    """A model, a thread, keys of a dictionary of inputs, and their shapes: tuples, or text."""

MOST: Final = 200_000
"""Calls of one trace whose shapes are kept."""
_MOST_DIFFERENT: Final = 20_000
"""Different shapes, models and threads together."""
_LONGEST: Final = 1000


@dataclass(frozen=True)
class InputPort:
    """One input of a compiled model.

    Attributes:
        names: Its names.
        shape: Its shape, such as `[?,3,?,?]`.

    """

    names: frozenset[str]
    shape: str

    @property
    def dynamic(self) -> bool:
        """Whether its shape is only known when it gets a tensor."""
        return is_dynamic(self.shape)

    @property
    def name(self) -> str:
        """The shortest of its names; '' without any."""
        return min(self.names, key=lambda name: (len(name), name), default="")


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """The inputs of a compiled model, at least one of which is dynamic. Compared by identity, which is fast.

    Attributes:
        task: The name that tasks of its inferences have, such as `Model1`; '' if it is not known.
        ports: Its inputs, in order.

    """

    task: str
    ports: tuple[InputPort, ...]


@dataclass(frozen=True)
class ShapeCalls:
    """Calls of one thread that gave inputs of the same shapes to a model. Everything is text.

    Attributes:
        model: The name that tasks of its inferences have, such as `Model1`; '' if it is not known.
        tid: The thread.
        shapes: Of all inputs, such as `x[1,3,48,320]`, separated by `; `.
        times: When they were called, ns: the first on CLOCK_MONOTONIC, each other one since the one before.

    """

    model: str
    tid: str
    shapes: str
    times: str


@dataclass
class InputShapes:
    """What calls were given: noted after each call, and put into words after the trace."""

    _times: dict[Key, array[int]] = field(default_factory=dict)
    _count: int = 0

    def note(self, started_ns: int, _result: object, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note a call of `infer` or `start_async`, of a request or a queue of requests, that has succeeded.

        Args:
            started_ns: When it was called, on CLOCK_MONOTONIC.
            arguments: Its arguments by position: the request or queue, and maybe inputs.
            options: The others, by name.

        """
        inputs = getattr(arguments[0], INPUTS, None)
        if inputs is None or self._count >= MOST:
            return
        given = arguments[1] if len(arguments) > 1 else options.get("inputs")
        try:
            names: tuple[Any, ...] | None = None
            values: Any = given
            if type(given) is dict and len(given) == len(inputs.ports):
                names, values = tuple(given), given.values()
            elif type(given) is not tuple and type(given) is not list:
                values = (given,)
            key: Key = inputs, threading.get_native_id(), names, tuple([each.shape for each in values])
            times = self._times.get(key)
        except (AttributeError, TypeError):  # no arrays: tensors, lists, nothing
            with contextlib.suppress(Exception):
                self._add(_key(inputs, arguments[0], given), started_ns)
            return
        if times is None:
            self._add(key, started_ns)
        else:
            times.append(started_ns)
            self._count += 1

    def _add(self, key: Key, started_ns: int) -> None:
        times = self._times.get(key)
        if times is None:
            if len(self._times) >= _MOST_DIFFERENT:
                return
            times = self._times[key] = array("q")
        times.append(started_ns)
        self._count += 1

    def found(self) -> tuple[ShapeCalls, ...]:
        """All calls whose shapes are known."""
        every: dict[tuple[str, int, str], list[array[int]]] = {}
        for (inputs, tid, names, shapes), times in [*self._times.items()]:  # other threads may call
            with contextlib.suppress(Exception):
                every.setdefault((inputs.task, tid, _text(inputs, names, shapes)), []).append(times)
        return tuple(
            ShapeCalls(task, str(tid), text, _differences(np.sort(np.concatenate(times))))
            for (task, tid, text), times in every.items()
            if text
        )


def _differences(times: NDArray[np.int64]) -> str:
    return " ".join(map(str, np.diff(times, prepend=0).tolist()))


INPUTS: Final = "_accel_magic_inputs"
"""Attribute of requests and queues of requests: their model's `ModelInputs`; None if all its inputs are static."""
_SET: Final = "_accel_magic_set_shapes"
"""Attribute of requests that were started without inputs: the shapes of their tensors."""


def ports_of(compiled: Any) -> tuple[InputPort, ...]:
    """The inputs of a compiled model; none if they cannot be read."""
    with contextlib.suppress(Exception):
        return tuple(
            InputPort(frozenset(port.get_names()), str(port.get_partial_shape()).replace(" ", ""))
            for port in compiled.inputs
        )
    return ()


def is_dynamic(shape: str) -> bool:
    """Whether a shape as text has dimensions, or a number of them, that are not known."""
    return "?" in shape or ".." in shape


def keep_set_shapes(request: Any) -> None:
    """Keep the shapes of a request's tensors, before it is started without inputs: later it does not tell them."""
    inputs = getattr(request, INPUTS, None)
    if inputs is not None and hasattr(request, "get_input_tensor"):
        with contextlib.suppress(Exception):
            setattr(request, _SET, _shapes_set(inputs, request))


def _key(inputs: ModelInputs, request: Any, given: Any) -> Key:
    """What to note for inputs that are not arrays. Raises AttributeError, TypeError or RuntimeError."""
    tid = threading.get_native_id()
    if given is None:
        try:
            return inputs, tid, None, _shapes_set(inputs, request)
        except RuntimeError:  # it runs
            return inputs, tid, None, getattr(request, _SET)
    if isinstance(given, Mapping):
        if len(given) < len(inputs.ports):  # the others have been set before
            return inputs, tid, None, _shapes_set(inputs, request)
        return inputs, tid, tuple(given), tuple(map(_shape, given.values()))
    return inputs, tid, None, tuple(map(_shape, given)) if isinstance(given, list | tuple) else (_shape(given),)


def _shape(value: Any) -> tuple[int, ...] | str:
    """The shape of an input: a tuple, or text of OpenVINO's tensors, whose shapes are slow to iterate over."""
    shape: object = getattr(value, "shape", None)
    if shape is None:
        return tuple(np.shape(value))
    return shape if isinstance(shape, tuple) else str(shape)


def _shapes_set(inputs: ModelInputs, request: Any) -> tuple[str, ...]:
    """The shapes of the tensors of a request. Raises RuntimeError while it runs."""
    return tuple(
        str(request.get_input_tensor(place).shape) if port.dynamic else port.shape
        for place, port in enumerate(inputs.ports)
    )


def _text(inputs: ModelInputs, names: Sequence[Any] | None, shapes: Sequence[Any]) -> str:
    """Put the shapes of a call into words; '' if a dynamic input's is not known."""
    known = {port: port.shape for port in inputs.ports if not port.dynamic}
    for place, shape in enumerate(shapes):
        port = inputs.ports[place] if names is None else _port(inputs, names[place])
        known[port] = str(tuple(map(int, shape)) if isinstance(shape, tuple) else shape)
    if len(known) < len(inputs.ports):
        return ""
    return shapes_text((port.name, known[port]) for port in inputs.ports)


def shapes_text(shapes: Any) -> str:
    """Write shapes as one text, `x[1,3,48,320]; y[1]`, from pairs of names and shapes such as `(1, 3)` or `[1,3]`."""
    parts = (f"{name}[{shape.strip('()[]').replace(' ', '').rstrip(',')}]" for name, shape in shapes)
    return "; ".join(parts)[:_LONGEST]


def _port(inputs: ModelInputs, name: Any) -> InputPort:
    """The input that a key of a dictionary means: its place, a name, or a port. Raises an exception for others."""
    if isinstance(name, int):
        return inputs.ports[name]
    if isinstance(name, str):
        return next(port for port in inputs.ports if name in port.names)
    names = name.get_names()
    return next(port for port in inputs.ports if port.names == names) if names else inputs.ports[name.get_index()]
