"""Counts, addresses and results of OpenCL kernels on Intel's runtime, against what the kernels are known to do."""

import pytest

from accel_magic.gpu.codegen import opencl_c

pytestmark = pytest.mark.component

ALL = """
rng = np.random.default_rng(7)
ITEMS, GROUP = 1024, 64
A, B, T = (rng.random(size).astype("f4") for size in (ITEMS, ITEMS, 64 * 32))
I = rng.integers(0, 1000, ITEMS).astype("i4")
V = rng.random((10 * ITEMS, 4)).astype("f4")

def shared(array):
    flags = cl.svm_mem_flags.READ_WRITE | cl.svm_mem_flags.SVM_FINE_GRAIN_BUFFER
    made = cl.svm_empty(context, flags, array.shape, array.dtype)
    made[...] = array
    return made

def all_kernels(program):
    "Run all kernels; their results, and the arguments that are in memory."
    out, kept = {}, {}
    def go(name, size, group, *arguments, scalars=()):
        getattr(program, name)(queue, size, group, *map(cl.SVM, arguments), *scalars)
        queue.finish()
        out[name], kept[name] = arguments[-1].copy(), arguments
    go("add", (ITEMS,), (GROUP,), shared(A), shared(B), shared(0 * A), scalars=[np.uint32(1000)])
    go("transpose", (64, 32), (16, 8), shared(T), shared(0 * T), scalars=[np.uint32(64), np.uint32(32)])
    go("sum", (ITEMS,), (GROUP,), shared(A), shared(0 * A[:16]), scalars=[cl.LocalMemory(4 * GROUP)])
    go("choose", (ITEMS,), (GROUP,), shared(I), shared(0 * I))
    go("columns", (ITEMS,), (32,), shared(V), shared(0 * V[:ITEMS]), scalars=[np.uint32(10)])
    go("count", (ITEMS,), (GROUP,), shared(I.astype("u4")), shared(np.zeros(16, "u4")))
    return out, kept

def span(array):
    "The sum of the addresses of all elements."
    return len(array) * array.ctypes.data + array.strides[0] * len(array) * (len(array) - 1) // 2
"""


@pytest.fixture(scope="module")
def truth(run):
    """What a trace of all kernels found."""
    return run(
        ALL
        + """
program = cl.Program(context, SOURCE).build()
plain, _ = all_kernels(program)
with gputrace(COUNT, device="opencl") as trace:
    traced, kept = all_kernels(program)
result = trace.result
after, _ = all_kernels(program)
kernels = result.kernels.set_index("name")
sites = result.sites
accesses = result.maps["accesses"].set_index("key")
branches = result.maps["branches"].set_index("key")

def by_kernel(name):
    rows = result.maps[name].set_index("key").iloc[:, 0]
    return {kernel: int(rows[number]) for kernel, number in kernels["kernel"].items()}

def total(kernel, operation, space):
    chosen = sites[(sites["kernel"] == kernels.loc[kernel, "kernel"]) & (sites["operation"] == operation)]
    numbers = chosen.loc[(chosen["space"] == space) & chosen["where"].str.startswith("before"), "site"]
    rows = accesses.loc[numbers, ["count", "bytes", "sum"]].astype("uint64")
    return [int(value) for value in rows.to_numpy().sum(0, dtype=np.uint64)]

def taken(kernel):
    chosen = sites[(sites["kernel"] == kernels.loc[kernel, "kernel"]) & (sites["where"].str.contains("branch"))]
    return branches.loc[chosen["site"].iloc[0], ["count", "taken"]].tolist()

def values(kernel, operation, column):
    chosen = sites[(sites["kernel"] == kernels.loc[kernel, "kernel"]) & (sites["operation"] == operation)]
    return int(column.reindex(chosen["site"]).sum())

loaded = result.maps["loaded"].set_index("key")["value"]
even = (I % 2 == 0) & (I % 3 == 0)
others = (np.arange(ITEMS) ^ 1)[even]
answer(
    same={name: [plain[name].tobytes() == one[name].tobytes() for one in (traced, after)] for name in plain},
    entries=by_kernel("entries"), exits=by_kernel("exits"), barriers=by_kernel("barriers"),
    totals={
        "add load": total("add", "load", "global"), "add store": total("add", "store", "global"),
        "transpose load": total("transpose", "load", "global"),
        "transpose store": total("transpose", "store", "global"),
        "sum load": total("sum", "load", "global"), "sum store": total("sum", "store", "global"),
        "sum shared load": total("sum", "load", "shared")[:2], "sum shared store": total("sum", "store", "shared")[:2],
        "choose load": total("choose", "load", "global"), "choose store": total("choose", "store", "global"),
        "columns load": total("columns", "load", "global"), "columns store": total("columns", "store", "global"),
        "count atomic": total("count", "atomic", "global"),
    },
    expected={
        "add load": [2000, 8000, span(kept["add"][0][:1000]) + span(kept["add"][1][:1000])],
        "add store": [1000, 4000, span(kept["add"][2][:1000])],
        "transpose load": [2048, 8192, span(kept["transpose"][0])],
        "transpose store": [2048, 8192, span(kept["transpose"][1])],
        "sum load": [1024, 4096, span(kept["sum"][0])], "sum store": [16, 64, span(kept["sum"][1])],
        "sum shared load": [16 * (2 * 63 + 1), 64 * (2 * 63 + 1)],
        "sum shared store": [16 * (64 + 63), 64 * (64 + 63)],
        "choose load": [
            ITEMS + len(others), 4 * (ITEMS + len(others)),
            span(kept["choose"][0]) + len(others) * kept["choose"][0].ctypes.data + 4 * int(others.sum()),
        ],
        "choose store": [1024, 4096, span(kept["choose"][1])],
        "columns load": [10240, 163840, span(kept["columns"][0])],
        "columns store": [1024, 16384, span(kept["columns"][1])],
        "count atomic": [
            1024, 4096, 1024 * kept["count"][1].ctypes.data + 4 * int((I % 16).sum()),
        ],
    },
    branches={"add": taken("add"), "choose": taken("choose")},
    odd=int((I % 2).sum()),
    work=int(result.maps["work"].iloc[:, -1].sum()), bytes=int(accesses["bytes"].sum()),
    values={
        "stored": [values("choose", "store", accesses["values"]), int(traced["choose"].view("u4").sum(dtype="u8"))],
        "loaded": [values("transpose", "load", loaded), int(T.view("u4").sum(dtype="u8"))],
    },
    left=kernels.loc["count", "reason"], instrumented=kernels["instrumented"].tolist(),
    lost=int(result.lost), notes=list(result.recording.notes), launches=result.launches["name"].tolist(),
    device=result.recording.device,
)
"""
    )


