"""A large dataset of synthetic records, written through the writer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.kernel import buckets
from accel_magic.recording import dataset
from accel_magic.recording.record_decoder import decode
from accel_magic.recording.recording import CounterSamples, Histograms
from accel_magic.recording.writer.writer_process import PartEncoder
from tests.support import synthetic

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = 1_000_000


def make(folder: Path, events: int) -> None:
    """Write a dataset of so many events; a part has a million, and all parts the same records at other times."""
    block = synthetic.records(min(BLOCK, events), step_ns=500)
    length = int(max(ring["time"].max() for ring in block)) - synthetic.START_NS + 1
    nothing = [ring[:0] for ring in synthetic.as_bytes(block)]
    columns = dataset.nullable(decode(synthetic.LAYOUT, nothing, 0, all_columns=True))
    directory = dataset.make(folder, synthetic.recording(lambda: columns, duration_ns=0))
    parts = PartEncoder(directory, synthetic.LAYOUT, events)
    hits = [np.zeros(len(synthetic.POINTS), np.uint64)]
    while int(parts.recorded.sum()) < events:
        parts.add(synthetic.as_bytes(block), synthetic.START_NS)
        hits.append(parts.recorded.copy())
        for ring in block:
            ring["time"] += np.uint64(length)
    times = np.arange(len(hits), dtype=np.int64) * length
    final = synthetic.recording(lambda: columns, hits=hits[-1], duration_ns=int(times[-1]))
    counts = np.zeros((2, buckets.COUNT), np.uint64)
    counts[:, buckets.index_of(np.array([1000]))[0]] = hits[-1][:2]
    longest = np.full(2, 1000, np.uint64)
    final = replace(
        final,
        samples=CounterSamples(times, np.stack(hits)),
        histograms=Histograms(counts, hits[-1][:2] * longest, longest),
    )
    manifest = replace(dataset.manifest_of(final, "ended"), parts=tuple(parts.parts), recorded=parts.recorded)
    with directory:
        dataset.complete(directory, final, manifest)
