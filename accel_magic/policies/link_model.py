"""Modelled time: what a link's bandwidth and the cost of faults make of the pages that a policy moves."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Mapping

_FAULT_US: Final = 20.0
_FAULT_SOURCE: Final = "20 us a fault: the lower end of Zheng et al., HPCA 2016"


@dataclass(frozen=True)
class LinkModel:
    """Between a GPU and the memory that its pages come from.

    Attributes:
        name: How it is called.
        gb_per_s: Bandwidth in each direction, in 10⁹ bytes a second.
        source: Where the bandwidth is from.
        fault_us: What a fault costs besides moving pages, in us.

    """

    name: str
    gb_per_s: float
    source: str
    fault_us: float = _FAULT_US

    def seconds(self, faults: int, moved_bytes: int) -> float:
        """Time in seconds if nothing overlaps: one fault after the other, then out, then in.

        Drivers serve faults in batches and overlap transfers, so that real times are shorter, but policies keep their
        order where the same share of both is hidden.
        """
        return faults * self.fault_us / 1e6 + moved_bytes / (self.gb_per_s * 1e9)

    def __str__(self) -> str:
        """Return what the time is modelled by, with sources."""
        fault = _FAULT_SOURCE if self.fault_us == _FAULT_US else f"{self.fault_us:g} us a fault"
        return f"{self.name}, {self.gb_per_s:g} GB/s ({self.source}); {fault}; nothing overlaps"


LINKS: Final[Mapping[str, LinkModel]] = MappingProxyType(
    {
        link.name: link
        for link in (
            LinkModel("pcie3", 15.75, "16 lanes of 8 GT/s, 128b/130b: PCI Express 3.0"),
            LinkModel("pcie4", 31.5, "16 lanes of 16 GT/s, 128b/130b: PCI Express 4.0"),
            LinkModel("pcie5", 63.0, "16 lanes of 32 GT/s, 128b/130b: PCI Express 5.0"),
            LinkModel("nvlink-c2c", 450.0, "900 GB/s in both directions: NVIDIA's Grace Hopper white paper"),
        )
    }
)
"""Links by name: their rates as specified, which no transfer exceeds."""
DEFAULT: Final = "pcie4"
_OPTIONS: Final = re.compile(r"(gb_per_s|fault_us)=(\d+(?:\.\d+)?)")


def parse(text: str) -> LinkModel:
    """Return a link: a name of `LINKS`, and options, as in "pcie4:gb_per_s=25,fault_us=40".

    Raises:
        ProbeError: There is no such link, or an option is not a positive number.

    """
    name, _, options = text.partition(":")
    given = [_OPTIONS.fullmatch(option) for option in options.split(",")] if options else []
    values = {found[1]: float(found[2]) for found in given if found}
    if name not in LINKS or None in given or not all(0 < value < math.inf for value in values.values()):
        raise ProbeError(
            f"{text!r:.60} is not a link",
            why="" if name not in LINKS else "options are gb_per_s and fault_us, positive numbers",
            fix=f"use {', '.join(LINKS)}, or with options: pcie4:gb_per_s=25,fault_us=40",
            code="policy.no-link",
        )
    link = LINKS[name]
    if "gb_per_s" in values:
        link = replace(link, source="given")
    return replace(link, **values)  # type: ignore[arg-type]
