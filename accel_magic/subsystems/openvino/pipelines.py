"""What generates tokens in this process: pipelines of OpenVINO GenAI, and `generate` of Transformers' classes.

OpenVINO's tasks tell one inference from another, but not which of them made the tokens of one answer. The calls from
Python that generate are tasks, and what they were given and returned is counted: prompts and tokens, never their text.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from accel_magic.itt.marking import CallTask, marked
from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.model_objects import next_number
from accel_magic.subsystems.openvino.module_imports import forget, when_imported
from accel_magic.subsystems.openvino.replacements import Replacements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MOST: Final = 10_000
"""Generations of one trace whose facts are kept."""
_MOST_COUNTED: Final = 200
"""Prompts whose tokens are counted after the trace, about 1 ms each."""
_GENAI: Final = "openvino_genai"
_TRANSFORMERS: Final = "transformers.generation.utils"
_OPTIMUM_WHISPER: Final = "optimum.intel.openvino.modeling_seq2seq"
"""Module of the class whose `generate` calls Transformers' once for each part of a recording."""
_BATCHED: Final = "ContinuousBatchingPipeline"
_GENERATING: Final = ("LLMPipeline", "VLMPipeline", "WhisperPipeline", "ASRPipeline", _BATCHED)
"""GenAI's classes whose `generate` makes tokens one after the other."""
_SPEECH: Final = ("WhisperPipeline", "ASRPipeline")
"""Those of them that keep only some of the tokens that their model makes: no times, no beginnings of sentences."""
_OPTIMUM: Final = "optimum."
_RUNNING: Final = "RUNNING"
_TEXT: Final = 2
"""Dimensions of prompts that are tokens; recordings of speech have three."""
_PROMPT_AT: Final = 2
"""Position of the prompt in the arguments of `add_request`, after the pipeline and the number of the request."""


@dataclass(frozen=True)
class Generation:
    """One call that generated, or one request of a pipeline with continuous batching. Text; '' for what is unknown.

    Attributes:
        kind: Class of the pipeline or model, such as `LLMPipeline`.
        tid: The thread that called.
        start_ns: When it was called, on CLOCK_MONOTONIC.
        first_ns: Of a request of a pipeline: the end of the step that made its first token.
        end_ns: When it had ended.
        finished: `True`, or `False` for a request that went on after the trace.
        requests: Number of prompts.
        prompt_tokens: Their tokens.
        generated_tokens: Tokens that were generated, for all prompts.
        steps: How many times tokens were made, each for all prompts that were not finished.
        token_times: Of pipelines for speech: when the tokens that they kept were made, us since `start_ns`, with blanks
            between them.
        found_language: Whether a pipeline for speech had its model find the language first: `True` or `False`.
        batch_tokens: Tokens of prompts that one inference takes at most.
        repeated: Share of the prompts with which the prompts before them began, 0 to 1.
        prefix_caching: Whether the pipeline was told to keep the beginnings of prompts: `True` or `False`.
        cache_bytes: Size of the pipeline's cache of keys and values.
        first_id: With `last_id`, numbers of the names that OpenVINO gave to models while the pipeline was made.
        last_id: See `first_id`.

    """

    kind: str
    tid: str
    start_ns: str
    first_ns: str = ""
    end_ns: str = ""
    finished: str = "True"
    requests: str = "1"
    prompt_tokens: str = ""
    generated_tokens: str = ""
    steps: str = ""
    token_times: str = ""
    found_language: str = ""
    batch_tokens: str = ""
    repeated: str = ""
    prefix_caching: str = ""
    cache_bytes: str = ""
    first_id: str = ""
    last_id: str = ""


@dataclass
class _Request:
    """A request of a pipeline with continuous batching that has not finished."""

    handle: Any
    facts: Generation


@dataclass
class Generations:
    """What was generated while it listened: between `listen` and `unlisten`.

    Attributes:
        rows: One per generation.
        uncounted: Prompts whose tokens must be counted: the row, the tokenizer and the arguments of its `encode`.
        running: Requests that have not finished.

    """

    rows: list[Generation] = field(default_factory=list)
    uncounted: list[tuple[int, Any, str]] = field(default_factory=list)
    running: list[_Request] = field(default_factory=list)

    def found(self) -> tuple[Generation, ...]:
        """All rows; counts the tokens of prompts whose pipelines did not."""
        for at, tokenizer, prompt in self.uncounted:
            with contextlib.suppress(Exception):
                self.rows[at] = replace(self.rows[at], prompt_tokens=str(_tokens(tokenizer, prompt)))
        self.uncounted.clear()
        unfinished = [
            replace(one.facts, end_ns=str(time.monotonic_ns()), finished="False", **_counted([one.handle]))
            for one in self.running
        ]
        return (*self.rows, *unfinished)[:MOST]


