"""Random kernels: equal results with and without programs, and every access counted."""

import pytest


pytestmark = pytest.mark.component

SCRIPT = """
from accel_magic.gpu.codegen import opencl_c
from tests.support.opencl_kernels import GROUP, ITEMS, program
seed, count = map(int, sys.argv[1:])
code = opencl_c.compiled(program(seed, count), (), (1, 2)).code
rng = np.random.default_rng(seed)
given = rng.integers(-100, 100, ITEMS).astype("i4")
names = [f"k{number}" for number in range(count)]
built = cl.Program(context, code).build()

def all_kernels():
    "The results of each kernel, and how many accesses it counted."
    found = {}
    for name in names:
        out, counts = np.zeros(4 * ITEMS, "i4"), np.zeros(ITEMS, "u4")
        to, counted = buffer(out), buffer(counts)
        getattr(built, name)(queue, (ITEMS,), (GROUP,), buffer(given), to, counted, cl.LocalMemory(4 * GROUP))
        found[name] = content(to, out), int(content(counted, counts).sum()) + ITEMS
    return found

plain = all_kernels()
with gputrace(COUNT, device="opencl") as trace:
    traced = all_kernels()
result = trace.result
sites = result.sites[result.sites.space == "global"]
kernels = result.kernels.set_index("name")
accesses = result.maps["accesses"].set_index("key")["count"]

def counted(name):
    return int(accesses.reindex(sites.site[sites.kernel == kernels.kernel[name]]).sum())

answer(
    changed=[name for name in names if (plain[name][0] != traced[name][0]).any()],
    untraced={name: kernels.reason[name] for name in names if not kernels.instrumented[name]},
    wrong={name: [counted(name), traced[name][1]] for name in names if counted(name) != traced[name][1]},
    entries=int(result.maps["entries"].value.sum()),
    exits=int(result.maps["exits"].value.sum()),
)
"""


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 50))])
def test_results_and_counts_of_random_kernels(run, seed):
    count = 20
    found = run(SCRIPT, seed, count)

    assert found["untraced"] == {}
    assert found["changed"] == []
    assert found["wrong"] == {}
    assert found["entries"] == found["exits"] == 256 * count
