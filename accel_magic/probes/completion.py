"""Tab completion of probes: whole words that start with the typed text."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.errors import AccelMagicError
from accel_magic.probes import file_functions, kernel_functions, libraries, presets, tracefs, usdt
from accel_magic.probes.grammar import FORMS, KINDS, PREFIX_EXCLUDE, PREFIX_LATENCY, split_task
from accel_magic.probes.plan import KERNEL_KINDS, THREAD_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from accel_magic.probes.plan import Kind

MOST_ANSWERS = 200
_ROOT = Path("/")
_OF_THREADS = ("offcpu", "offcpu:us:100", "profile:hz:99", "profile:hz:999")


def complete(word: str, *, root: Path = _ROOT) -> list[str]:
    """Complete `word`: kinds, modules, functions, tracepoints, libraries, symbols.

    Args:
        word: The typed text, e.g. `tracepoint:sched:sw`.
        root: Folder used as `/` when reading the kernel's lists.

    Returns:
        At most 200 whole words, sorted; those that end in `:` can be continued. Never raises: unreadable lists are
        omitted.

    """
    body = word
    for prefix in (PREFIX_EXCLUDE, PREFIX_LATENCY):
        body = body.removeprefix(prefix)
    before = word[: len(word) - len(body)]
    answers: list[str] = []
    with suppress(AccelMagicError, OSError):
        distinct = dict.fromkeys(answer for answer in _answers(body, before, root) if answer.startswith(body))
        answers = sorted(islice(distinct, MOST_ANSWERS))
    return [before + answer for answer in answers]


def _answers(body: str, before: str, root: Path) -> Iterator[str]:
    head, colon, rest = body.partition(":")
    if not colon:
        if not before.endswith(PREFIX_LATENCY):
            yield from (word for name in presets.names() for word in (name, f"{name}:"))
        yield from (f"{kind}:" for kind in FORMS if kind not in THREAD_KINDS)
        if not before:
            yield PREFIX_LATENCY
            yield from _OF_THREADS
        yield from (f"{module}:" for module in sorted(kernel_functions.loaded_modules(root)))
        return
    if head in presets.names() and not before.endswith(PREFIX_LATENCY):
        yield from presets.parts(head)
        return
    kind = KINDS.get(head)
    if kind in THREAD_KINDS:
        yield from (word.replace(kind, head, 1) for word in _OF_THREADS if not before)
    elif kind is None:
        yield from (f"{head}:{name}" for name in _functions(head, rest, root))
    else:
        yield from (f"{head}:{answer}" for answer in _of_kind(kind, rest, root))


def _of_kind(kind: Kind, rest: str, root: Path) -> Iterable[str]:
    if kind in KERNEL_KINDS:
        return _kernel(rest, root)
    if kind == "tracepoint":
        return _tracepoints(rest, root)
    if kind == "itt":
        return _tasks(rest)
    return _user(kind, rest)


def _kernel(rest: str, root: Path) -> Iterator[str]:
    module, colon, name = rest.partition(":")
    if colon:
        yield from (f"{module}:{function}" for function in _functions(module, name, root))
        return
    yield from (f"{known}:" for known in sorted(kernel_functions.loaded_modules(root)))
    yield from _functions("", rest, root)


def _functions(module: str, start: str, root: Path) -> list[str]:
    inside = module if module == kernel_functions.KERNEL else module.replace("-", "_")
    return sorted(item.name for item in kernel_functions.load(root).inside(inside) if item.name.startswith(start))


def _tracepoints(rest: str, root: Path) -> list[str]:
    mounted = tracefs.find(root)
    category, colon, _ = rest.partition(":")
    if not colon:
        return [f"{known}:" for known in tracefs.categories(mounted)]
    return [f"{category}:{event}" for event in tracefs.events(mounted, category)]


def _tasks(rest: str) -> list[str]:
    """Domains and names of ITT tasks seen in this process; names are not listed by domain, so any domain has all."""
    from accel_magic.itt import collector  # loads a C library

    domain, colon, name = split_task(rest)
    if not colon:
        return [f"{known}:" for known in collector.domains()]
    return [f"{domain}:{task}" for task in collector.names(name)]


def _user(kind: Kind, rest: str) -> Iterable[str]:
    library, colon, name = rest.partition(":")
    if not colon:
        return _paths(library) if "/" in library else _mapped_libraries()
    path = libraries.resolve(library, os.getpid())
    if kind != "usdt":
        return (f"{library}:{symbol}" for symbol in _sorted_symbols(path) if symbol.startswith(name))
    known = usdt.probes(path)
    if ":" not in name:
        return sorted(f"{library}:{probe.provider}:" for probe in known)
    return sorted(f"{library}:{probe.provider}:{probe.name}" for probe in known)


def _mapped_libraries() -> list[str]:
    """Libraries, then Python's extension modules, of which a process may have more than are listed."""
    files = {file.name for file in libraries.mapped_files(os.getpid()) if ".so" in file.name}
    return [
        f"{libraries.short_name(name)}:" for name in sorted(files, key=lambda name: (not name.startswith("lib"), name))
    ]


def _paths(start: str) -> list[str]:
    folder, slash, _ = start.rpartition("/")
    with os.scandir(Path(folder + slash).expanduser()) as entries:
        return sorted(f"{folder}/{entry.name}{'/' if entry.is_dir() else ':'}" for entry in entries)


@lru_cache(maxsize=8)
def _sorted_symbols(path: Path) -> tuple[str, ...]:
    return tuple(sorted(set(file_functions.functions(path).names)))
