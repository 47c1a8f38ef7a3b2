"""Theoretical occupancy. The expected numbers are from NVIDIA's calculator (cuda_occupancy.h in CUDA 13.0)."""

from __future__ import annotations

import pytest

from accel_magic.errors import ProbeError
from accel_magic.gpu.codegen.assemble import MULTIPROCESSORS, occupancy
from tests.support.errors import raises


@pytest.mark.parametrize(
    ("arch", "registers", "threads", "shared", "blocks"),
    [
        ("sm_75", 163, 640, 0, 0),
        ("sm_75", 91, 256, 4096, 2),
        ("sm_75", 1, 33, 16384, 4),
        ("sm_75", 127, 64, 10000, 6),
        ("sm_75", 127, 64, 0, 8),
        ("sm_75", 34, 96, 1024, 10),
        ("sm_80", 106, 1024, 90000, 0),
        ("sm_80", 178, 33, 49152, 3),
        ("sm_80", 163, 64, 100, 6),
        ("sm_80", 58, 32, 16384, 9),
        ("sm_80", 46, 96, 0, 13),
        ("sm_80", 112, 32, 100, 16),
        ("sm_86", 64, 128, 232448, 0),
        ("sm_86", 100, 256, 100, 2),
        ("sm_86", 178, 64, 0, 4),
        ("sm_86", 10, 224, 0, 6),
        ("sm_86", 40, 192, 100, 8),
        ("sm_86", 94, 64, 0, 10),
        ("sm_87", 211, 1024, 33000, 0),
        ("sm_87", 46, 640, 33000, 2),
        ("sm_87", 139, 96, 1024, 4),
        ("sm_87", 19, 224, 4096, 6),
        ("sm_87", 223, 32, 4096, 8),
        ("sm_87", 64, 96, 10000, 10),
        ("sm_89", 232, 384, 10000, 0),
        ("sm_89", 130, 128, 33000, 3),
        ("sm_89", 136, 33, 100, 6),
        ("sm_89", 49, 128, 10000, 9),
        ("sm_89", 46, 96, 0, 13),
        ("sm_89", 55, 64, 1024, 18),
        ("sm_90", 184, 768, 49152, 0),
        ("sm_90", 40, 512, 1024, 3),
        ("sm_90", 133, 64, 100, 6),
        ("sm_90", 52, 128, 100, 9),
        ("sm_90", 52, 64, 16384, 13),
        ("sm_90", 49, 33, 4096, 18),
        ("sm_100", 223, 640, 49152, 0),
        ("sm_100", 28, 32, 65536, 3),
        ("sm_100", 226, 32, 33000, 6),
        ("sm_100", 37, 160, 1024, 9),
        ("sm_100", 97, 32, 16384, 13),
        ("sm_100", 49, 33, 1024, 18),
        ("sm_103", 97, 640, 33000, 0),
        ("sm_103", 196, 64, 65536, 3),
        ("sm_103", 133, 32, 33000, 6),
        ("sm_103", 70, 96, 1024, 9),
        ("sm_103", 88, 1, 16384, 13),
        ("sm_103", 49, 33, 4096, 18),
        ("sm_110", 97, 1024, 0, 0),
        ("sm_110", 181, 32, 65536, 3),
        ("sm_110", 154, 64, 16384, 6),
        ("sm_110", 70, 96, 1024, 9),
        ("sm_110", 4, 1, 16384, 13),
        ("sm_110", 52, 64, 10000, 18),
        ("sm_120", 151, 1, 232448, 0),
        ("sm_120", 166, 128, 10000, 3),
        ("sm_120", 1, 256, 10000, 6),
        ("sm_120", 28, 64, 10000, 9),
        ("sm_120", 43, 96, 4096, 13),
        ("sm_120", 52, 64, 1024, 18),
        ("sm_121", 46, 64, 232448, 0),
        ("sm_121", 151, 128, 10000, 3),
        ("sm_121", 19, 256, 100, 6),
        ("sm_121", 142, 32, 10000, 9),
        ("sm_121", 43, 96, 4096, 13),
        ("sm_121", 55, 64, 4096, 18),
    ],
)
def test_the_number_of_blocks_is_that_of_nvidias_calculator(arch, registers, threads, shared, blocks):
    assert occupancy(arch, registers, threads, shared).blocks == blocks


def test_occupancy_names_the_limiting_resources_and_the_share_of_all_warps():
    found = occupancy("sm_90", 64, 256)
    assert (found.blocks, found.warps, found.share, found.limits) == (4, 32, 0.5, ("registers",))
    assert occupancy("sm_80", 32, 256).limits == ("warps", "registers")
    assert occupancy("sm_80", 16, 32).limits == ("blocks",)
    assert occupancy("sm_86", 16, 128, 40_000).limits == ("shared memory",)


def test_a_block_that_does_not_fit_has_zero_occupancy():
    assert occupancy("sm_90", 255, 1024).blocks == 0
    assert occupancy("sm_86", 32, 128, 101_377).blocks == 0


def test_architecture_specific_variants_have_the_limits_of_their_base():
    assert occupancy("sm_90a", 40, 128) == occupancy("sm_90", 40, 128)
    assert {75, 80, 86, 87, 89, 90, 100, 120} <= set(MULTIPROCESSORS)


@pytest.mark.parametrize(
    ("arch", "threads", "code"),
    [
        ("sm_42", 32, "gpu.unsupported-architecture"),
        ("gfx90a", 32, "gpu.unsupported-architecture"),
        ("sm_90", 0, "gpu.bad-launch-shape"),
        ("sm_90", 1025, "gpu.bad-launch-shape"),
    ],
)
def test_unknown_architectures_and_invalid_blocks_are_rejected(arch, threads, code):
    with raises(code, ProbeError):
        occupancy(arch, 32, threads)
