"""Two traces of OpenVINO side by side: which models and layers are the same, and whether inferences became faster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from accel_magic.quantities import duration_text, exact_text, rate_text, ratio_text
from accel_magic.result_bases.compared import Compared
from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.model_names import task_name
from accel_magic.subsystems.openvino.task_frames import INFERENCE, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from accel_magic.subsystems.openvino.result import OpenVino

_COUNTER: Final = re.compile(r"_\d+(?=[_ ]|$)")
"""What OpenVINO appends to the names of nodes that it makes: a number that differs between any two models."""
_MOST: Final = 5


def compared(ours: OpenVino, baseline: OpenVino) -> Compared:
    """Compare the models, most time first; and give tasks that are the same in both traces the same names."""
    names = _inferences(ours), _inferences(baseline)
    functions = [{point.function: None for point in each.trace.points} for each in (ours, baseline)]
    alone = [[one for one in own if one not in other] for own, other in (functions, functions[::-1])]
    for known, own in zip(names, alone, strict=True):
        known.update(_without_counters(name for name in own if name not in known))
    return Compared(tuple(_lines(ours, baseline)), names)


def _inferences(openvino: OpenVino) -> dict[str, str]:
    """The tasks of inferences and of calls of `start_async`, with the names of their models."""
    models = {task: label for (_, task), label in openvino.trace.names.labels.items()}
    found = {}
    for point in openvino.trace.points:
        name = point.function
        if kind_of(point) == INFERENCE and task_name(name) in models:
            found[name] = name.removesuffix(task_name(name)) + models[task_name(name)]
        elif name.startswith(f"{preset.STARTED} ") and name.partition(" ")[2] in models:
            found[name] = f"{preset.STARTED} {models[name.partition(' ')[2]]}"
    return found


def _without_counters(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Names without counters; several that then are the same are numbered in the order of their first executions."""
    used: dict[str, int] = {}
    for name in names:
        short = _COUNTER.sub("", name)
        if short != name:
            used[short] = used.get(short, 0) + 1
            yield name, short if used[short] == 1 else f"{short} #{used[short]}"


def _lines(ours: OpenVino, baseline: OpenVino) -> Iterator[str]:
    rows, before = ours.models.to_dict("index"), baseline.models.to_dict("index")
    same: Mapping[object, object] = {name: name for name in rows if name in before}
    if not same and len(rows) == len(before) == 1:
        same = dict(zip(rows, before, strict=True))
    for name, other in [*same.items()][:_MOST]:
        new, old = rows[name], before[other]
        if new["inferences"] and old["inferences"]:
            parts = [
                f"{label} {show(old[column])} -> {show(new[column])} ({ratio_text(new[column] / old[column])})"
                for label, column, show in (
                    ("p50 of inferences", "p50_ns", duration_text),
                    ("p99", "p99_ns", duration_text),
                    ("rate", "per_second", rate_text),
                )
            ]
            if new["failed"] or old["failed"]:
                parts.append(f"failed {exact_text(old['failed'])} -> {exact_text(new['failed'])}")
            settings = [(key, *(_COUNTER.sub("", each[key]) for each in (old, new))) for key in _SETTINGS]
            changed = [f"{key} {was} -> {is_}" for key, was, is_ in settings if was and was != is_]
            yield f"{name}: {', '.join([*parts, *changed])}"


_SETTINGS: Final = ("device", "precision", "hint", "inputs")
