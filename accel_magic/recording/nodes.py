"""What OpenVINO says of the compiled models in this process: the nodes that it executes, and how."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST: Final = 20_000
"""Nodes that are kept."""
_LONGEST: Final = 200


@dataclass(frozen=True)
class Node:
    """One node of a compiled model, as its runtime model describes it.

    Attributes:
        model: Name of the model.
        name: Name of the node; tasks of the layer have it.
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


def version() -> str:
    """OpenVINO's version, if this process has imported it; else ''."""
    return str(getattr(sys.modules.get("openvino"), "__version__", ""))


def of_this_process() -> tuple[Node, ...]:
    """The nodes of all compiled models that Python code holds, or requests of them; none without OpenVINO."""
    openvino = sys.modules.get("openvino")
    models: dict[type, Callable[[Any], Any]] = {
        getattr(openvino, name): get for name, get in _HOLDERS.items() if hasattr(openvino, name)
    }
    if not models:
        return ()
    found: dict[tuple[str, str], Node] = {}
    for each in gc.get_objects():
        if type(each) in models and len(found) < MOST:
            for node in _nodes(each, models[type(each)]):
                found.setdefault((node.model, node.name), node)
    return tuple(found.values())[:MOST]


_HOLDERS: Final[dict[str, Callable[[Any], Any]]] = {
    "CompiledModel": lambda compiled: compiled,
    "InferRequest": lambda request: request.get_compiled_model(),
    "AsyncInferQueue": lambda queue: queue[0].get_compiled_model(),
}
"""OpenVINO's classes that lead to a compiled model."""


def _nodes(holder: Any, compiled_of: Callable[[Any], Any]) -> Iterator[Node]:
    try:
        compiled = compiled_of(holder)
        model = str(compiled.get_property("NETWORK_NAME"))
        nodes = compiled.get_runtime_model().get_ordered_ops()
    except Exception:  # noqa: BLE001 -- not every plugin has a runtime model, and nothing depends on it
        return
    for node in nodes:
        told = node.get_rt_info()
        layouts, precisions = _text(told, "outputLayouts"), _text(told, "outputPrecisions")
        precision = _text(told, "runtimePrecision")
        yield Node(
            model=model[:_LONGEST],
            name=node.get_friendly_name(),
            type=_text(told, "layerType"),
            precision=precision if precision not in {"", "dynamic", "undefined"} else precisions.partition(",")[0],
            layout=layouts.partition(",")[0],
            implementation=_text(told, "primitiveType"),
        )


def _text(told: Any, key: str) -> str:
    try:
        return str(told[key].value)[:_LONGEST]
    except (KeyError, RuntimeError, AttributeError):
        return ""
