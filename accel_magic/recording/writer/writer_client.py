"""The side of the process that traces: start the writer of a dataset, and end it."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import channel, codec, free_memory, own_python
from accel_magic.codec import Descriptor
from accel_magic.errors import AccelMagicError, MachineError
from accel_magic.recording import dataset, kernel_counts, recording_store
from accel_magic.recording.reader.reader_messages import Begun, Ended, Finish, Finished, Open, Ready
from accel_magic.recording.record_decoder import decode
from accel_magic.recording.recording import CounterSamples, Recording

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from accel_magic.directories import Directory
    from accel_magic.kernel.attachment import RecordLayout
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.dataset import Manifest
    from accel_magic.recording.reader.reader_messages import Live
    from accel_magic.recording.stored_layout import StoredColumn

_TIMEOUT_S: Final = 120.0
_MOST_BYTES: Final = 256 << 20
_SHARE: Final = 8
"""Records on their way to the writer may take 256 MiB, or 1/8 of the free memory if that is less."""


class DatasetWriter:
    """The process that writes one dataset. It outlives this one, to complete the dataset.

    Args:
        folder: Where the dataset will be.

    Raises:
        MachineError: It cannot be started.

    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failed = ""
        """Why the dataset is incomplete; '' if it is complete."""
        self._directory: Directory | None = None
        self._columns: tuple[StoredColumn, ...] = ()
        self._counting = self._finished = False
        self._reader, self._theirs = socket.socketpair()
        self._helper = channel.start_process(
            own_python.command("accel_magic.recording.writer.writer_process"),
            what="writer",
            environment={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        self._helper.connection.settimeout(_TIMEOUT_S)

    @property
    def pid(self) -> int:
        """Process id, so that its own hits can be excluded."""
        return self._helper.pid

    @property
    def stream(self) -> int:
        """Descriptor of the reader's end of the socket between reader and writer."""
        return self._reader.fileno()

    @property
    def most_bytes(self) -> int:
        """How much the reader and the writer may hold in memory."""
        return min(_MOST_BYTES, free_memory.available_bytes() // _SHARE)

    def open(self, plan: Plan, machine: dict[str, str], layout: RecordLayout, source: Live) -> None:
        """Make the dataset.

        Args:
            plan: What is traced.
            machine: This machine.
            layout: Layout of the records.
            source: What the reader reads, for its counters.

        Raises:
            RecordingError: The folder cannot be written to, or holds a dataset.
            MachineError: The writer has ended.

        """
        kernel, beginning = source.kernel, _beginning(plan, machine, layout)
        self._columns = recording_store.described_columns(beginning.events)
        self._directory = dataset.make(self.folder, beginning)
        try:
            with self._theirs:
                message = Open(
                    folder=str(self._directory.path),
                    directory=Descriptor(self._directory.descriptor),
                    stream=Descriptor(self._theirs.fileno()),
                    layout=layout,
                    counters=None if kernel is None else kernel.counters,
                    histograms=None if kernel is None else kernel.histograms,
                    functions=source.functions,
                    limit=plan.request.max_events,
                )
                codec.send(self._helper.connection, message)
            codec.receive(self._helper.connection, Ready)
        except OSError:
            raise MachineError(
                "the writer process ended unexpectedly",
                why=self._helper.last_words(),
                fix="trace again; if it happens again, please report it with this message",
                code="writer.ended",
            ) from None

    def given(self) -> None:
        """Note that the reader has its end of the socket."""
        self._reader.close()

    def go(self, start_ns: int, shift_ns: int) -> None:
        """Report the start: CLOCK_MONOTONIC, and how far it is ahead of the kernel's."""
        self._counting = True
        with contextlib.suppress(OSError):  # reported at the end
            codec.send(self._helper.connection, Begun(start_ns=start_ns, shift_ns=shift_ns))

    def finish(self, rest: Sequence[NDArray[np.uint8]]) -> None:
        """Wait until everything is written that the reader had, and these records; sets `failed`."""
        files = []
        try:
            for ring in rest:
                files.append(os.memfd_create("rest"))
                with open(files[-1], "wb", closefd=False) as file:
                    file.write(ring.data)
            codec.send(self._helper.connection, Finish(rest=tuple(map(Descriptor, files))))
            self.failed = self.failed or codec.receive(self._helper.connection, Finished).failed
        except TimeoutError:
            self.failed = "the writer process does not respond"
        except OSError:
            self.failed = f"the writer process ended ({self._helper.last_words()})"
        finally:
            self._finished = True
            for descriptor in files:
                os.close(descriptor)

    def complete(self, recording: Recording) -> Recording:
        """Write the final description and manifest, and return the recording with the events of the dataset.

        Events that were not written are counted as lost, and a note says why.
        """
        if self._directory is None:
            raise ValueError("no dataset was opened")
        plan = recording.plan
        with self._directory as directory:
            try:
                manifest = dataset.read_manifest(directory, len(plan.points), len(plan.latency_points))
            except AccelMagicError as error:  # somebody has removed it
                self.failed = self.failed or error.why or error.what
                manifest = dataset.manifest_of(recording, "tracing")
            recording = self._with_notes(recording, manifest, directory)
            files = dataset.Files(
                directory.place() / dataset.EVENTS, dataset.in_order(manifest.parts), self._columns, len(plan.points)
            )
            recording = replace(recording, event_count=files.rows, load_events=files)
            try:
                dataset.complete(directory, recording, replace(manifest, state="ended"))
            except AccelMagicError as error:
                self.failed = self.failed or error.why or error.what
            else:
                with contextlib.suppress(OSError):
                    codec.send(self._helper.connection, Ended())
                self._helper.process.wait()
        self._helper.forget()
        return recording

    def _with_notes(self, recording: Recording, manifest: Manifest, directory: Directory) -> Recording:
        """The recording with what was not written counted as lost, and notes about that and a folder that was moved."""
        plan, notes = recording.plan, list[str]()
        if self.failed:
            lost = recording.lost
            if plan.records_events and not recording.limit_reached:
                lost = kernel_counts.lost_events(plan, recording.hits, recording.histograms, manifest.recorded)
            why = f"{self.failed}; what was not written counts as lost"
            notes = [f"the dataset in {self.folder} is incomplete: {why}"]
            recording = replace(recording, lost=lost)
        elif (place := directory.place()) != directory.path:
            notes = [f"the dataset is in {place}: its folder was moved while it was written"]
        return recording.with_notes(*notes)

    def abort(self) -> None:
        """End without a result: nothing stays of a trace that did not start; else the writer completes the dataset."""
        self._reader.close()
        self._theirs.close()
        if self._finished:
            return  # `complete` follows
        if self._counting:
            self._helper.forget()
        else:
            self._helper.end()
            if self._directory is not None:
                dataset.remove(self._directory)
        if self._directory is not None:
            self._directory.close()


def _beginning(plan: Plan, machine: dict[str, str], layout: RecordLayout) -> Recording:
    """A recording that has not started, with the columns that records of this layout have."""
    zero = kernel_counts.zero(plan)
    nothing = [np.empty(0, np.uint8) for _ in layout.record_sizes]
    events = dataset.nullable(decode(layout, nothing, 0, all_columns=True))
    return Recording(
        plan=plan,
        machine=machine,
        started="",
        start_ns=0,
        duration_ns=0,
        hits=zero.hits,
        lost=zero.lost,
        unpaired=zero.unpaired,
        totals=zero.totals,
        missed=0,
        histograms=zero.histograms,
        samples=CounterSamples(np.zeros(1, np.int64), np.zeros((1, len(plan.points)), np.uint64)),
        event_count=0,
        limit_reached=False,
        load_events=lambda: events,
    )
