"""The compiled models of the traced process: what they are, and the layers that OpenVINO executes, and how.

A model is read right after it was compiled while the trace runs; those compiled before it, at its end, if Python code
still holds them.
"""

from __future__ import annotations

import contextlib
import fnmatch
import gc
import math
import sys
from dataclasses import MISSING, astuple, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from accel_magic.itt import collector, marking
from accel_magic.recording.observation import Observation, ObservedTable
from accel_magic.subsystems.openvino import compilations, model_files, pipelines, versions
from accel_magic.subsystems.openvino.input_shapes import ShapeCalls, is_dynamic
from accel_magic.subsystems.openvino.layer_work import work_of
from accel_magic.subsystems.openvino.machine_facts import machine_facts
from accel_magic.subsystems.openvino.model_objects import address_of, task_name_of
from accel_magic.subsystems.openvino.preset import INFERENCE
from accel_magic.subsystems.openvino.python_calls import PythonCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from accel_magic.probes.plan import Plan
    from accel_magic.recording.recording import Recording

MOST: Final = 20_000
"""Layers that are kept."""
MOST_MODELS: Final = 200
_ALIKE: Final = 4
"""Models with the same name and file of which the layers are read: a program may compile one again and again."""
_LONGEST: Final = 200
_LONGEST_PORTS: Final = 2000
_NAME: Final = "openvino"
_LAYERS: Final = "openvino.layers"
_MODELS: Final = "openvino.models"
_GENERATIONS: Final = "openvino.generations"
_SHAPES: Final = "openvino.shapes"


@dataclass(frozen=True)
class Layer:
    """One layer of a compiled model, as its runtime model describes it.

    Attributes:
        model: `CompiledModel.key` of its model; in recordings before version 0.3, the name of the model.
        name: Its name, which its tasks have too.
        type: Type in the plugin, such as `Convolution`; in the model's file, if there is no `implementation`.
        precision: Precision in which it computes, such as `f32`.
        layout: Layout of its first output, such as `acdb`.
        implementation: The chosen primitive, such as `brgconv_avx512`; `ref_any` is a plain loop.
        flops: Floating-point operations of one execution (`layer_work`); '' if they are not known.
        bytes: Bytes that one execution reads and writes at least; '' likewise.

    """

    model: str
    name: str
    type: str
    precision: str
    layout: str
    implementation: str
    flops: str = ""
    bytes: str = ""


@dataclass(frozen=True)
class CompiledModel:
    """One compiled model. Everything is text, '' for what is unknown.

    Attributes:
        key: Number, in the order in which they were compiled or found.
        name: Its name, as the user knows it.
        file: The file that it was read from.
        task: The name that tasks of its inferences have, such as `Model1`.
        first_id: With `last_id`, numbers of the names that OpenVINO gave to models while it was compiled: the plugins
            AUTO, HETERO and BATCH make several, each with its own inferences.
        last_id: See `first_id`.
        device: Devices that execute it, such as `CPU`.
        precision: `INFERENCE_PRECISION_HINT`, such as `f32`.
        hint: `PERFORMANCE_HINT`, such as `LATENCY`.
        streams: `NUM_STREAMS`.
        threads: `INFERENCE_NUM_THREADS`.
        requests: `OPTIMAL_NUMBER_OF_INFER_REQUESTS`.
        cache: Whether it was loaded from the cache of compiled models: `True` or `False`.
        inputs: Names, precisions and shapes, such as `data f32[1,3,224,224]`, separated by `; `.
        outputs: The same of its outputs.
        weights_bytes: Size of its constants.
        layers: Number of layers.
        stateful: Whether it has variables, which inferences keep for later ones: `True` or `False`.
        compile_ns: How long the call of `compile_model` took.
        start_ns: When it was called, on CLOCK_MONOTONIC: maybe before the trace.
        memory_before: Resident memory of the process before that call, bytes.
        memory_after: The same after it.
        ran_shapes: Of a model with dynamic inputs: those of its inputs for which its layers were read, such as
            `[1,3,48,320]`, in this order, separated by `; `; '' if it had not run.
        requested_precision: The precision that the call of `compile_model` asked for, such as `f32`.

    """

    key: str
    name: str = ""
    file: str = ""
    task: str = ""
    first_id: str = ""
    last_id: str = ""
    device: str = ""
    precision: str = ""
    hint: str = ""
    streams: str = ""
    threads: str = ""
    requests: str = ""
    cache: str = ""
    inputs: str = ""
    outputs: str = ""
    weights_bytes: str = ""
    layers: str = ""
    stateful: str = ""
    compile_ns: str = ""
    start_ns: str = ""
    memory_before: str = ""
    memory_after: str = ""
    ran_shapes: str = ""
    requested_precision: str = ""


