"""Which traces run: each session sends its list to the service, which keeps the last one of each for `broker status`.

The service never looks into a list, because a session handles what its user sends. A later session checks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from accel_magic.codec import Message

LARGEST: Final = 1 << 16
"""Bytes of a list."""
_LONGEST: Final = 200
"""Characters of the probes of a trace."""
MOST: Final = 72
"""Traces of a list, so that it is never too large: a character has at most 4 bytes, the other fields together 50."""


@dataclass(frozen=True)
class ListedTrace:
    """A running trace.

    Attributes:
        number: In its session.
        since: Its start, s since 1970.
        probes: As the user wrote them; long ones are cut.

    """

    number: Annotated[int, Meta(gt=0)]
    since: Annotated[float, Meta(ge=0, lt=1 << 40)]
    probes: Annotated[str, Meta(max_length=_LONGEST)]

    @classmethod
    def of(cls, number: int, since: float, probes: tuple[str, ...]) -> ListedTrace:
        """List a trace."""
        text = ", ".join(probes)
        return cls(number, since, text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "...")


class TraceList(Message, frozen=True):
    """The traces of a session."""

    traces: Annotated[tuple[ListedTrace, ...], Meta(max_length=MOST)]
