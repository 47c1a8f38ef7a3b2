"""What compiles models in this process, from the moment that tasks are collected: OpenVINO says little of it later.

OpenVINO's Python API is watched, also outside of traces: which file a model came from, how long it took to compile.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accel_magic.itt.marking import CallTask, marked
from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.model_objects import address_of, next_number, task_name_of
from accel_magic.subsystems.openvino.module_imports import forget, when_imported
from accel_magic.subsystems.openvino.replacements import Replacements

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Listener = Callable[[Any], object]
    """Takes a model that was just compiled."""

MOST: Final = 1000
"""Compilations that are remembered."""
_MODULE: Final = "openvino"
_PRECISION: Final = "INFERENCE_PRECISION_HINT"
_FILE: Final = "_accel_magic_file"
"""Attribute of a model that was read: its file."""


@dataclass(frozen=True)
class Compilation:
    """One call that compiled a model or loaded a compiled one.

    Attributes:
        address: Of the compiled model; another one may have it after this one is gone.
        task: The name that tasks of the model's inferences have; '' if it cannot be found.
        facts: Values of fields of `accel_magic.subsystems.openvino.compiled_models.CompiledModel`, by name.

    """

    address: int
    task: str
    facts: Mapping[str, str]


@dataclass
class _Watch:
    """What is replaced, and what was seen."""

    methods: Replacements
    made: deque[Compilation]
    listeners: list[Listener]


_watch: Final = _Watch(Replacements(), deque(maxlen=MOST), [])


def begin() -> None:
    """Watch OpenVINO's Python API: now if it is imported, else when it is. Can be called repeatedly."""
    when_imported(_MODULE, _replace)


def end() -> None:
    """Leave OpenVINO's Python API alone, unless somebody else has replaced its methods since."""
    forget(_MODULE)
    _watch.methods.restore()


def listen(listener: Listener) -> None:
    """Have a function called with each model that was compiled, until `unlisten`."""
    _watch.listeners.append(listener)


def unlisten(listener: Listener) -> None:
    """Undo `listen`; does nothing if it was undone."""
    with contextlib.suppress(ValueError):
        _watch.listeners.remove(listener)


def facts_of(address: int, task_name: str) -> Mapping[str, str]:
    """What is remembered of a compiled model's compilation; empty if it was not watched.

    Where no task's name was found, then or now, the newest compilation at that address counts: what lies behind a
    model in memory changes, and a second name there makes its own unknown.
    """
    known = (one for one in reversed(_watch.made) if one.address == address)
    return next((one.facts for one in known if not one.task or not task_name or one.task == task_name), {})


def _replace(module: Any) -> None:
    if _watch.methods:
        return
    for name in preset.COMPILED:
        _set(module.Core, name, _state, _remember)
    _set(module.Core, preset.READ, lambda: None, _note_file)


def _set(owner: Any, task: str, before: Callable[[], Any], after: Callable[..., object]) -> None:
    _watch.methods.set(
        owner,
        task.rpartition(".")[2],
        lambda original: marked(original, lambda *_: _task_named(task), before, after),
    )


@functools.cache
def _task_named(name: str) -> CallTask:
    return CallTask(name)


def _state() -> tuple[int, int | None, int | None]:
    """The time, the number of OpenVINO's next model, and the size of this process."""
    return time.monotonic_ns(), next_number(), _resident_bytes()


def _remember(
    before: tuple[int, int | None, int | None], compiled: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Remember a compilation, and report it. Nothing of this may disturb the program."""
    start_ns, first_id, resident = before
    with contextlib.suppress(Exception):
        address = address_of(compiled)
        facts = {
            "file": _file_of(_given(arguments, options)),
            "first_id": _text(first_id),
            "last_id": _text(next_number()),
            "start_ns": str(start_ns),
            "compile_ns": str(time.monotonic_ns() - start_ns),
            "memory_before": _text(resident),
            "memory_after": _text(_resident_bytes()),
            "requested_precision": _requested_precision(arguments, options),
        }
        _watch.made.append(Compilation(address, task_name_of(address), facts))
        for listener in tuple(_watch.listeners):
            listener(compiled)


def _note_file(_before: None, model: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Have a model that was read remember its file."""
    path = _given(arguments, options)
    if isinstance(path, str | os.PathLike):
        with contextlib.suppress(AttributeError):
            setattr(model, _FILE, os.path.abspath(path))  # noqa: PTH100 - the path as it is, without its links


def _given(arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The model: the first argument after `self`, by position or name; None without."""
    return arguments[1] if len(arguments) > 1 else options.get("model")


def _file_of(model: Any) -> str:
    """Path of a model that was given to `compile_model`: a path, or what `read_model` returned; '' if unknown."""
    if isinstance(model, str | os.PathLike):
        return os.path.abspath(model)  # noqa: PTH100
    return str(getattr(model, _FILE, ""))


def _requested_precision(arguments: tuple[Any, ...], options: dict[str, Any]) -> str:
    """The precision in the settings of a call that compiled, such as `f32`; '' without."""
    settings = [each for each in (*arguments, options.get("config")) if isinstance(each, dict)]
    value = next((each[_PRECISION] for each in settings if _PRECISION in each), "")
    return str(value.get_type_name() if hasattr(value, "get_type_name") else value)


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _resident_bytes() -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None
