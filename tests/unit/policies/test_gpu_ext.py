"""gpu_ext's own policies, unmodified, from the checkout that ACCEL_MAGIC_GPU_EXT names (its folder `extension`)."""

import numpy as np
import pytest

import accel_magic
from accel_magic.errors import ProgramError
from accel_magic.policies import policy
from accel_magic.policies.model_engine import ModelMemory
from tests.support import gpu_ext

CHECKOUT = gpu_ext.FOLDER
LOOP = [block * 512 + page for _ in range(20) for block in range(80) for page in (0, 1)]
PREFETCHED = list(range(32 * 512))

pytestmark = gpu_ext.needed


def test_each_loads_or_is_refused_with_its_reason():
    loaded, refused = set(), {}
    for name, path in gpu_ext.files().items():
        try:
            policy.load(path)
            loaded.add(name)
        except ProgramError as error:
            refused[name] = str(error)
    assert gpu_ext.files().keys() <= gpu_ext.LOADED | gpu_ext.REFUSED.keys(), "new files"
    assert loaded == gpu_ext.LOADED & gpu_ext.files().keys()
    for name, text in refused.items():
        assert gpu_ext.REFUSED[name] in text, text


def test_its_scheduling_policy_gives_processes_the_time_slices_that_its_map_has():
    file = CHECKOUT / "gpu_sched_set_timeslices.bpf.c"
    settings = {"process_timeslice.bench_lc": 1_000_000, "process_timeslice.bench_be": 200}
    settings["process_interleave.bench_lc"] = 2
    result = accel_magic.gpuschedule(file, "bench_lc:work=1ms bench_be:work=1ms other:work=1ms", settings=settings)
    tasks = result.tasks.query("policy != 'default'")
    assert tasks["timeslice_us"].tolist() == [1_000_000, 200, 2000]
    assert tasks["interleave"].tolist() == [2, 1, 1]
    stats = result.maps["gpu_sched_set_timeslices"]["stats"]["value"].tolist()
    assert stats[:7] == [3, 3, 0, 2, 2, 1, 1]  # tasks, binds, ends; slices set, hits and misses of the map; levels set


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
    model = ModelMemory(policy.load(CHECKOUT / f"{name}.bpf.c"), chunks=64, blocks=80)
    model.run(np.array(pages, np.uint64))
    assert getattr(model.counts, counted) == expected


def test_those_that_are_configured_decide_as_in_the_kernel():
    tree, stride = gpu_ext.CONFIGURED["prefetch_adaptive_tree_iter"], gpu_ext.CONFIGURED["prefetch_stride"]
    for name, settings, step, faults, refused in (
        ("prefetch_adaptive_tree_iter", tree, 1, 544, 0),
        ("prefetch_stride", stride, 1, 896, 320),
        ("prefetch_stride", stride, 8, 2048, 1920),
    ):
        model = ModelMemory(policy.load(CHECKOUT / f"{name}.bpf.c", settings=settings), chunks=64, blocks=80)
        model.run(np.array(PREFETCHED[::step], np.uint64))
        assert (model.counts.faults, model.counts.refused) == (faults, refused), name
