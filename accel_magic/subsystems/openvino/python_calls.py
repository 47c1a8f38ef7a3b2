"""OpenVINO's Python API while it is traced: the calls that infer are tasks.

A return probe on a C++ function would be the other way to time a library's function, but an exception that passes
through the function would then end the process: the kernel replaces the return address, so that the exception's
handler is not found.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from accel_magic.itt.marking import CallTask, marked
from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.model_objects import address_of, task_name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[..., Any]

_TASK: Final = "_accel_magic_task"
"""Attribute of requests and queues of requests: the task of their asynchronous calls."""


class PythonCalls:
    """Replaces methods of OpenVINO's Python classes, if it is imported, and restores them."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def replace(self) -> None:
        """Replace the methods."""
        openvino = sys.modules.get("openvino")
        self._set(openvino, "InferRequest", "infer", _inferring)
        self._set(openvino, "InferRequest", "start_async", _starting)
        self._set(openvino, "AsyncInferQueue", "start_async", _starting)

    def _set(self, module: Any, kind: str, name: str, replacement: Callable[[Function], Function]) -> None:
        owner = getattr(module, kind, None)
        original = getattr(owner, name, None)
        if original is not None:
            made = replacement(original)
            self._replaced.append((owner, name, original, made))
            setattr(owner, name, made)

    def restore(self) -> None:
        """Restore the methods, unless somebody else has replaced them since. Can be called repeatedly."""
        while self._replaced:
            owner, name, original, made = self._replaced.pop()
            if getattr(owner, name, None) is made:
                setattr(owner, name, original)


def _inferring(original: Function) -> Function:
    whole = CallTask(preset.CALL)
    return marked(original, lambda *_: whole, raised=CallTask(preset.RAISED))


def _starting(original: Function) -> Function:
    return marked(original, _task_of)


def _task_of(request: Any, *_: Any) -> CallTask:
    """The task of a request's asynchronous calls, with its model, so that those of several can be told apart."""
    known: CallTask | None = getattr(request, _TASK, None)
    if known is None:
        known = CallTask(f"{preset.STARTED} {_model_task(request)}".rstrip())
        setattr(request, _TASK, known)
    return known


def _model_task(request: Any) -> str:
    """The name that tasks of the inferences of a request or a queue of requests have; '' if it cannot be found."""
    try:
        first = request if hasattr(request, "get_compiled_model") else request[0]
        return task_name_of(address_of(first.get_compiled_model()))
    except Exception:  # noqa: BLE001 - an empty queue, for instance: the call itself reports it
        return ""
