"""OpenVINO's Python API while it is traced: the calls that infer are tasks.

A return probe on a C++ function would be the other way to time a library's function, but an exception that passes
through the function would then end the process: the kernel replaces the return address, so that the exception's
handler is not found.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from accel_magic.itt.marking import CallTask, marked
from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.input_shapes import INPUTS, InputShapes, ModelInputs, keep_set_shapes, ports_of
from accel_magic.subsystems.openvino.model_objects import address_of, task_name_of
from accel_magic.subsystems.openvino.replacements import Replacements

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.subsystems.openvino.replacements import Function

_TASK: Final = "_accel_magic_task"
"""Beginning of the attributes of requests and queues of requests that keep the tasks of their calls."""


class PythonCalls:
    """Replaces methods of OpenVINO's Python classes, if it is imported, and restores them.

    Attributes:
        shapes: The shapes of the inputs of calls of models whose inputs are dynamic.

    """

    def __init__(self) -> None:
        self.shapes = InputShapes()
        self._methods = Replacements()

    def replace(self) -> None:
        """Replace the methods."""
        openvino = sys.modules.get("openvino")
        request, queue = (getattr(openvino, name, None) for name in ("InferRequest", "AsyncInferQueue"))
        self._methods.set(request, "infer", self._inferring)
        self._methods.set(request, "start_async", self._starting)
        self._methods.set(request, "reset_state", _resetting)
        self._methods.set(queue, "start_async", self._starting)

    def restore(self) -> None:
        """Restore the methods. Can be called repeatedly."""
        self._methods.restore()

    def _inferring(self, original: Function) -> Function:
        task, raised = _task_named(preset.CALL), CallTask(preset.RAISED)
        return marked(original, task, time.monotonic_ns, self.shapes.note, raised)

    def _starting(self, original: Function) -> Function:
        task = _task_named(preset.STARTED)

        def task_of(request: Any, *inputs: Any) -> CallTask:
            found = task(request)
            if not inputs:
                keep_set_shapes(request)
            return found

        return marked(original, task_of, time.monotonic_ns, self.shapes.note)


def _resetting(original: Function) -> Function:
    return marked(original, _task_named(preset.RESET))


def _task_named(name: str) -> Callable[..., CallTask]:
    """Make the function that returns the task of a request's calls, with its model: several can be told apart."""
    kept = f"{_TASK}_{name}"

    def task_of(request: Any, *_: Any) -> CallTask:
        known: CallTask | None = getattr(request, kept, None)
        if known is None:
            inputs = _inputs_of(request)
            known = CallTask(f"{name} {inputs.task}".rstrip())
            setattr(request, INPUTS, inputs if any(port.dynamic for port in inputs.ports) else None)
            setattr(request, kept, known)
        return known

    return task_of


def _inputs_of(request: Any) -> ModelInputs:
    """The model of a request or a queue of requests; without a name and inputs if it cannot be found."""
    try:
        first = request if hasattr(request, "get_compiled_model") else request[0]
        compiled = first.get_compiled_model()
        return ModelInputs(task_name_of(address_of(compiled)), ports_of(compiled))
    except Exception:  # noqa: BLE001 - an empty queue, for instance: the call itself reports it
        return ModelInputs("", ())
