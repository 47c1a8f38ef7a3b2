"""ProgramResult: data frames of the maps and ring buffers of a user's own BCC program."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from accel_magic.kernel.records import c_layout, map_frames
from accel_magic.recording.profile import Lost
from accel_magic.result_bases.base import Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from accel_magic.kernel.bcc.compiler import ProgramMap
    from accel_magic.kernel.load.bpf_maps import MapElements
    from accel_magic.recording.program_data import ProgramRecording
    from accel_magic.views.program_view import ProgramTables


class ProgramResult(Result):
    """Result of a cell or block traced with a user's own program; tables are built on first use and cached."""

    KIND = "a user's program"
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "events": (
                "the program has no ring buffer",
                "send records with ringbuf_output, or use result.maps",
            ),
            "counts": ("a program counts in its own maps", "use result.maps"),
            "losses": (
                "the kernel reports a full ring buffer only to the program",
                "count failed calls of ringbuf_output in a map of the program",
            ),
            "plan": ("the program itself decides where it attaches", "use result.recording.places"),
            "figure": ("a program's maps can contain anything", "plot its data frames: result.maps[NAME].plot()"),
            "compare": (
                "a program's maps can contain anything",
                "join the data frames of both: result.maps[NAME].join(...)",
            ),
            "diagnose": ("there are no rules for users' own programs", "use result.maps"),
            "to_parquet": (
                "a program's maps have their own types, which recordings do not support",
                "save its data frames: result.maps[NAME].to_parquet(path)",
            ),
            "to_perfetto": (
                "it is unknown which member of a program's records is a time",
                "trace with probes: results of %%ktrace can be exported",
            ),
        }
    )

    def __init__(self, recording: ProgramRecording, value: object = None) -> None:
        super().__init__(value)
        self.recording = recording

    @property
    def machine(self) -> dict[str, str]:
        """Where it was recorded."""
        return self.recording.machine

    @property
    def started(self) -> str:
        """Wall-clock start, ISO 8601 with time zone."""
        return self.recording.started

    @property
    def duration_s(self) -> float:
        """Length of the traced time in seconds."""
        return self.recording.duration_ns / 1e9

    @cached_property
    def maps(self) -> dict[str, pd.DataFrame]:
        """The program's maps by name, read after it was detached: one row per element, sorted by key.

        Columns: `key` and `value`, or the members of these if they are structs; for a per-CPU map the sum, followed by
        `NAME_cpu0`, `NAME_cpu1`... A BPF_HISTOGRAM has `slot`, `low`, `high` (inclusive) and `count`.
        """
        return {described.name: self._map(described, content) for described, content in self.recording.maps}

    def _map(self, described: ProgramMap, content: MapElements) -> pd.DataFrame:
        key = c_layout.value_layout(described.key, described.key_size, "key")
        value = c_layout.value_layout(described.value, described.value_size, "value")
        frame = map_frames.map_frame(key, value, content.keys, content.values)
        if self.is_histogram(described.name):
            frame = map_frames.histogram_frame(frame, log2=self.recording.log2)
        return frame

    def is_histogram(self, name: str) -> bool:
        """Whether a map was declared with BPF_HISTOGRAM."""
        return name in self.recording.histograms

    @cached_property
    def _rings(self) -> dict[str, tuple[pd.DataFrame, str]]:
        """Frame of each ring, and a note about it."""
        found = {}
        for described, data in self.recording.rings:
            frame, unknown = map_frames.ring_frame(data, described.event)
            note = ""
            if unknown:
                kinds = ", ".join(f"{count:,} of {size} bytes" for size, count in sorted(unknown.items()))
                note = (
                    f"{described.name}: {kinds} are kept as bytes in `raw`, because BCC does not know their type: "
                    "always pass the same struct of plain numbers and arrays to ringbuf_output"
                )
            found[described.name] = (frame, note)
        return found

    @property
    def rings(self) -> dict[str, pd.DataFrame]:
        """The program's ring buffers by name: one row per record, in order of reservation.

        Columns are the members of the struct that the program passes; `raw` (bytes) if its type is unknown.
        """
        return {name: frame for name, (frame, _) in self._rings.items()}

    @cached_property
    def events(self) -> pd.DataFrame:
        """Records of all ring buffers, one row each: `ring` (category, its name), then the columns of `rings`.

        If a ring lacks a column, its rows have NA there.

        Raises:
            ResultError: The program has no ring buffer.

        """
        if not self.rings:
            raise self._lacking("events")
        names = list(self.rings)
        frames = list(self.rings.values())
        if len(frames) > 1:  # otherwise integer columns with missing rows would become floats
            frames = [frame.astype(_nullable(frame)) for frame in frames]
        table = pd.concat(frames, ignore_index=True)
        codes = np.repeat(np.arange(len(names)), [len(frame) for frame in frames])
        column = "ring" if "ring" not in table else "ring_name"
        table.insert(0, column, pd.Series(pd.Categorical.from_codes(codes, pd.Index(names))))
        return table

    def _losses(self) -> Iterator[Lost]:
        if self.recording.rings:
            raise self._lacking("losses")
        yield Lost(self.recording.missed, "hits were missed: the kernel could not run the program", "missed")

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user: maps left out, records of unknown type, places that could not be probed."""
        return (*self.recording.notes, *(note for _, note in self._rings.values() if note))

    def _title(self) -> str:
        return self.recording.program

    def _tables(self) -> ProgramTables:
        """Tables shown in the text and the HTML."""
        from accel_magic.views.program_view import ProgramTables

        return ProgramTables(self.recording, self.maps, self.rings, self.notes)

    def summary(self) -> str:
        """Return plain text: headline, each map and each ring buffer."""
        from accel_magic.views.program_view import program_text

        return program_text(self._tables())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.views.program_view import program_html

        return {"text/plain": self.summary(), "text/html": program_html(self._tables())}


def _nullable(frame: pd.DataFrame) -> dict[str, str]:
    """Nullable types of the integer columns: `Int32` for int32, `UInt64` for uint64."""
    names = {"i": "Int", "u": "UInt"}
    return {
        str(name): f"{names[kind.kind]}{8 * kind.itemsize}" for name, kind in frame.dtypes.items() if kind.kind in names
    }
