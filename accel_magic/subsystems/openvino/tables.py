"""Analysis of an OpenVINO trace: inferences, layers, compilation, threads."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from accel_magic.analysis.findings import diagnose
from accel_magic.subsystems.npu.tables import NpuTables
from accel_magic.subsystems.openvino.task_frames import OpenVinoTrace
from accel_magic.views.diagnosis import Diagnosis

if TYPE_CHECKING:
    import pandas as pd

    from accel_magic.recording.recording import Recording
    from accel_magic.subsystems.openvino.generations import GenerationsFound


class OpenVinoTables:
    """Tables of a trace of OpenVINO, each computed on first use. What was not traced is missing, never guessed."""

    def __init__(self, recording: Recording, events: pd.DataFrame) -> None:
        """`events` is the DataFrame of the recording's events, as in `TraceResult.events`."""
        self.recording = recording
        self.trace = OpenVinoTrace(recording, events)
        self._npu = NpuTables(recording, events)

    @cached_property
    def requests(self) -> pd.DataFrame:
        """One row per inference; see `accel_magic.subsystems.openvino.requests`."""
        from accel_magic.subsystems.openvino.requests import requests

        return requests(self.trace, self._npu.jobs)

    @cached_property
    def models(self) -> pd.DataFrame:
        """One row per model; see `accel_magic.subsystems.openvino.models`."""
        from accel_magic.subsystems.openvino.models import models

        return models(self.trace, self.requests)

    @cached_property
    def _generations(self) -> GenerationsFound:
        from accel_magic.subsystems.openvino.generations import GenerationsFound

        return GenerationsFound(self.trace, self.models)

    @property
    def generations(self) -> pd.DataFrame:
        """One row per generation of a language model; see `generations.GenerationsFound.generations`."""
        return self._generations.generations

    @property
    def language_models(self) -> frozenset[str]:
        """The models that made tokens, their tokenizers and detokenizers."""
        made = self.generations
        return self._generations.text_models | {*made["model"], *made["draft_model"]} - {""}

    @cached_property
    def tokens(self) -> pd.DataFrame:
        """One row per inference that made tokens; see `generations.GenerationsFound.tokens`."""
        return self._generations.tokens

    @cached_property
    def layers_by_phase(self) -> pd.DataFrame:
        """Layers of language models, for prompts and for tokens; see `generations.layers_by_phase`."""
        from accel_magic.subsystems.openvino.generations import layers_by_phase

        return layers_by_phase(self.trace, self._generations)

    @cached_property
    def layers(self) -> pd.DataFrame:
        """One row per node of the compiled models; see `accel_magic.subsystems.openvino.layers`."""
        from accel_magic.subsystems.openvino.layers import layers

        return layers(self.trace, self.requests)

    @cached_property
    def compile(self) -> pd.DataFrame:
        """OneDNN primitives that were created; see `accel_magic.subsystems.openvino.compiling`."""
        from accel_magic.subsystems.openvino.compiling import compiling

        return compiling(self.trace)

    @cached_property
    def threads(self) -> pd.DataFrame:
        """One row per thread; see `accel_magic.subsystems.openvino.threads`."""
        from accel_magic.subsystems.openvino.threads import threads

        return threads(self.trace)

    @property
    def calls(self) -> pd.DataFrame:
        """Every inference, layer and primitive, down to ioctls, jobs and interrupts: the steps of `t.npu.calls`."""
        return self._npu.calls

    @cached_property
    def findings(self) -> Diagnosis:
        """Problems and notes, with evidence; see `TraceResult.diagnose`."""
        from accel_magic.subsystems.openvino.rules import RULES

        return Diagnosis.of(diagnose(RULES, self, self.recording))