def observer(plan: Plan) -> ModelsObserver | None:
    """What reads the compiled models, if tasks may be traced that are about them."""
    domains = (point.target for point in plan.points if point.kind == "itt")
    about = any(domain.startswith("ov::") or fnmatch.fnmatchcase(marking.DOMAIN, domain) for domain in domains)
    return ModelsObserver() if about else None


class ModelsObserver:
    """Reads the compiled models of this process."""

    def __init__(self) -> None:
        self._calls = PythonCalls()
        self._models: list[CompiledModel] = []
        self._layers: dict[str, list[Layer]] = {}
        self._weights: tuple[Path, ...] = ()
        self._seen: dict[tuple[int, str], int] = {}
        self._generations = pipelines.Generations()

    def begin(self) -> None:
        """Have the calls of OpenVINO's Python API reported."""
        compilations.begin()
        compilations.listen(self._compiled)
        pipelines.begin()
        pipelines.listen(self._generations)
        self._calls.replace()
        self._weights = model_files.mapped_weights()
        collector.note_files(f"{INFERENCE}*", model_files.WEIGHTS)

    def end(self) -> None:
        """Leave OpenVINO's Python API alone."""
        self._calls.restore()
        pipelines.unlisten(self._generations)
        compilations.unlisten(self._compiled)

    def found(self, plan: Plan) -> Observation | None:
        """OpenVINO's version and the compiled models, if tasks of its domains were traced; else None."""
        if not any(point.kind == "itt" and point.target.startswith("ov::") for point in plan.points):
            return None
        for model in _held():
            self._read(model)
            self._read_again(model)
        self._add_files()
        generations = self._generations.found()
        known = version()
        missing = versions.what_lacks(known)
        layers = [layer for own in self._layers.values() for layer in own]
        return Observation(
            machine={_NAME: known, **machine_facts(plan, layers, generations)} if known else {},
            notes=(missing,) if missing else (),
            tables={
                name: ObservedTable(tuple(each.name for each in fields(kind)), tuple(map(astuple, rows)))
                for name, kind, rows in (
                    (_MODELS, CompiledModel, self._models),
                    (_LAYERS, Layer, layers),
                    (_GENERATIONS, pipelines.Generation, generations),
                    (_SHAPES, ShapeCalls, self._calls.shapes.found()),
                )
                if rows
            },
        )

    def _compiled(self, compiled: Any) -> None:
        """Read a model that was just compiled."""
        self._read(compiled)

    def _add_files(self) -> None:
        """Add the models whose files are mapped and that no Python code here holds: C++ code, or another process."""
        weights = dict.fromkeys((*self._weights, *model_files.mapped_weights(), *collector.noted_files()))
        for file in filter(None, map(model_files.read, weights)):
            alike = [model for model in self._models if file.path == model.file]
            alike += [model for model in self._models if not model.file and model.name == file.name]
            if alike or len(self._models) >= MOST_MODELS:
                self._models = [replace(each, file=file.path) if each in alike else each for each in self._models]
                continue
            key = str(len(self._models))
            self._keep(key, [Layer(key, name, kind, "", "", "") for name, kind in file.layers])
            size = str(file.weights_bytes)
            stateful = str(any(kind in _STATE for _, kind in file.layers))
            self._models.append(
                CompiledModel(key=key, name=file.name, file=file.path, weights_bytes=size, stateful=stateful)
            )

    def _read(self, compiled: Any) -> None:
        """Add a compiled model, unless it is known."""
        address = address_of(compiled)
        task = task_name_of(address)
        if (address, task) in self._seen or len(self._models) >= MOST_MODELS:
            return
        self._seen[address, task] = len(self._models)
        facts = compilations.facts_of(address, task)
        key = str(len(self._models))
        name = _property(compiled, "NETWORK_NAME")
        alike = sum(name == model.name and facts.get("file", "") == model.file for model in self._models)
        operations = _operations(compiled) if alike < _ALIKE else ()
        layers = [_layer(key, operation) for operation in operations]
        self._keep(key, layers)
        inputs = _ports(compiled, "inputs")
        self._models.append(
            CompiledModel(
                key=key,
                name=name,
                task=task,
                **{field: _property(compiled, property_) for field, property_ in _PROPERTIES.items()},
                inputs=inputs,
                outputs=_ports(compiled, "outputs"),
                weights_bytes=_text(_weights_bytes(operations) if operations else None),
                layers=str(len(layers)) if layers else "",
                stateful=str(any(layer.type in _STATE for layer in layers)) if layers else "",
                ran_shapes=_ran_shapes(operations) if is_dynamic(inputs) else "",
                **facts,
            )
        )

    def _keep(self, key: str, layers: list[Layer]) -> None:
        """Keep the layers of a model instead of those that are known, as far as there is room."""
        others = sum(len(own) for model, own in self._layers.items() if model != key)
        self._layers[key] = layers[: max(MOST - others, 0)]

    def _read_again(self, compiled: Any) -> None:
        """Read the layers of a model with dynamic inputs after it has run: it may have chosen other implementations."""
        address = address_of(compiled)
        place = self._seen.get((address, task_name_of(address)))
        if place is None:
            return
        model = self._models[place]
        if is_dynamic(model.inputs) and not model.ran_shapes and self._layers.get(model.key):
            operations = _operations(compiled)
            shapes = _ran_shapes(operations)
            if shapes:
                self._keep(model.key, [_layer(model.key, operation) for operation in operations])
                self._models[place] = replace(model, ran_shapes=shapes)