def test_results_are_the_same_bits_with_programs_and_after_them(truth):
    assert truth["same"] == {name: [True, True] for name in ("add", "transpose", "sum", "choose", "columns", "count")}


def test_every_kernel_is_traced_where_it_says_it_is(truth):
    assert truth["instrumented"] == [True] * 6
    assert truth["launches"] == ["add", "transpose", "sum", "choose", "columns", "count"]
    assert truth["device"].startswith("OpenCL on a CPU (Intel")
    assert truth["lost"] == 0


def test_entries_exits_and_barriers_are_exact(truth):
    items = {"add": 1024, "transpose": 2048, "sum": 1024, "choose": 1024, "columns": 1024, "count": 1024}
    assert truth["entries"] == truth["exits"] == items
    assert truth["barriers"] == dict.fromkeys(items, 0) | {"sum": 7 * 1024}


def test_counts_bytes_and_addresses_of_accesses_are_exact(truth):
    if not opencl_c.compilers()[0].translator:
        assert "calls of" in truth["left"]  # LLVM's backend leaves the atomic function to the driver
        del truth["totals"]["count atomic"], truth["expected"]["count atomic"]
    assert truth["totals"] == truth["expected"]


def test_branches_are_taken_as_the_data_say(truth):
    count, taken = truth["branches"]["add"]
    assert (count, taken in (1000, 24)) == (1024, True)  # a compiler may swap the two sides
    count, taken = truth["branches"]["choose"]
    assert (count, taken in (truth["odd"], 1024 - truth["odd"])) == (1024, True)


def test_each_work_items_own_values_add_up_to_all(truth):
    assert truth["work"] == truth["bytes"] > 0


def test_programs_see_what_is_stored_and_loaded(truth):
    for seen, expected in truth["values"].values():
        assert seen == expected > 0


@pytest.mark.parametrize(
    "options",
    ["-cl-intel-greater-than-4GB-buffer-required -cl-fast-relaxed-math", "-DONE=1 -cl-nv-verbose", "-DONE='"],
)
def test_options_of_vendors_do_not_keep_a_program_from_being_compiled(options):
    words = opencl_c.options_of(options)

    assert opencl_c.compiled("kernel void nothing(global int *a) { *a = 1; }", words, (1, 2)).code
