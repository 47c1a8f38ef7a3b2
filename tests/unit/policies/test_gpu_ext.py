"""gpu_ext's own policies, unmodified, from the checkout that ACCEL_MAGIC_GPU_EXT names (its folder `extension`)."""

import os
from pathlib import Path

import numpy as np
import pytest

from accel_magic.policies import policy
from accel_magic.policies.engine import Model

CHECKOUT = Path(os.environ.get("ACCEL_MAGIC_GPU_EXT", "")) / "extension"
LOOP = [block * 512 + page for _ in range(20) for block in range(80) for page in (0, 1)]
PREFETCHED = list(range(32 * 512))

pytestmark = pytest.mark.skipif(
    not os.environ.get("ACCEL_MAGIC_GPU_EXT"), reason="ACCEL_MAGIC_GPU_EXT does not name a checkout of gpu_ext"
)


@pytest.mark.parametrize(
    ("name", "pages", "counted", "expected"),
    [
        ("eviction_fifo", LOOP, "misses", 1600),
        ("eviction_lfu", LOOP, "misses", 1600),
        ("eviction_mru", LOOP, "misses", 384),
        ("prefetch_none", PREFETCHED, "faults", len(PREFETCHED)),
        ("prefetch_always_max", PREFETCHED, "faults", 32),
    ],
)
def test_they_decide_as_in_the_kernel(name, pages, counted, expected):
    """With 64 chunks; the numbers are those of the same files in a kernel, told of every access."""
    model = Model(policy.load(CHECKOUT / f"{name}.bpf.c"), chunks=64, blocks=80)
    model.run(np.array(pages, np.uint64))
    assert getattr(model.counts, counted) == expected


def test_those_that_are_configured_decide_as_in_the_kernel():
    tree = {"threshold_map.0": 51}
    stride = {"policy_config.0": 2, "policy_config.1": 2, "policy_config.2": 128}
    for name, settings, step, faults, refused in (
        ("prefetch_adaptive_tree_iter", tree, 1, 544, 0),
        ("prefetch_stride", stride, 1, 896, 320),
        ("prefetch_stride", stride, 8, 2048, 1920),
    ):
        model = Model(policy.load(CHECKOUT / f"{name}.bpf.c", settings=settings), chunks=64, blocks=80)
        model.run(np.array(PREFETCHED[::step], np.uint64))
        assert (model.counts.faults, model.counts.refused) == (faults, refused), name
