"""The compiled C programs of the SIMT tests, and the findings that their comments expect."""

import re
from functools import cache
from pathlib import Path

from accel_magic.gpu.program import clang, objects

HERE = Path(__file__).parent
SEVERITIES = {"refuse": "error", "warn": "warning", "note": "note"}


def names(folder):
    return sorted(path.name.removesuffix(".bpf.c") for path in (HERE / folder).glob("*.bpf.c"))


def text(folder, name):
    return (HERE / folder / f"{name}.bpf.c").read_text()


@cache
def compiled(folder, name):
    data = clang.compile_program(HERE / folder / f"{name}.bpf.c", include=[HERE / "include"])
    return objects.load_object(data, name)


def marked(source):
    """Findings that comments expect: {(severity, rule, line)}."""
    found = re.finditer(r"// (refuse|warn|note): (\S+) at this line", source)
    return {(SEVERITIES[each[1]], each[2], source[: each.start()].count("\n") + 1) for each in found}
