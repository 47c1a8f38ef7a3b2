"""Generations of language models: from a prompt to its tokens, and the inferences that made them.

A generation is a call that was traced from Python (`pipelines`), or a request of a pipeline with continuous batching.
Where neither is known, as in C++ programs, it is what a model with attention and state does between two runs of a
tokenizer, or after a call of `reset_state`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.compiled_models import generations_in, layers_in
from accel_magic.subsystems.openvino.pipelines import Generation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from accel_magic.subsystems.openvino.task_frames import OpenVinoTrace

PREFILL: Final = "prefill"
DECODE: Final = "decode"
ATTENTION: Final = ("PagedAttention", "ScaledDotProductAttention", "MultiHeadAttention", "MHA")
"""Beginnings of the types of attention layers."""
_READS_TEXT: Final = "StringTensorUnpack"
"""Type of a layer that each tokenizer has."""
_MAKES_TEXT: Final = "StringTensorPack"
"""Type of a layer that each detokenizer has."""
_NEAR_NS: Final = 50_000_000
"""Time between a call and its task within which they are matched."""
_TAIL: Final = 0.99
_ENCODER_AND_DECODER: Final = 2
_COLUMNS: Final = {
    "model": "str",
    "kind": "str",
    "pid": "int64",
    "tid": "int64",
    "start_ns": "int64",
    "duration_ns": "int64",
    "finished": "bool",
    "requests": "int64",
    "prompt_tokens": "Int64",
    "generated_tokens": "int64",
    "first_token_ns": "int64",
    "token_ns": "float64",
    "token_p99_ns": "float64",
    "tokens_per_second": "float64",
    "prefill_ns": "int64",
    "decode_ns": "int64",
    "model_ns": "int64",
    "tokenizer_ns": "Int64",
    "detokenizer_ns": "Int64",
    "inferences": "int64",
    "prefill_inferences": "int64",
    "detokenizer_inferences": "int64",
    "draft_model": "str",
    "draft_ns": "int64",
    "repeated_share": "float64",
    "prefix_caching": "boolean",
    "cache_bytes": "Int64",
}
_TOKENS: Final = {
    "generation": "int64",
    "token": "int64",
    "phase": "str",
    "start_ns": "int64",
    "end_ns": "int64",
    "interval_ns": "int64",
    "inference": "int64",
}


@dataclass
class _Window:
    """The time of a generation, and the rows of the inferences that belong to it."""

    pid: int
    tid: int
    start_ns: int
    end_ns: int
    kind: str = ""
    facts: Generation | None = None
    inferences: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))

    @property
    def first_ns(self) -> int | None:
        """When a request of a pipeline with continuous batching had its first token, ns on CLOCK_MONOTONIC."""
        return int(self.facts.first_ns) if self.facts is not None and self.facts.first_ns else None


class GenerationsFound:
    """The generations of a trace.

    Args:
        trace: The trace.
        models: `t.openvino.models`.

    """

    def __init__(self, trace: OpenVinoTrace, models: pd.DataFrame) -> None:
        self.trace = trace
        self._models = models
        self._inferences = trace.inferences
        self._names = trace.inferences["model"].astype(str).to_numpy(object)
        self._starts, self._ends = (trace.inferences[edge].to_numpy(np.int64) for edge in ("start_ns", "end_ns"))
        self._phases = np.full(len(self._names), "", object)
        self._tokens: list[dict[str, object]] = []

    @cached_property
    def generations(self) -> pd.DataFrame:
        """One row per generation, in order of time.

        Columns: `model` (whose inferences made the tokens), `kind` (the class of the pipeline or model from Python,
        such as `LLMPipeline`; '' for other programs), `pid`, `tid` (the thread that called), `start_ns`, `duration_ns`
        (int64: of the call or request), `finished`, `requests` (prompts), `prompt_tokens` (Int64: as the pipeline
        counts them; NA for other programs), `generated_tokens` (as the pipeline counts them, else one per prompt and
        inference after the prompts'), `first_token_ns` (int64: from the call to the end of the inference that made the
        first token), `token_ns` (from token to token of a prompt, mean; NaN for fewer than two), `token_p99_ns` (99 %
        of the intervals between the inferences that made tokens are shorter), `tokens_per_second` (after the first, of
        all prompts together), `prefill_ns` (int64: from the start of the first inference, an encoder's if there is
        one, to the first token),
        `decode_ns` (int64: from the first token to the last), `model_ns` (int64: time of the model's inferences),
        `tokenizer_ns`, `detokenizer_ns` (Int64), `inferences`, `prefill_inferences` (those of them that took the
        prompts), `detokenizer_inferences`, `draft_model` (of speculative decoding; '' without), `draft_ns`,
        `repeated_share` (share of the prompts with which the prompt before began; NaN if that is unknown),
        `prefix_caching` (boolean: as the pipeline was told; NA for its default), `cache_bytes` (Int64: size of the
        cache of keys and values; NA for pipelines that do not tell). Times are ns since the start of the trace.
        """
        rows = [row for window in self._windows() if (row := self._row(window)) is not None]
        rows.sort(key=lambda row: row["start_ns"])
        table = pd.DataFrame(rows, columns=[*_COLUMNS, "tokens"])
        self._tokens = [
            {"generation": place, **token} for place, tokens in enumerate(table.pop("tokens")) for token in tokens
        ]
        return table.astype(_COLUMNS)

    @property
    def tokens(self) -> pd.DataFrame:
        """One row per inference that made tokens, one for each prompt of the generation that was not finished.

        Columns: `generation` (its row), `token` (its place, from 0), `phase` (`prefill` for the first), `start_ns`,
        `end_ns` (of the inference), `interval_ns` (int64: since the token before; for the first, since the call),
        `inference` (its row in `t.openvino.requests`).
        """
        self.generations  # noqa: B018 - it finds them
        return pd.DataFrame(self._tokens, columns=[*_TOKENS]).astype(_TOKENS)

    @property
    def phases(self) -> NDArray[np.object_]:
        """The phase of each inference: `prefill`, `decode`, or '' if it is not of a model that made tokens."""
        self.generations  # noqa: B018 - it finds them
        return self._phases

    @property
    def text_models(self) -> frozenset[str]:
        """The tokenizers and detokenizers."""
        return self._roles.tokenizers | self._roles.detokenizers

    def _windows(self) -> list[_Window]:
        calls = self._calls()
        if not self._roles.attention and not any(window.facts for window in calls):
            return []
        requests = self._requests()
        self._own(calls)
        for window in requests:
            window.inferences = self._during(window)
        owned = [window.inferences for window in (*calls, *requests)]
        rest = np.setdiff1d(np.arange(len(self._names)), np.concatenate([np.zeros(0, np.intp), *owned]))
        return [*calls, *requests, *self._between_prompts(rest)]

    @cached_property
    def _roles(self) -> _Roles:
        return _Roles.of(self.trace)

    def _calls(self) -> list[_Window]:
        """The calls of `generate` that were traced, with what was noted of them."""
        spans = self.trace.python_calls((preset.GENERATED,))
        kinds = spans["name"].astype(str).str.removeprefix(preset.GENERATED).str.strip()
        columns = (spans[name].tolist() for name in ("pid", "tid", "start_ns", "end_ns"))
        windows = [_Window(*span) for span in zip(*columns, kinds, strict=True)]
        every = [one for one in generations_in(self.trace.recording) if not one.first_ns and one.finished == "True"]
        for kind in set(kinds):
            noted = sorted((one for one in every if one.kind == kind), key=lambda one: int(one.start_ns))
            starts = np.array([int(one.start_ns) for one in noted], np.int64) - self.trace.recording.start_ns
            for window in (window for window in windows if window.kind == kind and noted):
                place = max(int(np.searchsorted(starts, window.start_ns, side="right")) - 1, 0)
                if 0 <= window.start_ns - starts[place] < _NEAR_NS:  # noted just before its task began
                    window.facts = noted[place]
        return windows

    def _requests(self) -> list[_Window]:
        """The requests of pipelines with continuous batching."""
        steps = self.trace.python_calls((preset.STEPPED,))
        shift = self.trace.recording.start_ns
        noted = [one for one in generations_in(self.trace.recording) if one.first_ns]
        if steps.empty:
            return []
        pid, tid = int(steps["pid"].iloc[0]), int(steps["tid"].iloc[0])
        return [_Window(pid, tid, int(one.start_ns) - shift, int(one.end_ns) - shift, one.kind, one) for one in noted]

    def _during(self, window: _Window) -> NDArray[np.intp]:
        """Inferences of a window's process that began in it."""
        first, end = np.searchsorted(self._starts, (window.start_ns, window.end_ns)).tolist()
        rows = np.arange(first, end)
        inside: NDArray[np.bool_] = self._inferences["pid"].to_numpy()[rows] == window.pid
        return rows[inside]

    def _own(self, windows: list[_Window]) -> None:
        """Give each call its inferences: of its thread, of its pipeline's models, else of any call at that time."""
        threads = self._inferences["tid"].to_numpy()
        owner = np.full(len(self._names), -1)
        candidates = [self._during(window) for window in windows]
        for place, (window, rows) in enumerate(zip(windows, candidates, strict=True)):
            owner[rows[threads[rows] == window.tid]] = place
        for place, (window, rows) in enumerate(zip(windows, candidates, strict=True)):
            free = rows[owner[rows] < 0]
            owner[free[self._made_by(window, free)]] = place
        for place, rows in enumerate(candidates):
            owner[rows[owner[rows] < 0]] = place
        for place, window in enumerate(windows):
            window.inferences = np.flatnonzero(owner == place)

    def _made_by(self, window: _Window, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether inferences are of models that were made with a call's pipeline."""
        facts = window.facts
        if facts is None or not (facts.first_id and facts.last_id):
            return np.zeros(len(rows), bool)
        first, last = int(facts.first_id), int(facts.last_id)
        numbers = self._inferences["name"].astype(str).str.extract(r"Model(\d+)$")[0].astype(float).to_numpy()[rows]
        return (numbers > first) & (numbers < last)

    def _between_prompts(self, rest: NDArray[np.intp]) -> Iterator[_Window]:
        """Generations of programs whose calls were not traced: what follows a tokenizer, or `reset_state`."""
        resets = self.trace.python_calls((preset.RESET,))
        processes = self._inferences["pid"].to_numpy()
        for pid in np.unique(processes[rest]):
            own = rest[processes[rest] == pid]
            read = np.isin(self._names[own], [*self._roles.tokenizers])
            markers = np.sort(np.concatenate([self._starts[own[read]], resets.loc[resets["pid"] == pid, "start_ns"]]))
            made = own[np.isin(self._names[own], [*self._roles.generators])]
            if not len(markers) or not len(made):
                continue
            segment = np.searchsorted(markers, self._starts[made], side="right") - 1
            for number in np.unique(segment[segment >= 0]):
                of = made[segment == number]
                ends = markers[number + 1] if number + 1 < len(markers) else np.iinfo(np.int64).max
                rows = own[(self._starts[own] >= markers[number]) & (self._starts[own] < ends)]
                tid = int(self._inferences["tid"].iloc[of[0]])
                yield _Window(int(pid), tid, int(markers[number]), int(self._ends[rows].max()), inferences=rows)

    def _row(self, window: _Window) -> dict[str, Any] | None:
        """The row of a generation; None without inferences of a model that could have made tokens."""
        names = self._names[window.inferences]
        model, draft = self._model(window)
        encoders, first_of = self._others(window, model, draft)
        own = window.inferences[np.isin(names, [name for name in (model, first_of) if name])]
        if not model or not len(own):
            return None
        facts = window.facts or Generation("", "", "")
        requests = int(facts.requests)
        prefill = self._prefills(window, own, encoders)
        made = self._kept(window, own) if facts.token_times else own[prefill - 1 :]
        steps = len(made)
        generated = int(facts.generated_tokens) if facts.generated_tokens else steps * requests
        first, last = int(self._ends[made[0]]), int(self._ends[made[-1]])
        each = max(generated / requests, steps)
        decode = last - first
        prompts = np.union1d(own[:prefill], own[_following(encoders, own)])
        self._phases[own] = np.where(self._phases[own] == PREFILL, PREFILL, DECODE)
        self._phases[prompts] = self._phases[encoders] = PREFILL
        spent = self._ends - self._starts
        tokenizers, detokenizers = (
            window.inferences[np.isin(names, [*found])] for found in (self._roles.tokenizers, self._roles.detokenizers)
        )
        if window.first_ns is not None:  # others' are among them
            tokenizers, detokenizers = tokenizers[:1], detokenizers[:0]
        intervals = np.diff(self._ends[made])
        return {
            "model": model,
            "kind": window.kind,
            "pid": window.pid,
            "tid": window.tid,
            "start_ns": window.start_ns,
            "duration_ns": window.end_ns - window.start_ns,
            "finished": facts.finished == "True",
            "requests": requests,
            "prompt_tokens": int(facts.prompt_tokens) if facts.prompt_tokens else pd.NA,
            "generated_tokens": generated,
            "first_token_ns": first - window.start_ns,
            "token_ns": decode / (each - 1) if each > 1 else np.nan,
            "token_p99_ns": np.quantile(intervals, _TAIL) if len(intervals) else np.nan,
            "tokens_per_second": (generated - requests) * 1e9 / decode if decode and generated > requests else np.nan,
            "prefill_ns": first - int(self._starts[[*encoders[:1], own[0]]].min()),
            "decode_ns": decode,
            "model_ns": int(spent[own].sum()),
            "tokenizer_ns": int(spent[tokenizers].sum()) if len(tokenizers) else pd.NA,
            "detokenizer_ns": int(spent[detokenizers].sum()) if len(detokenizers) else pd.NA,
            "inferences": len(own),
            "prefill_inferences": len(prompts),
            "detokenizer_inferences": len(detokenizers),
            "draft_model": draft,
            "draft_ns": int(spent[window.inferences[names == draft]].sum()) if draft else 0,
            "repeated_share": float(facts.repeated) if facts.repeated else np.nan,
            "prefix_caching": {"True": True, "False": False}.get(facts.prefix_caching, pd.NA),
            "cache_bytes": int(facts.cache_bytes) if facts.cache_bytes else pd.NA,
            "tokens": self._made(window, made),
        }

    def _made(self, window: _Window, made: NDArray[np.intp]) -> list[dict[str, object]]:
        before = np.concatenate([[window.start_ns], self._ends[made[:-1]]])
        return [
            {
                "token": place,
                "phase": PREFILL if place == 0 else DECODE,
                "start_ns": self._starts[row],
                "end_ns": self._ends[row],
                "interval_ns": self._ends[row] - before[place],
                "inference": row,
            }
            for place, row in enumerate(made)
        ]

    def _kept(self, window: _Window, own: NDArray[np.intp]) -> NDArray[np.intp]:
        """Of a model's inferences, those that made the tokens that the pipeline kept."""
        facts = window.facts
        if facts is None:
            return own
        begin = int(facts.start_ns) - self.trace.recording.start_ns
        moments = begin + np.array(facts.token_times.split(), np.int64) * 1000
        rows: NDArray[np.intp] = own[np.unique(np.searchsorted(self._ends[own], moments, side="right").clip(1) - 1)]
        return rows

    def _others(self, window: _Window, model: str, draft: str) -> tuple[NDArray[np.intp], str]:
        """Of a call: the inferences that read pictures, speech or texts, and the model that made the first tokens.

        Encoders run once for each prompt or part of it, before the model that makes tokens. Without state, that may be
        two: a decoder without what it remembers makes the first token, another one the later ones.
        """
        nobody: NDArray[np.intp] = np.zeros(0, np.intp)
        if window.first_ns is not None or window.facts is None:
            return nobody, ""  # others' are among them
        rows = window.inferences
        texts = self._roles.tokenizers | self._roles.detokenizers
        rows = rows[~np.isin(self._names[rows], [*texts, draft])]
        found = list(dict.fromkeys(self._names[rows].tolist()))
        first_of = ""
        if model not in self._roles.generators and found[-1:] == [model] and len(found) > _ENCODER_AND_DECODER:
            first_of = found[-2]
        names = self._names[rows]
        own = np.isin(names, [model, first_of])
        runs, all_own = int((np.diff(own.astype(int)) > 0).sum()), int(own.sum())
        encoding = []
        for name in set(found) - {model, first_of}:
            places = np.flatnonzero(names == name)
            before = places[-1] < np.argmax(own)
            if before or (len(places) <= runs and len(places) < all_own):  # others prepare each token
                encoding.append(name)
        return rows[np.isin(names, encoding)], first_of

    def _prefills(self, window: _Window, own: NDArray[np.intp], encoders: NDArray[np.intp]) -> int:
        """How many of a model's inferences took the first prompts: the last of them made the first token.

        Models for speech may find the language with an inference of its own first.
        """
        facts = window.facts
        if facts is not None and facts.found_language:
            return min(1 + (facts.found_language == "True"), len(own))
        if len(encoders) and facts is not None and facts.steps:
            return 2 if int(facts.steps) < len(own) and 1 in _following(encoders, own) else 1
        if window.first_ns is not None:
            return max(int((self._ends[own] <= window.first_ns - self.trace.recording.start_ns).sum()), 1)
        if facts is not None and facts.steps and 0 < int(facts.steps) <= len(own):
            return len(own) - int(facts.steps) + 1
        if facts is not None and facts.prompt_tokens and facts.batch_tokens and int(facts.batch_tokens):
            return min(max(-(-int(facts.prompt_tokens) // int(facts.batch_tokens)), 1), len(own))
        return 1

    def _model(self, window: _Window) -> tuple[str, str]:
        """The model that made a generation's tokens, and the one that drafted them; '' for none.

        Of several with state, the one with more weights decides which tokens are kept. Without any with state, such as
        an encoder and a decoder, the one that ran most often made the tokens.
        """
        names = self._names[window.inferences]
        texts = self._roles.tokenizers | self._roles.detokenizers
        counts = {str(name): int((names == name).sum()) for name in np.unique(names) if name and name not in texts}
        stateful = [name for name in counts if name in self._roles.generators]
        if not stateful:
            attending = [name for name in counts if name in self._roles.attention]
            candidates = attending or (list(counts) if window.facts is not None else [])  # attention may be fused
            last = {str(name): place for place, name in enumerate(names)}
            return max(candidates, key=lambda name: (counts[name], last[name]), default=""), ""
        order = sorted(stateful, key=lambda name: (-self._weight(name), counts[name]))
        return order[0], order[1] if len(order) > 1 else ""

    def _weight(self, name: str) -> float:
        known = self._models["weights_bytes"].get(name)
        return float(known) if known is not None and not pd.isna(known) else 0.0


def _following(encoders: NDArray[np.intp], own: NDArray[np.intp]) -> NDArray[np.intp]:
    """Positions in `own`, the rows of a decoder's inferences, of those that come first after an encoder's."""
    places: NDArray[np.intp] = np.unique(np.searchsorted(own, encoders))
    return places[places < len(own)]


@dataclass(frozen=True)
class _Roles:
    """What the models of a trace are for, by the types of their layers.

    Attributes:
        tokenizers: Models that read text.
        detokenizers: Models that make text.
        attention: Models with attention layers.
        generators: Those of them with state.

    """

    tokenizers: frozenset[str]
    detokenizers: frozenset[str]
    attention: frozenset[str]
    generators: frozenset[str]

    @classmethod
    def of(cls, trace: OpenVinoTrace) -> _Roles:
        """Find them by the executions that were traced, else by what is known of the compiled models."""
        kinds = _types(trace)
        names = {trace.names.labels[instance]: known for instance, known in trace.names.known.items()}

        def having(*types: str) -> frozenset[str]:
            return frozenset(name for name, found in kinds.items() if any(kind.startswith(types) for kind in found))

        attention = having(*ATTENTION)
        stateful = frozenset(name for name, known in names.items() if known.stateful == "True")
        return cls(
            having(_READS_TEXT),
            having(_MAKES_TEXT) - having(_READS_TEXT),
            attention,
            attention & (stateful | having("PagedAttention", "MemoryInput", "ReadValue")),
        )


def _types(trace: OpenVinoTrace) -> Mapping[str, set[str]]:
    """Types of the layers of each model."""
    found: dict[str, set[str]] = {}
    executions = trace.executions
    inside = executions["inference"].to_numpy() >= 0
    models = trace.inferences["model"].astype(str).to_numpy(object)
    if len(models) and inside.any():
        kinds = trace.types[inside]
        pairs = pd.DataFrame({"model": models[executions["inference"].to_numpy()[inside]], "kind": kinds})
        for model, kind in pairs.drop_duplicates().itertuples(index=False):
            found.setdefault(model, set()).add(kind)
    labels: dict[str, list[str]] = {}
    for instance, known in trace.names.known.items():
        labels.setdefault(known.key, []).append(trace.names.labels[instance])
    for layer in layers_in(trace.recording):
        for label in labels.get(layer.model, ()):
            found.setdefault(label, set()).add(layer.type)
    return found


def layers_by_phase(trace: OpenVinoTrace, found: GenerationsFound) -> pd.DataFrame:
    """Return the layers of models that made tokens, by phase; most time first. Index `name`.

    Columns: `model`, `phase` (`prefill` or `decode`), `type`, `executions`, `total_ns`, `mean_ns`, `p50_ns`, `share`
    (of the time of the model's inferences of this phase). Only recorded executions, without parts of other nodes.
    """
    executions = trace.executions
    of = executions["inference"].to_numpy()
    phases = found.phases
    chosen = (of >= 0) & (executions["parent"].to_numpy() < 0)
    if len(phases):
        chosen &= phases[np.maximum(of, 0)] != ""
    else:
        chosen[:] = False
    own = executions[chosen]
    inferences = trace.inferences
    models = inferences["model"].astype(str).to_numpy(object)
    events = pd.DataFrame(
        {
            "model": models[of[chosen]],
            "phase": phases[of[chosen]],
            "name": own["name"].astype(str).to_numpy(),
            "type": trace.types[chosen],
            "duration_ns": own["duration_ns"].to_numpy(),
        }
    )
    groups = events.groupby(["model", "phase", "name"], sort=False)
    duration = groups["duration_ns"]
    table = pd.DataFrame(
        {
            "type": groups["type"].first(),
            "executions": duration.size().astype(np.int64),
            "total_ns": duration.sum().astype(np.float64),
            "mean_ns": duration.mean(),
            "p50_ns": duration.quantile(0.5),
        }
    ).reset_index()
    spent = inferences["duration_ns"].groupby([models, phases]).sum()
    keys = pd.MultiIndex.from_frame(table[["model", "phase"]])
    table["share"] = table["total_ns"] / spent.reindex(keys).to_numpy(np.float64)
    return table.set_index("name").sort_values("total_ns", ascending=False, kind="stable")