_STATE: Final = frozenset({"MemoryInput", "MemoryOutput", "ReadValue", "Assign", "PagedAttention"})
"""Types of layers that read or write variables."""
_PROPERTIES: Final = {
    "device": "EXECUTION_DEVICES",
    "precision": "INFERENCE_PRECISION_HINT",
    "hint": "PERFORMANCE_HINT",
    "streams": "NUM_STREAMS",
    "threads": "INFERENCE_NUM_THREADS",
    "requests": "OPTIMAL_NUMBER_OF_INFER_REQUESTS",
    "cache": "LOADED_FROM_CACHE",
}

Row = TypeVar("Row", Layer, CompiledModel, pipelines.Generation, ShapeCalls)


def layers_in(recording: Recording) -> tuple[Layer, ...]:
    """The layers of the compiled models that were observed; none without."""
    return _rows(recording, Layer, _LAYERS, _NAME)


def models_in(recording: Recording) -> tuple[CompiledModel, ...]:
    """The compiled models that were observed; none without."""
    return _rows(recording, CompiledModel, _MODELS)


def generations_in(recording: Recording) -> tuple[pipelines.Generation, ...]:
    """The generations that were observed; none without."""
    return _rows(recording, pipelines.Generation, _GENERATIONS)


def shapes_in(recording: Recording) -> tuple[ShapeCalls, ...]:
    """The shapes of inputs that were observed; none without."""
    return _rows(recording, ShapeCalls, _SHAPES)


def _rows(recording: Recording, kind: type[Row], *names: str) -> tuple[Row, ...]:
    """The rows of the first table that the recording has; older ones lack some columns that have a default."""
    table = next((recording.observed[name] for name in names if name in recording.observed), None)
    needed = {each.name for each in fields(kind) if each.default is MISSING}
    if table is None or not needed <= set(table.columns):
        return ()
    places = {each.name: table.columns.index(each.name) for each in fields(kind) if each.name in table.columns}
    return tuple(kind(**{name: row[place] for name, place in places.items()}) for row in table.rows)


