"""Probes of other kinds that a mistyped one may mean; each of them matches on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from accel_magic.errors import AccelMagicError, ProbeError
from accel_magic.probes.globs import is_glob, near
from accel_magic.probes.grammar import KINDS, PREFIX_EXCLUDE, PREFIX_LATENCY
from accel_magic.probes.plan import KERNEL_KINDS, RETURN_KINDS, USER_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from accel_magic.probes.plan import Kind, ProbePoint, ProbeSpec

    Matches = Callable[[str], Sequence[ProbePoint]]

_MOST: Final = 2
_HELPED: Final = frozenset(
    (
        *("probe.bad-syntax", "probe.unknown-kind", "probe.no-match", "probe.no-library", "probe.no-file"),
        *("probe.module-not-loaded", "kernel.no-kprobes"),
    )
)
"""Codes of errors for which another kind of probe may be the answer."""
_SYSCALL: Final = re.compile(r"(?:__(?:x64|do|se)_sys_|SyS_|k?sys_(?:enter_|exit_)?|do_sys_)?(\w+)")
_SYSCALL_TARGETS: Final = ("syscall", "syscalls", "sys", "raw_syscalls")
_LIBC: Final = "libc"

_ErrorT = TypeVar("_ErrorT", bound=AccelMagicError)


def similar(spec: ProbeSpec, names: Iterable[str], requested: str) -> str:
    """Return `did you mean A, B or C?` with whole probes, or '' if no name is similar to `requested`."""
    before, _, after = spec.text.rpartition(requested)
    *head, last = [f"{before}{name}{after}" for name in near(requested, names)] or [""]
    if not last:
        return ""
    return f"did you mean {', '.join(head)} or {last}?" if head else f"did you mean {last}?"


def improved(error: _ErrorT, text: str, matches: Matches) -> _ErrorT | ProbeError:
    """Replace the fix of an error by probes of other kinds that match, if there are some.

    Args:
        error: The error of a probe.
        text: The probe, as the user wrote it.
        matches: Returns the places that a probe matches; none if it is invalid or matches nothing.

    """
    found = _found(text, matches) if error.code in _HELPED else []
    if not found:
        return error
    fix = f"write {' or '.join(found)}"
    if isinstance(error, ProbeError):
        return type(error)(error.what, why=error.why, fix=fix, code=error.code)
    target, _, name = text.removeprefix(PREFIX_LATENCY).partition(":")
    if target in KINDS:
        return type(error)(error.what, why=error.why, fix=f"{fix}; or {error.fix}", code=error.code)
    return ProbeError(
        f"{text!r} matches nothing",
        why=f"without a kind it means the function {name} of a kernel module called {target}",
        fix=fix,
        code="probe.no-match",
    )


def _found(text: str, matches: Matches) -> list[str]:
    """Find the probes that `text` may mean, the most likely first."""
    if text.startswith(PREFIX_EXCLUDE):
        return []
    body = text.removeprefix(PREFIX_LATENCY)
    prefix = text[: len(text) - len(body)]
    # What cannot be measured may have an entry.
    return _matching(prefix, body, matches) or (_matching("", body, matches) if prefix else [])


def _matching(prefix: str, body: str, matches: Matches) -> list[str]:
    found: list[str] = []
    for words in dict.fromkeys(_candidates(body)):
        each = [f"{prefix}{word}" for word in words]
        points = [matches(word) for word in each]
        if all(points):
            found.append(" ".join(_of_one_category(word, places) for word, places in zip(each, points, strict=True)))
    return list(dict.fromkeys(found))[:_MOST]


def _similar_files(path: Path) -> list[Path]:
    """Files of similar names in the folder of one that does not exist."""
    try:
        files = [] if path.exists() else [each.name for each in path.parent.iterdir() if each.is_file()]
    except OSError:
        return []
    return [path.with_name(name) for name in near(path.name, files)]


def _of_one_category(word: str, points: Sequence[ProbePoint]) -> str:
    """Replace the glob for the category of a tracepoint by the category where it was found."""
    return word.replace("tracepoint:*:", f"tracepoint:{points[0].target}:")


def _candidates(body: str) -> Iterator[tuple[str, ...]]:
    """Yield what a probe may mean: usually one probe, several for a list of functions."""
    head, *rest = body.split(":")
    kind = KINDS.get(head)
    if kind is not None and kind not in (*KERNEL_KINDS, *USER_KINDS, "tracepoint"):
        return
    parts = [head, *rest] if kind is None else rest
    if not all(parts) or not parts:
        return
    *targets, name = parts
    if "," in name and targets:
        before = body.removesuffix(name)
        yield tuple(f"{before}{each}" for each in name.split(","))
    for word in _of_function(kind, targets, name.removesuffix("()")):
        yield (word,)


def _of_function(kind: Kind | None, targets: list[str], name: str) -> Iterator[str]:
    """Yield the probes that a function, event or system call of this name may have."""
    at_return = kind in RETURN_KINDS
    user, kernel = ("uretprobe", "kretprobe") if at_return else ("uprobe", "kprobe")
    syscall = _SYSCALL.fullmatch(name)
    call = f"tracepoint:syscalls:sys_{'exit' if at_return else 'enter'}_{syscall[1]}" if syscall else ""
    if len(targets) == 2:
        yield f"usdt:{targets[0]}:{targets[1]}:{name}"
    elif not targets:
        yield from filter(None, (call, f"tracepoint:*:{name}" if not is_glob(name) else ""))
        yield from (f"{kernel}:{name}", f"{user}:{_LIBC}:{name}")
    elif len(targets) == 1:
        target = targets[0]
        if call and target in _SYSCALL_TARGETS:
            yield call
        yield from (f"{user}:{target}:{name}", f"tracepoint:{target}:{name}")
        if "/" in target:
            yield from (
                f"{user}:{path if path.is_absolute() else f'./{path}'}:{name}" for path in _similar_files(Path(target))
            )
        elif Path(target).is_file():
            yield f"{user}:./{target}:{name}"
        yield f"{kernel}:{target}:{name}"
        if not is_glob(name):
            yield f"{kernel}:{name}"
        if kind in KERNEL_KINDS:
            yield from filter(None, (call, f"{user}:{_LIBC}:{name}"))
