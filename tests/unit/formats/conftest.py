"""Output of other tracers as recordings. `samples/` contains output of the real tools, cut to a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_magic.api.open import read_recording
from accel_magic.results.trace_result import TraceResult

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture
def sample():
    """Return the path of a sample by its name."""
    return lambda name: SAMPLES / name


@pytest.fixture
def imported(tmp_path):
    """Return a function that imports a text, or a sample given by its path."""

    def import_(text):
        if isinstance(text, Path):
            return TraceResult(read_recording(text))
        path = tmp_path / "output.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return TraceResult(read_recording(path))

    return import_


@pytest.fixture
def notes():
    """Return a result's notes as one text."""
    return lambda result: "\n".join(result.recording.notes)
