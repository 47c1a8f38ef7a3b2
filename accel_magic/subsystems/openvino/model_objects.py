"""What a Python object of OpenVINO points to: which of them are the same model, and the name that its tasks have.

OpenVINO tells neither. Both are read from this process's memory, through `/proc/self/mem`, where a wrong address is an
error and nothing else; what is not recognized is not used.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import sys
from pathlib import Path
from typing import Any, Final

_WORD: Final = struct.Struct("<Q")
_INSTANCE_AT: Final = 16
"""Where an object of a Python binding has the pointer to its C++ object: after `PyObject`."""
_SEARCHED: Final = 1536
"""Bytes of a compiled model in which its name is looked for."""
_SHORT_STRING: Final = 15
"""Length up to which a `std::string` has its characters in itself."""
_TASK_NAME: Final = re.compile(rb"Model\d+")


def _memory(address: int, size: int) -> bytes:
    """Memory of this process; empty if it cannot be read."""
    with contextlib.suppress(OSError, OverflowError, ValueError), Path("/proc/self/mem").open("rb", buffering=0) as own:
        return os.pread(own.fileno(), size, address)
    return b""


def _pointer(address: int) -> int:
    found = _memory(address, _WORD.size)
    return int(_WORD.unpack(found)[0]) if len(found) == _WORD.size else 0


def address_of(compiled: Any) -> int:
    """Address of the model that the plugin compiled, which is the same for each Python object of it.

    `ov::CompiledModel` begins with a pointer to it.
    """
    return _pointer(_pointer(id(compiled) + _INSTANCE_AT)) or id(compiled)


def task_name_of(address: int) -> str:
    """The name that tasks of the model's inferences have; '' if its memory has none, or several."""
    found = set()
    memory = _memory(address, _SEARCHED)
    for at in range(0, len(memory) - 31, _WORD.size):
        start, length = (_WORD.unpack_from(memory, at + _WORD.size * word)[0] for word in range(2))
        text = memory[at + 16 : at + 16 + length] if length <= _SHORT_STRING else b""
        if start == address + at + 16 and _TASK_NAME.fullmatch(text):
            found.add(text.decode())
    return found.pop() if len(found) == 1 else ""


def next_number() -> int | None:
    """The number in the name that OpenVINO gives to the next model: models that it makes have ascending numbers."""
    with contextlib.suppress(Exception):
        openvino: Any = sys.modules["openvino"]
        parameter = openvino.opset1.parameter([1])
        name = openvino.Model([openvino.opset1.result(parameter)], [parameter], "").get_name()
        return int(re.fullmatch(r"\D*(\d+)", name)[1])  # type: ignore[index]
    return None