def version() -> str:
    """OpenVINO's version: of this process if it has imported it, else of a library that reported tasks; else ''."""
    imported = str(getattr(sys.modules.get("openvino"), "__version__", ""))
    libraries = map(versions.of_library, collector.reporting_libraries())
    return imported or next(filter(None, libraries), "")


_HOLDERS: Final[dict[str, Callable[[Any], Any]]] = {
    "CompiledModel": lambda compiled: compiled,
    "InferRequest": lambda request: request.get_compiled_model(),
    "AsyncInferQueue": lambda queue: queue[0].get_compiled_model(),
}
"""OpenVINO's classes that lead to a compiled model."""


def _held() -> Iterator[Any]:
    """The compiled models that Python code holds, or requests of them; none without OpenVINO."""
    module = sys.modules.get("openvino")
    holders = {getattr(module, name): get for name, get in _HOLDERS.items() if hasattr(module, name)}
    if not holders:
        return
    for each in gc.get_objects():
        get = holders.get(type(each))
        if get is not None:
            with contextlib.suppress(Exception):  # a queue without requests, an object that is being destroyed
                yield get(each)


def _operations(compiled: Any) -> Iterable[Any]:
    try:
        return tuple(compiled.get_runtime_model().get_ordered_ops())
    except Exception:  # noqa: BLE001 - not every plugin has a runtime model, and nothing depends on it
        return ()


def _layer(model: str, operation: Any) -> Layer:
    info = operation.get_rt_info()
    kind = _value(info, "layerType")
    work = work_of(operation, kind)
    layouts, precisions = _value(info, "outputLayouts"), _value(info, "outputPrecisions")
    precision = _value(info, "runtimePrecision")
    return Layer(
        model=model,
        name=operation.get_friendly_name(),
        type=kind,
        precision=precision if precision not in {"", "dynamic", "undefined"} else precisions.partition(",")[0],
        layout=layouts.partition(",")[0],
        implementation=_value(info, "primitiveType"),
        flops=_text(work.flops),
        bytes=_text(work.bytes),
    )


def _ran_shapes(operations: Iterable[Any]) -> str:
    """Shapes of the inputs in a runtime model, in alphabetical order; '' if one is dynamic, because it has not run."""
    inputs = [operation for operation in operations if _value(operation.get_rt_info(), "layerType") == "Input"]
    with contextlib.suppress(Exception):
        shapes = sorted(str(one.output(0).get_partial_shape()).replace(" ", "") for one in inputs)
        return "" if any(map(is_dynamic, shapes)) else "; ".join(shapes)[:_LONGEST_PORTS]
    return ""


def _value(info: Any, key: str) -> str:
    try:
        return str(info[key].value)[:_LONGEST]
    except (KeyError, RuntimeError, AttributeError):
        return ""


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _property(compiled: Any, name: str) -> str:
    """A property as text: `f32` for a type, `LATENCY` for a value of an enumeration, `CPU,NPU` for a list."""
    try:
        value = compiled.get_property(name)
    except Exception:  # noqa: BLE001 - each plugin has its own properties
        return ""
    if hasattr(value, "get_type_name"):
        value = value.get_type_name()
    if isinstance(value, list | tuple | set):
        value = ",".join(map(str, value))
    return str(value).rpartition("Mode.")[2].rpartition("Hint.")[2][:_LONGEST]


def _ports(compiled: Any, name: str) -> str:
    with contextlib.suppress(Exception):
        return "; ".join(_port(port) for port in getattr(compiled, name))[:_LONGEST_PORTS]
    return ""


def _port(port: Any) -> str:
    names = sorted(port.get_names(), key=lambda name: (len(name), name))
    kind = f"{port.get_element_type().get_type_name()}{port.get_partial_shape()}".replace(" ", "")
    return f"{names[0]} {kind}" if names else kind


def _weights_bytes(operations: Iterable[Any]) -> int:
    """Size of the constants."""
    sizes = 0.0
    for operation in operations:
        if _value(operation.get_rt_info(), "layerType") == "Const":
            output = operation.output(0)
            with contextlib.suppress(Exception):  # a type without a fixed size
                sizes += math.prod(output.get_shape()) * output.get_element_type().bitwidth / 8
    return int(sizes)
