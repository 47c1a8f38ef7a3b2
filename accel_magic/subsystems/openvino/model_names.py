"""The names of models: tasks of inferences have OpenVINO's own, such as `Model12`; users know others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas as pd

from accel_magic.subsystems.openvino.compiled_models import layers_in, models_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel_magic.recording.recording import Recording
    from accel_magic.subsystems.openvino.compiled_models import CompiledModel

Instance = tuple[int, str]
"""Process, and the name that tasks of its inferences have: each process counts its own models."""
_PRECISION: Final = r"(?:(?:f|bf|i|s|u|nf)\d+|boolean)"
_FORMAT: Final = rf"(?:{_PRECISION}_)?[aA][a-zA-Z\d]*"
INSERTED: Final = rf"_(?:{_PRECISION}_{_PRECISION}|{_FORMAT}_{_FORMAT})_"
"""What the name of a node that the plugin inserted has between those of its neighbors: precisions, layouts, or both."""
_PREFIX: Final = "Model"
_ANYBODYS: Final = re.compile(r"\w+_Frontend_IR|main_graph|torch[-_ ]jit.*|tf2onnx|jax2tf.*|Model\d+")
"""Names that OpenVINO's readers and other tools' writers of models give to any of them."""


def task_name(task: str) -> str:
    """Name of the model in an inference's task: `SyncInferenceCPU::infer::Model1` is of `Model1`; '' if it has none."""
    return task.rpartition("::")[2] if "::" in task else ""


@dataclass(frozen=True)
class ModelNames:
    """What the models of a trace are called.

    Attributes:
        labels: The name of each model, different for each: the user's if it is known, else OpenVINO's.
        known: The compiled models that are known by that, with their layers' names.

    """

    labels: Mapping[Instance, str]
    known: Mapping[Instance, CompiledModel]

    @classmethod
    def of_trace(cls, recording: Recording, inferences: pd.DataFrame, executions: pd.DataFrame) -> ModelNames:
        """Match the inferences of a trace with the compiled models that were observed in its process.

        Args:
            recording: The trace.
            inferences: Its inferences: `pid`, `name`.
            executions: The executions of their layers: `inference`, `parent`, `name`.

        """
        instances, layers = _executed(inferences, executions)
        models = models_in(recording)
        known = _matched(instances, layers, models, _observed_layers(recording))
        return cls(_labels(instances, known, layers), known)

    def of(self, inferences: pd.DataFrame) -> pd.Categorical[str]:
        """The name of each inference's model, '' if it has none."""
        keys = zip(inferences["pid"], map(task_name, inferences["name"].astype(str)), strict=True)
        return pd.Categorical([self.labels.get(key, "") for key in keys])


def _executed(
    inferences: pd.DataFrame, executions: pd.DataFrame
) -> tuple[list[Instance], dict[Instance, frozenset[str]]]:
    """The models that ran inferences, in OpenVINO's order, and the names of their outermost layers."""
    keys = list(zip(inferences["pid"].tolist(), map(task_name, inferences["name"].astype(str)), strict=True))
    inside = executions[(executions["inference"] >= 0) & (executions["parent"] < 0)]
    layers: dict[Instance, set[str]] = {key: set() for key in keys if key[1]}
    pairs = inside[["inference", "name"]].drop_duplicates() if keys else inside.iloc[:0]
    for place, name in zip(pairs["inference"], pairs["name"].astype(str), strict=True):
        if keys[place] in layers:
            layers[keys[place]].add(name)
    return sorted(layers, key=_order), {key: frozenset(names) for key, names in layers.items()}


def _order(instance: Instance) -> tuple[int, int]:
    return instance[0], _number(instance[1]) or 0


def _number(name: str) -> int | None:
    digits = name.removeprefix(_PREFIX)
    return int(digits) if digits.isdecimal() else None


def _observed_layers(recording: Recording) -> dict[str, set[str]]:
    """Names of the layers of each observed model, by its key."""
    found: dict[str, set[str]] = {}
    for layer in layers_in(recording):
        found.setdefault(layer.model, set()).add(layer.name)
    return found


def _matched(
    instances: Sequence[Instance],
    layers: Mapping[Instance, frozenset[str]],
    models: Sequence[CompiledModel],
    observed: Mapping[str, set[str]],
) -> dict[Instance, CompiledModel]:
    """What is known of models: by the name of their tasks, by the numbers that compiling used, else by their layers.

    The name that a compiled model has is of no task if it is that of a plugin like HETERO, which compiles models of its
    own.
    """
    run = {name for _, name in instances}
    unnamed = [model for model in models if model.task not in run]
    found: dict[Instance, CompiledModel] = {}
    for instance in instances:
        number = _number(instance[1])
        made = [model for model in unnamed if number is not None and _made(model, number)]
        for model in (*(model for model in models if model.task == instance[1]), *made):
            if _fits(layers[instance], observed.get(model.key)):
                found.setdefault(instance, model)
    named = {model.key for model in found.values()}
    rest = [model for model in unnamed if model.key not in named and model.key in observed]
    for instance in (instance for instance in instances if instance not in found and layers[instance]):
        alike = [model for model in rest if _fits(layers[instance], observed[model.key])]
        if len(alike) == 1:
            found[instance] = alike[0]
    return found


def _fits(executed: frozenset[str], observed: set[str] | None) -> bool:
    """Whether these layers can be of a model; anything can, if its layers are not known."""
    own = {name for name in executed if not re.search(INSERTED, name)}
    return not observed or not own or len(own & observed) * 2 > len(own)


def _made(model: CompiledModel, number: int) -> bool:
    """Whether OpenVINO named a model with this number while it compiled this one."""
    return bool(model.first_id and model.last_id) and int(model.first_id) < number < int(model.last_id)


def name_of(model: CompiledModel) -> str:
    """What its user calls a model: its name; its file's, if the name is that of whatever wrote or read the file."""
    stem = Path(model.file).stem
    return stem if stem and (not model.name or _ANYBODYS.fullmatch(model.name)) else model.name


def _labels(
    instances: Sequence[Instance], known: Mapping[Instance, CompiledModel], layers: Mapping[Instance, frozenset[str]]
) -> dict[Instance, str]:
    """A name for each, different for different models. Processes that run the same model have one for it."""
    labels: dict[Instance, str] = {}
    used: dict[str, list[tuple[str, frozenset[str]]]] = {}
    for instance in instances:
        model = known.get(instance)
        name, what = instance[1], ("", layers[instance])
        if model is not None:
            name, what = name_of(model) or instance[1], (model.key, frozenset(instance[1:]))
        same = used.setdefault(name, [])
        if what not in same:
            same.append(what)
        place = same.index(what)
        labels[instance] = name if place == 0 else f"{name} #{place + 1}"
    return labels
