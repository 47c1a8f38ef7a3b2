"""Machines with GPU drivers that were never seen: built from the drivers' sources."""

from __future__ import annotations

from pathlib import Path

import pytest

FORMATS = Path(__file__).with_name("formats")
SIZES = {"u8": 1, "bool": 1, "u16": 2, "u32": 4, "int": 4, "unsigned": 4, "unsigned int": 4}
SIGNED = ("int", "s64")
BEGINS = (
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
)
ENDS = '\nprint fmt: "no text", REC->nothing\n'


def format_text(event, number, fields):
    """Text of an event's `format` file; each field is at the next offset that its size divides."""
    lines, at = [], 8
    for field in fields:
        kind = field.rpartition(" ")[0]
        size = 4 if kind.startswith("__data_loc") else SIZES.get(kind, 8)
        at += -at % size
        lines.append(f"\tfield:{field};\toffset:{at};\tsize:{size};\tsigned:{int(kind in SIGNED)};\n")
        at += size
    return f"name: {event}\nID: {number}\nformat:\n{BEGINS}{''.join(lines)}{ENDS}"


def sections(text):
    """(head, its indented lines) of a file in `formats`."""
    found = []
    for line in text.splitlines():
        if line.startswith(" "):
            found[-1][1].append(line.strip())
        elif line and not line.startswith("#"):
            found.append((line, []))
    return found


@pytest.fixture
def machine_with(kernel_root):
    """Build a folder used as `/` of a machine with the tracepoints and functions of files in `formats`."""

    def build(*names, without=()):
        parts = [part for name in names for part in sections((FORMATS / f"{name}.txt").read_text())]
        functions = [(head.strip("[]"), lines) for head, lines in parts if head.startswith("[")]
        functions = [(module, lines) for module, lines in functions if module not in without]
        traceable = "".join(f"{name} [{module}]\n" for module, lines in functions for name in lines)
        modules = "".join(f"{module} 4096 0 - Live 0x0\n" for module in dict(functions))
        root = kernel_root(kallsyms="", modules=modules, traceable=traceable)
        events = [(head, lines) for head, lines in parts if not head.startswith("[")]
        for number, (head, fields) in enumerate(events):
            category, event = head.split(":")
            folder = root / "sys/kernel/tracing/events" / category / event
            folder.mkdir(parents=True)
            (folder / "format").write_text(format_text(event, 100 + number, fields))
        (root / "sys/kernel/tracing/events").mkdir(exist_ok=True, parents=True)
        return root

    return build
