"""What compiles models in this process, from the moment that tasks are collected: OpenVINO says little of it later.

OpenVINO's Python API is watched, also outside of traces: which file a model came from, how long it took to compile.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import sys
import time
from collections import deque
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accel_magic.itt.marking import CallTask, marked
from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.model_objects import address_of, task_name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Listener = Callable[[Any], object]
    """Takes a model that was just compiled."""

MOST: Final = 1000
"""Compilations that are remembered."""
_MODULE: Final = "openvino"
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

    replaced: list[tuple[Any, str, Any, Any]]
    made: deque[Compilation]
    listeners: list[Listener]
    finder: _AfterImport | None = None


_watch: Final = _Watch([], deque(maxlen=MOST), [])


def begin() -> None:
    """Watch OpenVINO's Python API: now if it is imported, else when it is. Can be called repeatedly."""
    module = sys.modules.get(_MODULE)
    if module is not None and hasattr(module, "Core"):
        _replace(module)
    elif _watch.finder is None:
        _watch.finder = _AfterImport()
        sys.meta_path.insert(0, _watch.finder)


def end() -> None:
    """Leave OpenVINO's Python API alone, unless somebody else has replaced its methods since."""
    if _watch.finder is not None:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(_watch.finder)
        _watch.finder = None
    while _watch.replaced:
        owner, name, original, made = _watch.replaced.pop()
        if getattr(owner, name, None) is made:
            setattr(owner, name, original)


def listen(listener: Listener) -> None:
    """Have a function called with each model that was compiled, until `unlisten`."""
    _watch.listeners.append(listener)


def unlisten(listener: Listener) -> None:
    """Undo `listen`; does nothing if it was undone."""
    with contextlib.suppress(ValueError):
        _watch.listeners.remove(listener)


def facts_of(address: int, task_name: str) -> Mapping[str, str]:
    """What is remembered of a compiled model's compilation; empty if it was not watched."""
    known = (one for one in reversed(_watch.made) if (one.address, one.task) == (address, task_name))
    return next((one.facts for one in known), {})


class _AfterImport(MetaPathFinder):
    """Replaces the methods once OpenVINO is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification that others find, with a loader that calls back; None for all other modules."""
        del path, target
        if fullname != _MODULE:
            return None
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        _watch.finder = None
        spec = importlib.util.find_spec(fullname)
        execute = getattr(spec and spec.loader, "exec_module", None)
        if spec is not None and execute is not None:
            spec.loader.exec_module = functools.partial(_load, execute)  # type: ignore[union-attr,method-assign]
        return spec


def _load(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    execute(module)
    begin()


def _replace(module: Any) -> None:
    if _watch.replaced:
        return
    for name in preset.COMPILED:
        _set(module.Core, name, _state, _remember)
    _set(module.Core, preset.READ, lambda: None, _note_file)


def _set(owner: Any, task: str, before: Callable[[], Any], after: Callable[..., object]) -> None:
    name = task.rpartition(".")[2]
    original = getattr(owner, name, None)
    if original is not None:
        made = marked(original, lambda *_: _task_named(task), before, after)
        _watch.replaced.append((owner, name, original, made))
        setattr(owner, name, made)


@functools.cache
def _task_named(name: str) -> CallTask:
    return CallTask(name)


def _state() -> tuple[int, int | None, int | None]:
    """The time, the number of OpenVINO's next model, and the size of this process."""
    return time.monotonic_ns(), _next_id(), _resident_bytes()


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
            "last_id": _text(_next_id()),
            "start_ns": str(start_ns),
            "compile_ns": str(time.monotonic_ns() - start_ns),
            "memory_before": _text(resident),
            "memory_after": _text(_resident_bytes()),
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


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _resident_bytes() -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None


def _next_id() -> int | None:
    """The number in the name that OpenVINO gives to the next model: models that it makes have ascending numbers."""
    with contextlib.suppress(Exception):
        openvino: Any = sys.modules[_MODULE]
        parameter = openvino.opset1.parameter([1])
        name = openvino.Model([openvino.opset1.result(parameter)], [parameter], "").get_name()
        return int(re.fullmatch(r"\D*(\d+)", name)[1])  # type: ignore[index]
    return None