@dataclass
class _Watch:
    """What is replaced, what is known of pipelines, and who listens."""

    methods: Replacements
    pipelines: WeakKeyDictionary[Any, Mapping[str, str]]
    prompts: WeakKeyDictionary[Any, str]
    chatting: WeakKeyDictionary[Any, bool]
    listener: Generations | None = None


_watch: Final = _Watch(Replacements(), WeakKeyDictionary(), WeakKeyDictionary(), WeakKeyDictionary())


def begin() -> None:
    """Watch the classes that generate: now if their modules are imported, else when they are. Can be repeated."""
    when_imported(_GENAI, _replace)
    when_imported(_TRANSFORMERS, _replace_transformers)
    when_imported(_OPTIMUM_WHISPER, _replace_optimum_whisper)


def end() -> None:
    """Leave them alone, unless somebody else has replaced their methods since."""
    for name in (_GENAI, _TRANSFORMERS, _OPTIMUM_WHISPER):
        forget(name)
    _watch.methods.restore()


def listen(listener: Generations) -> None:
    """Have generations added to `listener`, instead of any other."""
    _watch.listener = listener


def unlisten(listener: Generations) -> None:
    """Undo `listen`."""
    if _watch.listener is listener:
        _watch.listener = None


def _replace(module: Any) -> None:
    own = vars(module)
    if any(owner is own.get(_BATCHED) for owner in _watch.methods.owners()):
        return
    for name in _GENERATING:
        kind = own.get(name)
        if kind is not None:
            _set(kind, "__init__", f"{preset.LOADED} {name}", next_number, _loaded)
            _set(kind, "generate", f"{preset.GENERATED} {name}", time.monotonic_ns, functools.partial(_generated, name))
            for method, chatting in (("start_chat", True), ("finish_chat", False)):
                _set(kind, method, f"openvino.{method}", lambda: None, functools.partial(_chats, chatting))
    batched = own.get(_BATCHED)
    if batched is not None:
        _set(batched, "add_request", "openvino.add_request", time.monotonic_ns, _added)
        _set(batched, "step", f"{preset.STEPPED} {_BATCHED}", lambda: None, _stepped)


def _replace_transformers(module: Any) -> None:
    mixin = getattr(module, "GenerationMixin", None)
    if mixin is not None and all(owner is not mixin for owner in _watch.methods.owners()):
        _watch.methods.set(mixin, "generate", functools.partial(_marked_transformers, noted=_transformers_generated))


def _replace_optimum_whisper(module: Any) -> None:
    kind = getattr(module, "_OVModelForWhisper", None)
    if kind is not None and "generate" in vars(kind) and all(owner is not kind for owner in _watch.methods.owners()):
        _watch.methods.set(kind, "generate", functools.partial(_marked_transformers, noted=_generated_in_parts))


def _set(owner: Any, method: str, task: str, before: Callable[[], Any], after: Callable[..., object]) -> None:
    whole = CallTask(task)
    _watch.methods.set(owner, method, lambda original: marked(original, lambda *_: whole, before, after))


def _chats(chatting: bool, _before: None, _none: None, arguments: tuple[Any, ...], _options: dict[str, Any]) -> None:
    """In a chat, a pipeline's prompt is more than what it is given."""
    with contextlib.suppress(TypeError):
        _watch.chatting[arguments[0]] = chatting


