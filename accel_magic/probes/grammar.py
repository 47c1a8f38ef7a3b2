"""The probe language: text to ProbeSpec. Nothing here inspects the machine."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from accel_magic.errors import ProbeError
from accel_magic.probes import bpftrace, captures, presets
from accel_magic.probes.globs import suggestion
from accel_magic.probes.plan import THREAD_KINDS, USER_KINDS, Kind, ProbeSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FORMS: dict[Kind, str] = {
    "kprobe": "kprobe:[MODULE:]FUNCTION",
    "kretprobe": "kretprobe:[MODULE:]FUNCTION",
    "tracepoint": "tracepoint:CATEGORY:EVENT",
    "uprobe": "uprobe:LIBRARY:FUNCTION",
    "uretprobe": "uretprobe:LIBRARY:FUNCTION",
    "usdt": "usdt:LIBRARY:PROVIDER:NAME",
    "profile": "profile:hz:RATE",
    "offcpu": "offcpu[:us:SHORTEST]",
    "itt": "itt:DOMAIN:TASK",
}
"""The correct form of each kind, for messages."""

KINDS: dict[str, Kind] = {
    **{kind: kind for kind in FORMS},
    "k": "kprobe",
    "kr": "kretprobe",
    "t": "tracepoint",
    "u": "uprobe",
    "ur": "uretprobe",
    "U": "usdt",
    "p": "profile",
}
"""Every spelling of a kind; the short ones come from bpftrace."""

PREFIX_LATENCY = "latency:"
PREFIX_EXCLUDE = "!"
HIGHEST_RATE = 9999
LONGEST_US = 10**9
"""Upper limits of `profile:hz:RATE` and `offcpu:us:SHORTEST`."""

_MODULE = re.compile(r"[A-Za-z0-9_-]+")
_KERNEL_NAME = re.compile(r"[\w.$*?\[\]!-]+", re.ASCII)
_EVENT_NAME = re.compile(r"[\w.*?\[\]!-]+", re.ASCII)
# C++ symbols may contain any printable text except characters that end a word on the magic's shell-like line.
_SYMBOL = re.compile(r"[^\s:\"'`;\x00-\x1f\x7f]+")
# A name as C++ code has it, with a scope or parameters: `ns::add`, `add(int, int)`.
_CPP = re.compile(r"(?=.*::|[^(]*\().(?:[^:\"'`;\x00-\x1f\x7f]|::)*")
_TASK = re.compile(r"[^\x00-\x1f\x7f]+")
_SINGLE_COLON = re.compile(r"(?<!:):(?!:)")  # `::` is part of a C++ name
_LIBRARY = re.compile(r"[^\s:\x00-\x1f\x7f]+")
_SYSCALL_ENTRY = "sys_enter_"

_EXAMPLES = (
    "e.g. intel_vpu:ivpu_*, kprobe:FUNCTION, tracepoint:syscalls:sys_enter_ioctl, uprobe:libc:malloc, "
    "usdt:LIBRARY:PROVIDER:NAME, itt:DOMAIN:TASK, latency:uprobe:libc:malloc, !intel_vpu:ivpu_dbg*"
)


def parse(text: str) -> ProbeSpec:
    """Parse one probe.

    Args:
        text: A word such as `intel_vpu:ivpu_*`, `latency:uprobe:libc:malloc` or `!kprobe:vfs_*`.

    Raises:
        ProbeError: Not a probe; the fix shows the correct form, or the equivalent of bpftrace code.

    """
    bpftrace.check(text)
    body = text
    exclude = body.startswith(PREFIX_EXCLUDE)
    body = body.removeprefix(PREFIX_EXCLUDE)
    latency = body.startswith(PREFIX_LATENCY)
    body = body.removeprefix(PREFIX_LATENCY)
    if exclude and latency:
        raise _bad(text, "an exclusion cannot have `latency:`", f"write !{body}")
    if body.startswith((PREFIX_EXCLUDE, PREFIX_LATENCY)):
        raise _bad(text, "a probe can have only one `!` or `latency:` prefix", _EXAMPLES)
    spec = _parse_place(text, body)
    spec = replace(spec, text=text, exclude=exclude, latency=latency or spec.latency)
    if exclude and spec.kind in THREAD_KINDS:
        raise _bad(text, f"{spec.kind} probes cannot be excluded", "remove it")
    if latency:
        _check_latency(spec, body)
    return spec


def _parse_word(word: str) -> tuple[ProbeSpec, ...]:
    name = word.removeprefix(PREFIX_EXCLUDE)
    if not presets.is_preset(name):
        return (parse(word),)
    if name != word:
        return (ProbeSpec(word, "kprobe", name, "*", exclude=True),)
    return tuple(
        replace(
            parse(probe.spec),
            text=probe.part,
            captures=captures.parse(probe.args),
            total=probe.total,
            optional=True,
            group=probe.group,
            kernels=probe.kernels,
        )
        for probe in presets.probes(name)
    )


def parse_all(words: Sequence[str | ProbeSpec]) -> tuple[ProbeSpec, ...]:
    """Parse several probes, one per word; a preset expands to many. Specs are passed through.

    Raises:
        ProbeError: A word is not a probe, there are no words, or all are exclusions.

    """
    specs = tuple(spec for word in words for spec in ((word,) if isinstance(word, ProbeSpec) else _parse_word(word)))
    if not specs:
        raise ProbeError("no probe given", fix=f"add one, {_EXAMPLES}", code="probe.none-given")
    if all(spec.exclude for spec in specs):
        raise ProbeError(
            "every probe given is an exclusion",
            why="there is nothing to exclude from",
            fix="add a probe to trace",
            code="probe.only-exclusions",
        )
    return specs


def _parse_place(text: str, body: str) -> ProbeSpec:
    head, *rest = body.split(":")
    if kind := KINDS.get(head):
        return _PARSERS[kind](text, kind, rest)
    if not rest:
        raise _bad(
            text,
            "the kind of probe is missing",
            f"write kprobe:{body} for a kernel function, or uprobe:LIBRARY:{body} for a library function"
            if body
            else _EXAMPLES,
        )
    if len(rest) > 1:
        hint = suggestion(head, FORMS)
        raise _bad(
            text, f"there is no kind of probe called {head!r}", f"{hint} {_EXAMPLES}".strip(), code="probe.unknown-kind"
        )
    return _kernel(text, "kprobe", [head, *rest])


def _kernel(text: str, kind: Kind, parts: list[str]) -> ProbeSpec:
    if not 1 <= len(parts) <= 2:
        raise _wrong_form(text, kind)
    module, name = parts if len(parts) == 2 else ("", parts[0])
    _check(text, kind, name, _KERNEL_NAME)
    if len(parts) == 2:
        _check(text, kind, module, _MODULE)
    return ProbeSpec(text, kind, module.replace("-", "_"), name)


def _tracepoint(text: str, kind: Kind, parts: list[str]) -> ProbeSpec:
    if len(parts) != 2:
        raise _wrong_form(text, kind)
    category, event = parts
    _check(text, kind, category, _EVENT_NAME)
    _check(text, kind, event, _EVENT_NAME)
    return ProbeSpec(text, kind, category, event)


def _user_function(text: str, kind: Kind, parts: list[str]) -> ProbeSpec:
    library, _, signature = split_task(":".join(parts))
    if _CPP.fullmatch(signature):
        _check(text, kind, library, _LIBRARY)
        return ProbeSpec(text, kind, library, signature)
    if len(parts) != 2:
        raise _wrong_form(text, kind, _COLON_IN_PATH if len(parts) > 2 else "")
    library, function = parts
    _check(text, kind, library, _LIBRARY)
    _check(text, kind, function, _SYMBOL)
    return ProbeSpec(text, kind, library, function)


def _usdt(text: str, kind: Kind, parts: list[str]) -> ProbeSpec:
    if len(parts) != 3:
        raise _wrong_form(text, kind, _COLON_IN_PATH if len(parts) > 3 else "")
    library, provider, name = parts
    _check(text, kind, library, _LIBRARY)
    _check(text, kind, provider, _SYMBOL)
    _check(text, kind, name, _SYMBOL)
    return ProbeSpec(text, kind, library, name, provider=provider)


def _profile(text: str, kind: Kind, parts: list[str]) -> ProbeSpec:
    if len(parts) != 2 or parts[0] != "hz":
        raise _wrong_form(text, kind, "the rate in Hz is missing")
    return ProbeSpec(text, kind, "hz", _number(text, kind, parts[1], HIGHEST_RATE))


def _offcpu(text: str, kind: Kind, parts: list[str]) -> ProbeSpec:
    if not parts:
        return ProbeSpec(text, kind, "us", "0")
    if len(parts) != 2 or parts[0] != "us":
        raise _wrong_form(text, kind, "the minimum wait must be given in microseconds (us)")
    return ProbeSpec(text, kind, "us", _number(text, kind, parts[1], LONGEST_US))


def split_task(text: str) -> tuple[str, str, str]:
    """Split `DOMAIN:TASK` at its first single colon, like `str.partition`."""
    found = _SINGLE_COLON.search(text)
    return (text[: found.start()], ":", text[found.end() :]) if found else (text, "", "")


def _task(text: str, kind: Kind, parts: list[str]) -> ProbeSpec:
    domain, colon, task = split_task(":".join(parts))
    if not colon or _SINGLE_COLON.search(task):
        raise _wrong_form(text, kind)
    _check(text, kind, domain, _TASK)
    _check(text, kind, task, _TASK)
    return ProbeSpec(text, kind, domain, task, latency=True)


def _number(text: str, kind: Kind, part: str, highest: int) -> str:
    if not (part.isascii() and part.isdecimal() and len(part) <= len(str(highest)) and 1 <= int(part) <= highest):
        raise _wrong_form(text, kind, f"{part!r} is not a whole number from 1 to {highest:,}")
    return str(int(part))


_PARSERS: dict[Kind, Callable[[str, Kind, list[str]], ProbeSpec]] = {
    "kprobe": _kernel,
    "kretprobe": _kernel,
    "tracepoint": _tracepoint,
    "uprobe": _user_function,
    "uretprobe": _user_function,
    "usdt": _usdt,
    "profile": _profile,
    "offcpu": _offcpu,
    "itt": _task,
}
_COLON_IN_PATH = "there are too many colons (library paths and symbol names cannot contain one)"


def _check(text: str, kind: Kind, part: str, allowed: re.Pattern[str]) -> None:
    if not part:
        raise _wrong_form(text, kind, "one of its parts is empty")
    if not allowed.fullmatch(part):
        raise _wrong_form(text, kind, f"{part!r} contains an invalid character")


def _check_latency(spec: ProbeSpec, body: str) -> None:
    if spec.kind in ("kretprobe", "uretprobe"):
        entry = {"kretprobe": "kprobe", "uretprobe": "uprobe"}[spec.kind]
        fix = f"write {PREFIX_LATENCY}{entry}:{body.partition(':')[2]}: the return is found automatically"
        raise _bad(spec.text, "latency is measured from a function's entry", fix, code="probe.no-duration")
    if spec.kind == "usdt":
        raise _bad(
            spec.text,
            "a USDT probe is a single instruction and has no return",
            f"measure the enclosing function: {PREFIX_LATENCY}{FORMS['uprobe']}",
            code="probe.no-duration",
        )
    if spec.kind == "profile":
        raise _bad(spec.text, "a sample has no duration", f"write {body}", code="probe.no-duration")
    if spec.kind == "offcpu":
        raise _bad(spec.text, "waits are always measured", f"write {body}", code="probe.no-duration")
    if spec.kind == "tracepoint" and not (spec.target == "syscalls" and spec.name.startswith(_SYSCALL_ENTRY)):
        raise _bad(
            spec.text,
            "only system-call tracepoints have a known end",
            f"write {PREFIX_LATENCY}tracepoint:syscalls:{_SYSCALL_ENTRY}NAME",
            code="probe.no-duration",
        )


def _wrong_form(text: str, kind: Kind, why: str = "") -> ProbeError:
    examples: dict[Kind, str] = {
        **dict.fromkeys(USER_KINDS[:2], "  e.g. uprobe:libc:malloc or uprobe:/usr/lib/libfoo.so:foo_*"),
        "profile": "  e.g. profile:hz:99",
        "offcpu": "  e.g. offcpu or offcpu:us:100",
        "itt": "  e.g. itt:ov::op::cpu::details:* or 'itt:python:load image'",
    }
    example = examples.get(kind, "")
    return _bad(text, why or "it has the wrong number of parts", f"write {FORMS[kind]}{example}")


def _bad(text: str, why: str, fix: str, code: str = "probe.bad-syntax") -> ProbeError:
    return ProbeError(f"{text!r} is not a probe", why=why, fix=fix, code=code)
