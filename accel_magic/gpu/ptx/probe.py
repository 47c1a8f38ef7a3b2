"""A compiled program, ready to be put into kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProbeCode:
    """A probe in PTX.

    Attributes:
        name: Its function; the parameters are `context.PARAMETERS`, and it returns nothing.
        text: A whole PTX module that defines the function and everything that the function uses.

    """

    name: str
    text: str
