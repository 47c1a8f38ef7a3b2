"""Depth of native stacks: the kernel's setting, limited by programs and memory."""

import re

import pytest

from accel_magic.kernel import features
from accel_magic.kernel.attach import stack_maps
from accel_magic.kernel.load import shared_functions


@pytest.fixture
def limit(tmp_path, monkeypatch):
    """Set a fake `kernel.perf_event_max_stack`; None: no such setting."""
    (tmp_path / "sys/kernel").mkdir(parents=True)
    monkeypatch.setattr(features, "_PROC", tmp_path)
    monkeypatch.setattr(shared_functions, "has_loops", lambda: True)

    def set_(text):
        if text is not None:
            (tmp_path / "sys/kernel/perf_event_max_stack").write_text(f"{text}\n")

    return set_


@pytest.mark.parametrize(
    ("setting", "frames"), [(None, 127), (127, 127), (16, 16), (0, 2), (1024, 1024), (655360, 4096)]
)
def test_the_number_of_frames_follows_the_kernels_setting(limit, setting, frames):
    limit(setting)
    assert stack_maps.native_frames() == frames


def test_kernels_without_loops_record_fewer_frames(limit, monkeypatch):
    limit(1024)
    monkeypatch.setattr(shared_functions, "has_loops", lambda: False)
    assert stack_maps.native_frames() == stack_maps.most_frames() == 256


@pytest.mark.parametrize("frames", [2, 127, 255, 256, 257, 1024, 4096])
def test_all_stacks_fit_and_the_table_stays_within_its_memory(frames):
    defined = dict(re.findall(r"#define (\w+) (\d+)", "\n".join(stack_maps.defines(frames))))
    words = int(defined["AM_STACK_WORDS"])
    assert int(defined["AM_STACK_FRAMES"]) == frames <= words
    assert words & (words - 1) == 0
    assert words >= 2 * 127 + 2
    assert 2048 <= stack_maps._entries(frames) <= stack_maps.MOST_STACKS
    assert stack_maps._entries(frames) * 8 * words <= 64 << 20
