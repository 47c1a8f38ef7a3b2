"""OpenVINO's inferences, layers and compilation: ITT tasks of its libraries, oneDNN and oneTBB.

Domains as of OpenVINO 2025.0 to 2026.4; a version that lacks one reports no tasks for it.
"""

from __future__ import annotations

from typing import Final

from accel_magic.probes.presets import PresetProbe

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
LAYERS: Final = "ov::op::*::details"
"""Domains with one task per execution of a node of the compiled model, under its friendly name."""
TYPES: Final = "ov::op::*::exec"
"""Domains with the same by the node's type, such as `Convolution::execute`."""
PRIMITIVES: Final = "dnnl::primitive::execute"
CREATED: Final = "dnnl::primitive::create"
LOOPS: Final = "tbb"
COMPILED: Final = ("openvino.compile_model", "openvino.import_model")
"""Tasks of the calls from Python that compile a model or load a compiled one (`itt.marking`)."""

PROBES: Final[tuple[PresetProbe, ...]] = (
    PresetProbe("openvino:requests", f"itt:{INFERENCES}:*"),
    PresetProbe("openvino:requests", f"uprobe:{LIBRARY}:*{START_ASYNC}*"),
    PresetProbe("openvino:layers", f"itt:{INFERENCES}:*"),
    PresetProbe("openvino:layers", f"itt:{LAYERS}:*"),
    PresetProbe("openvino:layers", f"itt:{TYPES}:*"),
    PresetProbe("openvino:primitives", f"itt:{PRIMITIVES}:*"),
    PresetProbe("openvino:threads", f"itt:{LOOPS}:*"),
    PresetProbe("openvino:compile", f"itt:{CREATED}:*"),
    *(PresetProbe("openvino:compile", f"itt:python:{name}") for name in COMPILED),
    PresetProbe("openvino:threads", "tracepoint:syscalls:sys_enter_sched_yield"),
)
