"""Random kernels: equal results with and without programs, and every access counted.

Intel's optimizer is not always right: of some kernels it loses a store to an array of a work-item or an increment, in
some with programs and in others without. So each program is also built without it, where nothing may differ.
"""

import pytest

from tests.support.thorough import choose

pytestmark = pytest.mark.component

SCRIPT = """
from accel_magic.gpu.codegen import opencl_c
from tests.support.opencl_kernels import GROUP, ITEMS, program
seed, count = map(int, sys.argv[1:])
code = opencl_c.compiled(program(seed, count), ("-fwrapv",), (1, 2)).code
rng = np.random.default_rng(seed)
given = rng.integers(-100, 100, ITEMS).astype("i4")
names = [f"k{number}" for number in range(count)]
careful, optimized = (cl.Program(context, code).build(options) for options in ("-cl-opt-disable", ""))

def all_kernels(built):
    "The results of each kernel, with the number of accesses that each work-item counted."
    found = {}
    for name in names:
        out, counts = np.zeros(4 * ITEMS, "i4"), np.zeros(ITEMS, "u4")
        to, counted = buffer(out), buffer(counts)
        getattr(built, name)(queue, (ITEMS,), (GROUP,), buffer(given), to, counted, cl.LocalMemory(4 * GROUP))
        found[name] = np.concatenate([content(to, out), content(counted, counts).astype("i4")])
    return found

def traced(built):
    "The same in a traced cell, and the number of accesses to global memory, entries and exits of each kernel."
    with gputrace(COUNT, device="opencl") as trace:
        found = all_kernels(built)
    result = trace.result
    sites = result.sites[result.sites.space == "global"]
    kernels = result.kernels.set_index("name")
    counts = {name: result.maps[name].set_index("key") for name in ("accesses", "entries", "exits")}
    def of(name):
        number = kernels.kernel[name]
        accesses = int(counts["accesses"]["count"].reindex(sites.site[sites.kernel == number]).sum())
        return [accesses, int(counts["entries"].value[number]), int(counts["exits"].value[number])]
    untraced = {name: kernels.reason[name] for name in names if not kernels.instrumented[name]}
    return found, {name: of(name) for name in names}, untraced

def differing(one, other):
    return [name for name in names if (one[name] != other[name]).any()]

right, plain = all_kernels(careful), all_kernels(optimized)
right_traced, counts, untraced = traced(careful)
plain_traced, counts_of_optimized, _ = traced(optimized)
# Each kernel also stores its count of accesses.
expected = {name: [int(right[name][-ITEMS:].sum()) + ITEMS, ITEMS, ITEMS] for name in names}
answer(
    untraced=untraced,
    changed=differing(right, right_traced),
    wrong={name: (counts[name], expected[name]) for name in names if counts[name] != expected[name]},
    wrong_optimized=[name for name in names if counts_of_optimized[name] != expected[name]],
    misbuilt=differing(right, plain),
    misbuilt_traced=differing(right, plain_traced),
)
"""
KERNELS = choose(8, 20)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 50))])
def test_results_and_counts_of_random_kernels(run, seed):
    found = run(SCRIPT, seed, KERNELS)

    assert found["untraced"] == {}
    assert found["changed"] == []
    assert found["wrong"] == {}
    assert found["wrong_optimized"] == []
    assert len(found["misbuilt_traced"]) <= len(found["misbuilt"]) + KERNELS / 10
