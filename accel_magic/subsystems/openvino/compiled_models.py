"""The compiled models in this process: the layers that OpenVINO executes, and how."""

from __future__ import annotations

import gc
import sys
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from accel_magic.recording.observation import Observation, ObservedTable
from accel_magic.subsystems.openvino import versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.probes.plan import Plan
    from accel_magic.recording.recording import Recording

MOST: Final = 20_000
"""Layers that are kept."""
_LONGEST: Final = 200


@dataclass(frozen=True)
class Layer:
    """One layer of a compiled model, as its runtime model describes it.

    Attributes:
        model: Name of the model.
        name: Its name, which its tasks have too.
        type: Type in the plugin, such as `Convolution`.
        precision: Precision in which it computes, such as `f32`.
        layout: Layout of its first output, such as `acdb`.
        implementation: The chosen primitive, such as `brgconv_avx512`; `ref_any` is a plain loop.

    """

    model: str
    name: str
    type: str
    precision: str
    layout: str
    implementation: str


_NAME: Final = "openvino"


def observe(plan: Plan) -> Observation | None:
    """OpenVINO's version and the layers of its compiled models, if tasks of its domains were traced; else None."""
    if not any(point.kind == "itt" and point.target.startswith("ov::") for point in plan.points):
        return None
    known = version()
    missing = versions.what_lacks(known)
    rows = tuple(astuple(layer) for layer in layers_of_this_process())
    return Observation(
        machine={_NAME: known} if known else {},
        notes=(missing,) if missing else (),
        table=ObservedTable(tuple(each.name for each in fields(Layer)), rows) if rows else None,
    )


def layers_in(recording: Recording) -> tuple[Layer, ...]:
    """The layers that were observed when the recording ended; none without."""
    table = recording.observed.get(_NAME)
    columns = tuple(each.name for each in fields(Layer))
    if table is None or not set(columns) <= set(table.columns):
        return ()
    order = [table.columns.index(name) for name in columns]
    return tuple(Layer(*(row[place] for place in order)) for row in table.rows)


def version() -> str:
    """OpenVINO's version, if this process has imported it; else ''."""
    return str(getattr(sys.modules.get("openvino"), "__version__", ""))


def layers_of_this_process() -> tuple[Layer, ...]:
    """The layers of all compiled models that Python code holds, or requests of them; none without OpenVINO."""
    module = sys.modules.get("openvino")
    models: dict[type, Callable[[Any], Any]] = {
        getattr(module, name): get for name, get in _HOLDERS.items() if hasattr(module, name)
    }
    if not models:
        return ()
    found: dict[tuple[str, str], Layer] = {}
    for each in gc.get_objects():
        if type(each) in models and len(found) < MOST:
            for layer in _layers(each, models[type(each)]):
                found.setdefault((layer.model, layer.name), layer)
    return tuple(found.values())[:MOST]


_HOLDERS: Final[dict[str, Callable[[Any], Any]]] = {
    "CompiledModel": lambda compiled: compiled,
    "InferRequest": lambda request: request.get_compiled_model(),
    "AsyncInferQueue": lambda queue: queue[0].get_compiled_model(),
}
"""OpenVINO's classes that lead to a compiled model."""


def _layers(holder: Any, compiled_of: Callable[[Any], Any]) -> Iterator[Layer]:
    try:
        compiled = compiled_of(holder)
        model = str(compiled.get_property("NETWORK_NAME"))
        operations = compiled.get_runtime_model().get_ordered_ops()
    except Exception:  # noqa: BLE001 -- not every plugin has a runtime model, and nothing depends on it
        return
    for operation in operations:
        info = operation.get_rt_info()
        layouts, precisions = _text(info, "outputLayouts"), _text(info, "outputPrecisions")
        precision = _text(info, "runtimePrecision")
        yield Layer(
            model=model[:_LONGEST],
            name=operation.get_friendly_name(),
            type=_text(info, "layerType"),
            precision=precision if precision not in {"", "dynamic", "undefined"} else precisions.partition(",")[0],
            layout=layouts.partition(",")[0],
            implementation=_text(info, "primitiveType"),
        )


def _text(info: Any, key: str) -> str:
    try:
        return str(info[key].value)[:_LONGEST]
    except (KeyError, RuntimeError, AttributeError):
        return ""
