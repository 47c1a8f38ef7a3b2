"""OpenVINO's inferences, layers and compilation: ITT tasks of its libraries, oneDNN and oneTBB."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.probes.globs import matcher
from accel_magic.probes.presets import Preset, PresetProbe, is_of

if TYPE_CHECKING:
    from accel_magic.probes.plan import ProbePoint

NAME: Final = "openvino"
LIBRARY: Final = "libopenvino"

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
RAISED: Final = "openvino.raised"
"""Task within a call from Python that waits for an inference, if the call raised an exception."""
LAYERS: Final = "ov::op::*::details"
"""Domains with one task per execution of a node of the compiled model, under its friendly name."""
TYPES: Final = "ov::op::*::exec"
"""Domains with the same by the node's type, such as `Convolution::execute`."""
PRIMITIVES: Final = "dnnl::primitive::execute"
CREATED: Final = "dnnl::primitive::create"
LOOPS: Final = "tbb"
COMPILED: Final = ("openvino.compile_model", "openvino.import_model")
"""Tasks of the calls from Python that compile a model or load a compiled one (`python_calls`)."""
READ: Final = "openvino.read_model"
"""Task of the calls from Python that read a model from a file."""
CALL: Final = "openvino.infer"
"""Beginning of the tasks of the calls from Python that wait for an inference, `InferRequest.infer` and
`CompiledModel.__call__`, followed by the model's name: `Model1`."""
STARTED: Final = "openvino.start_async"
"""Beginning of the tasks of the calls from Python that do not wait, followed by the model's name: `Model1`."""

GENERATED: Final = "openvino.generate"
"""Beginning of the tasks of the calls from Python that generate tokens, followed by the class: `LLMPipeline`."""
STEPPED: Final = "openvino.step"
"""Beginning of the tasks of the calls from Python that do one step of all requests of a pipeline."""
RESET: Final = "openvino.reset_state"
"""Beginning of the tasks of the calls from Python that forget the state of a model, followed by the model's name."""
LOADED: Final = "openvino.load"
"""Beginning of the tasks of the calls from Python that make a pipeline, and compile its models."""

YIELD: Final = "sys_enter_sched_yield"
"""The call in which TBB's workers spin."""
SLEEP: Final = "sys_enter_futex"
"""The call in which they sleep."""
FAULT: Final = "page_fault_user"

_PYTHON: Final = (CALL, STARTED, GENERATED, STEPPED, RESET, LOADED)
_CALLS: Final = tuple(f"itt:python:{name}*" for name in (CALL, STARTED, GENERATED, STEPPED, RESET))

PRESET: Final = Preset(
    name=NAME,
    probes=(
        PresetProbe("openvino:requests", f"itt:{INFERENCES}:*"),
        *(PresetProbe("openvino:requests", probe) for probe in _CALLS),
        PresetProbe("openvino:requests", f"uprobe:{LIBRARY}:*{START_ASYNC}*"),
        PresetProbe("openvino:requests", f"uprobe:{LIBRARY}:*{EXCEPTION}*"),
        PresetProbe("openvino:requests", f"itt:python:{RAISED}"),
        PresetProbe("openvino:layers", f"itt:{INFERENCES}:*"),
        *(PresetProbe("openvino:layers", probe) for probe in _CALLS),
        PresetProbe("openvino:layers", f"itt:{LAYERS}:*", nesting="covering"),
        PresetProbe("openvino:layers", f"itt:{TYPES}:*", nesting="naming"),
        PresetProbe("openvino:primitives", f"itt:{PRIMITIVES}:*", nesting="covering"),
        PresetProbe("openvino:threads", f"itt:{LOOPS}:*", nesting="covered"),
        PresetProbe("openvino:compile", f"itt:{CREATED}:*"),
        *(PresetProbe("openvino:compile", f"itt:python:{name}") for name in (*COMPILED, f"{LOADED}*")),
        PresetProbe("openvino:threads", f"tracepoint:syscalls:{YIELD}", counted=True),
        PresetProbe("openvino:threads", f"latency:tracepoint:syscalls:{SLEEP}", counted=True),
        PresetProbe("openvino:memory", f"itt:{INFERENCES}:*", page_faults=True),
        PresetProbe("openvino:memory", f"tracepoint:exceptions:{FAULT}", counted=True),
    ),
    install=MappingProxyType({LIBRARY: "pip install openvino, and import it before the traced cell"}),
    for_users=True,
)


def is_layer(point: ProbePoint) -> bool:
    """Whether a probe point is a task of executions of one node, under its friendly name."""
    return point.kind == "itt" and matcher(LAYERS)(point.target)


def names_openvino(point: ProbePoint) -> bool:
    """Whether a probe point can only be OpenVINO's: of the preset, or tasks of its domains."""
    own = point.target.startswith("ov::") or point.function.startswith((*COMPILED, *_PYTHON))
    return own or is_of(point.probe, NAME)
