"""Machines with drivers that were recorded in the lab (tools/record_driver_formats), or written by hand (NVIDIA's)."""

from __future__ import annotations

from pathlib import Path

import pytest

FORMATS = Path(__file__).with_name("formats")
BEGINS = (
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
)
ENDS = '\nprint fmt: "no text", REC->nothing\n'


def sections(name):
    """(head, its indented lines) of a file in `formats`."""
    found = []
    for line in (FORMATS / f"{name}.txt").read_text().splitlines():
        if line.startswith(" "):
            found[-1][1].append(line.strip())
        elif line and not line.startswith("#"):
            found.append((line, []))
    return found


def events(name):
    """Tracepoints of a file in `formats`: their fields."""
    return {head.partition(":")[2]: fields for head, fields in sections(name) if not head.startswith("[")}


def functions(name):
    """Functions of a file in `formats`."""
    return {function for head, lines in sections(name) if head.startswith("[") for function in lines}


@pytest.fixture
def machine_with(kernel_root):
    """Build a folder used as `/` of a machine with the tracepoints and functions of files in `formats`."""

    def build(*names, without=()):
        parts = [part for name in names for part in sections(name)]
        of_modules = [(head.strip("[]"), lines) for head, lines in parts if head.startswith("[")]
        of_modules = [(module, lines) for module, lines in of_modules if module not in without]
        traceable = "".join(f"{name} [{module}]\n" for module, lines in of_modules for name in lines)
        modules = "".join(f"{module} 4096 0 - Live 0x0\n" for module in dict(of_modules))
        root = kernel_root(kallsyms="", modules=modules, traceable=traceable)
        for number, (head, fields) in enumerate(part for part in parts if not part[0].startswith("[")):
            category, event = head.split(":")
            folder = root / "sys/kernel/tracing/events" / category / event
            folder.mkdir(parents=True)
            lines = "".join("\t" + field.replace("; ", ";\t") + "\n" for field in fields)
            (folder / "format").write_text(f"name: {event}\nID: {100 + number}\nformat:\n{BEGINS}{lines}{ENDS}")
        (root / "sys/kernel/tracing/events").mkdir(exist_ok=True, parents=True)
        return root

    return build
