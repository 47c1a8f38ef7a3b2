"""The probe language: text to ProbeSpec. Nothing here inspects the machine."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from accel_magic.errors import ProbeError
from accel_magic.probes import bpftrace, captures, presets
from accel_magic.probes.globs import near
from accel_magic.probes.plan import KERNEL_KINDS, THREAD_KINDS, USER_KINDS, Kind, ProbeSpec

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
_SYSCALL_ENTRY, _SYSCALL_RETURN = "sys_enter_", "sys_exit_"
_OFFSET = re.compile(r"(.*\w)\+(?:0x[0-9a-fA-F]+|[0-9]+)")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_CALL = re.compile(r"([^()]+)\(\)")
OPERATORS = frozenset(("==", "!=", "<", ">", "<=", ">=", "=", "&&", "||", "and", "or", "in", "not"))
"""Words of filters, which are not probes."""

_FILTER_EXAMPLE = "--filter 'comm == \"python3\"'"
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
    if body in OPERATORS:
        raise _bad(text, "it is a part of a filter without quotes", f"write {_FILTER_EXAMPLE}")
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


def is_address(name: str) -> bool:
    """Whether the name of a function is an address."""
    return _ADDRESS.fullmatch(name) is not None


def _parse_word(word: str) -> tuple[ProbeSpec, ...]:
    name = word.removeprefix(PREFIX_EXCLUDE)
    if not presets.is_preset(name):
        _check_separators(word)
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
            counted=probe.counted,
            page_faults=probe.page_faults,
            nesting=probe.nesting,
        )
        for probe in presets.probes(name)
    )


def _check_separators(word: str) -> None:
    """Raise ProbeError for probes that are separated by commas, and for a comment."""
    words = [each for each in word.split(",") if each]
    if len(words) > 1 and all(map(_begins_probe, words)):
        raise _bad(word, "probes are separated by spaces", f"write {' '.join(words)}")
    if word.startswith("#"):
        raise _bad(word, "the line has no comments", "put comments into the code")


def _begins_probe(word: str) -> bool:
    body = word.removeprefix(PREFIX_EXCLUDE).removeprefix(PREFIX_LATENCY)
    return presets.is_preset(body) or body.partition(":")[0] in KINDS


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
    if not rest or ("/" in head and len(rest) == 1):
        raise _bad(text, "the kind of probe is missing", _with_kind(text, body))
    if len(rest) > 1:
        kinds = [f"{text[: -len(body)]}{kind}:{':'.join(rest)}" for kind in near(head, FORMS)]
        hint = f"did you mean {' or '.join(kinds)}? " if kinds else ""
        raise _bad(text, f"there is no kind of probe called {head!r}", hint + _EXAMPLES, code="probe.unknown-kind")
    return _kernel(text, "kprobe", [head, *rest])


def _with_kind(text: str, body: str) -> str:
    """Fix of a text without a kind."""
    if "/" in body:
        function = body if ":" in body else f"{body}:main"
        return f"write {text.removesuffix(body)}uprobe:{function}; a command follows after --"
    if not body:
        return _EXAMPLES
    if meant := _presets_of(body):
        return f"write {' or '.join(meant)}, or kprobe:{body} for a kernel function"
    return f"write kprobe:{body} for a kernel function, or uprobe:LIBRARY:{body} for a library function"


def _presets_of(name: str) -> list[str]:
    """Presets with a similar name, or that trace a kernel module of this name."""
    of_module = [preset for preset in presets.names() if name in presets.registered()[preset].modules]
    return of_module or near(name, presets.names())


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
    if kind in (*KERNEL_KINDS, *USER_KINDS[:2]) and (found := _OFFSET.fullmatch(part)):
        raise _bad(
            text,
            "probes are at the entry or the return of a function, not at an offset",
            f"write {text.removesuffix(part)}{found[1]}",
            code="probe.offset",
        )
    if kind in KERNEL_KINDS and (found := _CALL.fullmatch(part)):
        raise _bad(text, "a name has no parentheses", f"write {text.removesuffix(part)}{found[1]}")
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
            f"write {body}; to measure the enclosing function: {PREFIX_LATENCY}{FORMS['uprobe']}",
            code="probe.no-duration",
        )
    if spec.kind == "profile":
        raise _bad(spec.text, "a sample has no duration", f"write {body}", code="probe.no-duration")
    if spec.kind == "offcpu":
        raise _bad(spec.text, "waits are always measured", f"write {body}", code="probe.no-duration")
    if spec.kind == "tracepoint" and not (spec.target == "syscalls" and spec.name.startswith(_SYSCALL_ENTRY)):
        form = f"{PREFIX_LATENCY}tracepoint:syscalls:{_SYSCALL_ENTRY}"
        is_return = spec.target == "syscalls" and spec.name.startswith(_SYSCALL_RETURN)
        raise _bad(
            spec.text,
            "only system-call tracepoints have a known end",
            f"write {form}{spec.name.removeprefix(_SYSCALL_RETURN)}"
            if is_return
            else f"write {body} to count it; calls are measured with {form}NAME",
            code="probe.no-duration",
        )


_OF_KINDS: dict[Kind, str] = {
    "kprobe": "kprobe:vfs_read",
    "kretprobe": "kretprobe:vfs_read",
    "tracepoint": "tracepoint:syscalls:sys_enter_openat",
    "uprobe": "uprobe:libc:malloc",
    "uretprobe": "uretprobe:libc:malloc",
    "usdt": "usdt:libc:libc:setjmp",
    "profile": "profile:hz:99",
    "offcpu": "offcpu:us:100",
    "itt": "itt:ov::op::cpu::details:*",
}
"""An example of each kind."""
_US = {"us": 1, "ms": 1000, "s": 1_000_000}


def _wrong_form(text: str, kind: Kind, why: str = "") -> ProbeError:
    fix = f"write {_meant(text, kind) or _OF_KINDS[kind]}, of the form {FORMS[kind]}"
    return _bad(text, why or "it has the wrong number of parts", fix)


def _meant(text: str, kind: Kind) -> str:
    """The rate or wait that a profile or offcpu probe probably means; '' if there is none."""
    *unit, number = text.split(":")[1:] or [""]
    if not (number.isascii() and number.isdecimal() and len(number) < len(str(LONGEST_US))):
        return ""
    if kind == "profile":
        return f"profile:hz:{min(max(int(number), 1), HIGHEST_RATE)}"
    if kind == "offcpu":
        return f"offcpu:us:{min(max(int(number) * _US.get(''.join(unit), 1), 1), LONGEST_US)}"
    return ""


def _bad(text: str, why: str, fix: str, code: str = "probe.bad-syntax") -> ProbeError:
    return ProbeError(f"{text!r} is not a probe", why=why, fix=fix, code=code)
