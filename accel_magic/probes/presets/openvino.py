"""OpenVINO's inferences, layers and compilation: ITT tasks of its libraries, oneDNN and oneTBB.

What the wheels from PyPI report, tried with each: up to 2025.3 only oneTBB's loops; 2025.4 also primitives; from 2026.0
on inferences and types of layers; layers by their names from 2026.4 on (before, all had the name of the first).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.probes.presets import PresetProbe

if TYPE_CHECKING:
    from accel_magic.probes.plan import ProbePoint

LIBRARY: Final = "libopenvino"
INSTALL: Final = {LIBRARY: "pip install openvino, and import it before the traced cell"}

INFERENCES: Final = "ov::phases::*::inference"
"""Domains with one task per inference; on the NPU also with tasks for its steps."""
INFERENCE: Final = "SyncInfer"
"""Beginning of the names of the tasks that are whole inferences: `SyncInferenceCPU::infer::Model1`."""
NPU_WAIT: Final = "Pipeline::pull"
"""The step of an inference on the NPU that waits for it."""
NPU_STEPS: Final = ("Inference::start", "Inference::get_result")
"""The steps that copy inputs and outputs, around submission and wait."""
START_ASYNC: Final = "ov12InferRequest11start_async"
"""Part of the mangled name of `ov::InferRequest::start_async`."""
EXCEPTION: Final = "ov9ExceptionC2E"
"""Part of the mangled name of the constructor that all exceptions of OpenVINO call."""
LAYERS: Final = "ov::op::*::details"
"""Domains with one task per execution of a node of the compiled model, under its friendly name."""
TYPES: Final = "ov::op::*::exec"
"""Domains with the same by the node's type, such as `Convolution::execute`."""
PRIMITIVES: Final = "dnnl::primitive::execute"
CREATED: Final = "dnnl::primitive::create"
LOOPS: Final = "tbb"
COMPILED: Final = ("openvino.compile_model", "openvino.import_model")
"""Tasks of the calls from Python that compile a model or load a compiled one (`itt.marking`)."""

YIELD: Final = "sys_enter_sched_yield"
"""The call in which TBB's workers spin."""
SLEEP: Final = "sys_enter_futex"
"""The call in which they sleep."""
FAULT: Final = "page_fault_user"

INFERENCES_SINCE: Final = (2026, 0)
LAYERS_SINCE: Final = (2026, 4)


def names_layers(version: str) -> bool:
    """Whether a version of OpenVINO tells layers apart; True if the version is unknown."""
    return _parsed(version) >= LAYERS_SINCE


def what_lacks(version: str) -> str:
    """Note for the user about what a version of OpenVINO does not report; '' if nothing."""
    parsed = _parsed(version)
    newer = "OpenVINO 2026.4 and newer do: pip install -U openvino"
    short = ".".join(map(str, parsed))
    if parsed < INFERENCES_SINCE:
        return f"OpenVINO {short} does not report inferences and layers; {newer}"
    return "" if parsed >= LAYERS_SINCE else f"OpenVINO {short} does not tell layers apart; {newer}"


def _parsed(version: str) -> tuple[int, ...]:
    """Year and release of a version such as `2026.4.1-22982-e213a147257`; a late one if it is unknown."""
    numbers = version.partition("-")[0].split(".")[:2]
    return tuple(map(int, numbers)) if all(number.isdecimal() for number in numbers) else (9999, 0)


PROBES: Final[tuple[PresetProbe, ...]] = (
    PresetProbe("openvino:requests", f"itt:{INFERENCES}:*"),
    PresetProbe("openvino:requests", f"uprobe:{LIBRARY}:*{START_ASYNC}*"),
    PresetProbe("openvino:requests", f"uprobe:{LIBRARY}:*{EXCEPTION}*"),
    PresetProbe("openvino:layers", f"itt:{INFERENCES}:*"),
    PresetProbe("openvino:layers", f"itt:{LAYERS}:*"),
    PresetProbe("openvino:layers", f"itt:{TYPES}:*"),
    PresetProbe("openvino:primitives", f"itt:{PRIMITIVES}:*"),
    PresetProbe("openvino:threads", f"itt:{LOOPS}:*"),
    PresetProbe("openvino:compile", f"itt:{CREATED}:*"),
    *(PresetProbe("openvino:compile", f"itt:python:{name}") for name in COMPILED),
    PresetProbe("openvino:threads", f"tracepoint:syscalls:{YIELD}"),
    PresetProbe("openvino:threads", f"latency:tracepoint:syscalls:{SLEEP}"),
    PresetProbe("openvino:memory", f"itt:{INFERENCES}:*"),
    PresetProbe("openvino:memory", f"tracepoint:exceptions:{FAULT}"),
)


def names_openvino(point: ProbePoint) -> bool:
    """Whether a probe point can only be OpenVINO's: one of these presets, or tasks of its domains."""
    return point.probe.startswith("openvino") or point.target.startswith("ov::") or point.function in COMPILED
