"""The GPU tools: one module each, `NAME.py`, beside the program `bpf/gpu/NAME.bpf.c`; add both to add a tool."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu_tools.tool import Tool

_SHARED = ("common", "conflicts", "figure", "tool")
TOOLS: Final[Mapping[str, Tool]] = MappingProxyType(
    {
        module.name: import_module(f"{__name__}.{module.name}").TOOL
        for module in sorted(iter_modules(__path__), key=lambda module: module.name)
        if module.name not in _SHARED
    }
)
"""All tools by name, in alphabetical order."""
