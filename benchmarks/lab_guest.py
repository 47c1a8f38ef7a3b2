"""Runs inside the lab: attaches a probe several times and prints the times and their parts as JSON."""

from __future__ import annotations

import functools
import json
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from accel_magic.api.trace_options import Options
from accel_magic.engine import session
from accel_magic.engine.helper_processes import warm_up
from accel_magic.kernel import bpf_syscalls
from accel_magic.kernel.attach import kernel_engine
from accel_magic.kernel.bcc import compiler
from accel_magic.kernel.load import bpf_links

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS: dict[str, tuple[Any, str]] = {
    "compile": (compiler, "compile_own"),
    "buffers": (kernel_engine, "_create_maps"),
    "load": (bpf_syscalls, "prog_load"),
    "link": (bpf_syscalls, "link_kprobe_multi"),
    "unlink": (bpf_links.Descriptors, "close"),
}


def main() -> None:
    probe, rounds = sys.argv[1], int(sys.argv[2])
    spent: dict[str, float] = defaultdict(float)

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*arguments: Any, **options: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                spent[name] += time.perf_counter() - begin

        return run

    for name, (owner, attribute) in PARTS.items():
        setattr(owner, attribute, timed(name, getattr(owner, attribute)))
    warm_up()
    plan = Options().plan((probe,))
    attaching, detaching, parts = [], [], defaultdict(list)
    for _ in range(rounds + 1):
        spent.clear()
        begin = time.perf_counter()
        attached = session.attach(plan)
        attaching.append(time.perf_counter() - begin)
        attached.go()
        begin = time.perf_counter()
        attached.stop()
        detaching.append(time.perf_counter() - begin)
        for name in PARTS:
            parts[name].append(spent[name])
    report = {
        "functions": len(plan.points),
        "first_s": attaching[0],
        "attach_s": attaching[1:],
        "detach_s": detaching[1:],
        "parts_s": {name: values[1:] for name, values in parts.items() if name != "compile"},
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