def _loaded(first: int | None, _none: None, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Remember what a pipeline that was made was told, and which models are its own."""
    with contextlib.suppress(Exception):
        given = [each for each in (*arguments[1:], *options.values()) if type(each).__name__ == "SchedulerConfig"]
        facts = {"first_id": _text(first), "last_id": _text(next_number())}
        for scheduler in given[:1]:
            facts["batch_tokens"] = str(scheduler.max_num_batched_tokens)
            facts["prefix_caching"] = str(bool(scheduler.enable_prefix_caching))
        if "SDPA" in (options.get("ATTENTION_BACKEND"), *_dictionaries(arguments)):
            facts["prefix_caching"] = "False"  # only paged attention can
        _watch.pipelines[arguments[0]] = facts


def _dictionaries(arguments: tuple[Any, ...]) -> Iterator[Any]:
    """The backends that dictionaries of properties name."""
    yield from (each.get("ATTENTION_BACKEND") for each in arguments if isinstance(each, dict))


def _generated(kind: str, start_ns: int, result: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Note one call of `generate` of a pipeline. Nothing of this may disturb the program."""
    end_ns, listener = time.monotonic_ns(), _watch.listener
    if listener is None or len(listener.rows) >= MOST:
        return
    with contextlib.suppress(Exception):
        pipeline, inputs = arguments[0], _inputs(arguments, options)
        results = result if isinstance(result, list) else [result]
        facts = Generation(
            kind,
            str(threading.get_native_id()),
            str(start_ns),
            end_ns=str(end_ns),
            requests=str(_number_of(inputs)),
            **{**_watch.pipelines.get(pipeline, {}), **_counted(results)},
            repeated=_repeated(pipeline, inputs),
            cache_bytes=_cache_bytes(pipeline),
            **(_of_speech(pipeline, start_ns, results, arguments, options) if kind in _SPEECH else {}),
        )
        listener.rows.append(facts)
        uncounted = not facts.prompt_tokens and isinstance(inputs, str) and not _watch.chatting.get(pipeline)
        if uncounted and len(listener.uncounted) < _MOST_COUNTED:
            listener.uncounted.append((len(listener.rows) - 1, pipeline.get_tokenizer(), inputs))


def _inputs(arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    named = (options[name] for name in ("inputs", "prompts", "prompt", "raw_speech_input") if name in options)
    return arguments[1] if len(arguments) > 1 else next(named, None)


def _number_of(inputs: Any) -> int:
    """Number of prompts in the first argument of `generate`: a text, texts, or tokens with a row for each."""
    if isinstance(inputs, list | tuple) and inputs and isinstance(inputs[0], str):
        return len(inputs)
    tensor = getattr(inputs, "input_ids", inputs)
    shape = tuple(getattr(tensor, "shape", ()))
    return int(shape[0]) if len(shape) > 1 else 1


def _counted(results: Sequence[Any]) -> dict[str, str]:
    """Tokens of prompts and answers, and the steps that made them, as GenAI counted them."""
    metrics = list(_metrics(results))
    if not metrics:
        return {}
    return {
        "prompt_tokens": str(sum(each.get_num_input_tokens() for each in metrics) or ""),  # 0 for speech
        "generated_tokens": str(sum(each.get_num_generated_tokens() for each in metrics)),
        "steps": str(max(len(each.raw_metrics.m_new_token_times) for each in metrics)),
    }


def _of_speech(
    pipeline: Any, start_ns: int, results: Sequence[Any], arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> dict[str, str]:
    """When the tokens were made that a pipeline for speech kept, and whether it found the language first."""
    given = (*arguments[1:], options.get("generation_config"))
    config = next((each for each in given if hasattr(each, "is_multilingual")), None)
    config = pipeline.get_generation_config() if config is None else config
    language = options.get("language") or getattr(config, "language", None)
    several = getattr(config, "is_multilingual", False)
    moments = [moment for each in _metrics(results) for moment in each.raw_metrics.m_new_token_times]  # ms
    return {
        "token_times": " ".join(str(math.ceil(moment * 1e3 - start_ns / 1e3)) for moment in moments),
        "found_language": str(bool(several and not language)),
    }


def _metrics(results: Sequence[Any]) -> Iterator[Any]:
    for each in results:
        with contextlib.suppress(Exception):  # a request that has not finished has none
            found = (
                each.get_perf_metrics() if hasattr(each, "get_perf_metrics") else getattr(each, "perf_metrics", None)
            )
            if found is not None:
                yield found


def _repeated(pipeline: Any, inputs: Any) -> str:
    """Share of the prompts' characters with which the prompt before each of them began, in this pipeline."""
    prompts = [inputs] if isinstance(inputs, str) else list(inputs) if isinstance(inputs, list | tuple) else []
    if not prompts or not all(isinstance(prompt, str) for prompt in prompts):
        return ""
    before = _watch.prompts.get(pipeline)
    same = 0
    for prompt in prompts:
        same += _common(before or "", prompt)
        before = prompt
    _watch.prompts[pipeline] = prompts[-1]
    return f"{same / max(sum(map(len, prompts)), 1):.3f}"


def _common(one: str, other: str) -> int:
    """Number of characters with which both begin."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _cache_bytes(pipeline: Any) -> str:
    """Size of the cache of keys and values; only pipelines with continuous batching tell."""
    with contextlib.suppress(Exception):
        return str(pipeline.get_metrics().kv_cache_size_in_bytes)
    return ""


def _tokens(tokenizer: Any, prompt: str) -> int:
    """Number of a prompt's tokens, as a pipeline makes them: with the model's template, if it has one."""
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], True)
        return math.prod(tokenizer.encode(text, add_special_tokens=False).input_ids.shape)
    return math.prod(tokenizer.encode(prompt).input_ids.shape)


def _added(start_ns: int, handle: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Note a request that a pipeline with continuous batching got. Each step changes the state of its handle."""
    listener = _watch.listener
    if listener is None or len(listener.rows) + len(listener.running) >= MOST:
        return
    with contextlib.suppress(Exception):
        pipeline, prompt = arguments[0], arguments[2] if len(arguments) > _PROMPT_AT else options.get("prompt")
        known = _watch.pipelines.get(pipeline, {})
        repeated = _repeated(pipeline, prompt)
        facts = Generation(_BATCHED, str(threading.get_native_id()), str(start_ns), repeated=repeated, **known)
        listener.running.append(_Request(handle, facts))


def _stepped(_before: None, _none: None, arguments: tuple[Any, ...], _options: dict[str, Any]) -> None:
    """Note which requests have their first token, and which are finished."""
    listener, now = _watch.listener, str(time.monotonic_ns())
    if listener is None or not listener.running:
        return
    running = []
    for one in listener.running:
        with contextlib.suppress(Exception):
            if not one.facts.first_ns and one.handle.can_read():
                one.facts = replace(one.facts, first_ns=now)
            if one.handle.get_status().name == _RUNNING:
                running.append(one)
                continue
            cache = _cache_bytes(arguments[0])
            listener.rows.append(replace(one.facts, end_ns=now, cache_bytes=cache, **_counted([one.handle])))
    listener.running = running


def _marked_transformers(original: Callable[..., Any], noted: Callable[..., object]) -> Callable[..., Any]:
    return marked(original, lambda model, *_: _task_of(type(model).__name__), time.monotonic_ns, noted)


@functools.cache
def _task_of(kind: str) -> CallTask:
    return CallTask(f"{preset.GENERATED} {kind}")


def _transformers_generated(start_ns: int, result: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Note one call of `generate` of a model that Optimum runs on OpenVINO."""
    end_ns, listener, model = time.monotonic_ns(), _watch.listener, arguments[0]
    if listener is None or len(listener.rows) >= MOST or not type(model).__module__.startswith(_OPTIMUM):
        return
    with contextlib.suppress(Exception):
        call = Generation(type(model).__name__, str(threading.get_native_id()), str(start_ns), end_ns=str(end_ns))
        rows, length = (int(size) for size in getattr(result, "sequences", result).shape)
        given = (*arguments[1:2], options.get("inputs"), options.get("input_ids"))
        prompt = next((int(each.shape[-1]) for each in given if each is not None and _is_text(each)), None)
        begun: int | None = prompt
        if getattr(model.config, "is_encoder_decoder", False):
            begun = int(options["decoder_input_ids"].shape[-1]) if "decoder_input_ids" in options else 1
        made = length - (begun or 0)
        listener.rows.append(
            replace(
                call,
                requests=str(rows),
                prompt_tokens="" if prompt is None else str(prompt * rows),
                generated_tokens=str(made * rows),
                steps=str(made),
            )
        )


def _is_text(given: Any) -> bool:
    """Whether an input is tokens, with a row for each prompt; not pictures, or speech."""
    return len(given.shape) == _TEXT and "float" not in str(given.dtype)


def _generated_in_parts(start_ns: int, _result: Any, arguments: tuple[Any, ...], _options: dict[str, Any]) -> None:
    """Note one call that generated in parts, each noted before: the 30 seconds of speech that a model takes at once."""
    end_ns, listener, model = time.monotonic_ns(), _watch.listener, arguments[0]
    if listener is None or len(listener.rows) >= MOST:
        return
    call = Generation(type(model).__name__, str(threading.get_native_id()), str(start_ns), end_ns=str(end_ns))
    within = itertools.takewhile(lambda one: int(one.end_ns) > start_ns, reversed(listener.rows))
    parts = [one for one in within if (one.kind, one.tid) == (call.kind, call.tid) and one.steps]
    if parts:
        listener.rows.append(
            replace(
                call,
                requests=str(max(int(one.requests) for one in parts)),
                generated_tokens=str(sum(int(one.generated_tokens) for one in parts)),
                steps=str(sum(int(one.steps) for one in parts)),
            )
        )


def _text(value: int | None) -> str:
    return "" if value is None else str(value)
