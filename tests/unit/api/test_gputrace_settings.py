"""Variables and maps of programs that have values when the trace begins: what programs read is what was given."""

import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

import accel_magic
from accel_magic.errors import ProbeError
from accel_magic.gpu.adapters import nvrtc
from accel_magic.magics.gputrace_magic import GpuTrace
from tests.support.errors import raises

PROGRAM = r"""
#include "accel_gpu.h"

struct pair { s16 low; u8 flag; u8 other; u32 high; };
struct place { u32 row; u32 column; };
const volatile u16 factor = 1;
volatile s64 offset = 5;
volatile s32 zeroed;
GPU_MAP(table, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, 64);
GPU_MAP(places, BPF_MAP_TYPE_HASH, struct place, struct pair, 100);
GPU_MAP(own, BPF_MAP_TYPE_PER_THREAD_ARRAY, u32, u32, 2);
GPU_MAP(found, BPF_MAP_TYPE_PER_THREAD_ARRAY, u32, s64, 2);

SEC("gpu/entry")
int look(struct gpu_ctx *ctx)
{
	u32 thread = gpu_thread_number(), zero = 0, one = 1;
	struct place place = { .row = thread / 8, .column = thread % 8 };
	u64 *number = bpf_map_lookup_elem(&table, &thread);
	struct pair *pair = bpf_map_lookup_elem(&places, &place);
	u32 *mine = bpf_map_lookup_elem(&own, &one);
	s64 *sum = bpf_map_lookup_elem(&found, &zero), *other = bpf_map_lookup_elem(&found, &one);

	if (number && sum && mine)
		*sum = *number * factor + offset + zeroed + *mine;
	if (pair && other)
		*other = 1 + pair->low * 1000 + pair->high + pair->flag;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("settings") / "looking.bpf.c"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture(scope="module")
def kernel():
    return nvrtc.CpuKernel(nvrtc.compile('extern "C" __global__ void nothing(int *x) { x[threadIdx.x] += 1; }'))


def sums(program, kernel, **given):
    """What each of 64 threads found: (64,), (64,)."""
    with accel_magic.gputrace(program, device="cpu", threads=64, **given) as trace:
        kernel[2, 32](np.zeros(64, np.int32))
    found = (
        trace.result.maps["found"]
        .set_index(["key", "thread"])["value"]
        .reindex(pd.MultiIndex.from_product([[0, 1], range(64)]), fill_value=0)
    )
    return found[0].to_numpy(), found[1].to_numpy()


def test_without_settings_programs_see_the_values_of_the_file(program, kernel):
    first, second = sums(program, kernel)
    assert first.tolist() == [5] * 64
    assert not second.any()


def test_variables_and_entries_can_be_set(program, kernel):
    settings = {"factor": 65535, "offset": -1, "zeroed": -7, "table.3": 2**40, "own.1": 9}
    first, _ = sums(program, kernel, settings=settings)
    expected = np.full(64, -1 - 7 + 9)
    expected[3] += 2**40 * 65535
    assert first.tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, lambda values: dict(enumerate(values))])
def test_a_map_is_filled_with_numbers(program, kernel, kind):
    numbers = [(7 * at) ** 5 for at in range(50)]
    first, _ = sums(program, kernel, fill={"table": kind(numbers)}, settings={"factor": 3, "table.60": 1})
    assert first.tolist() == [3 * number + 5 for number in numbers] + [5] * 10 + [8] + [5] * 3


def test_a_map_is_filled_with_a_frame_that_has_its_columns(program, kernel):
    frame = pd.DataFrame(
        {"row": [0, 7, 2], "column": [0, 7, 3], "low": [-3, 4, 30000], "flag": [1, 0, 255], "other": 0, "high": 2**31}
    )
    _, second = sums(program, kernel, fill={"places": frame})
    expected = np.zeros(64, np.int64)
    expected[frame["row"] * 8 + frame["column"]] = 1 + frame["low"] * 1000 + frame["high"] + frame["flag"]
    assert second.tolist() == expected.tolist()


def test_what_one_trace_left_in_a_map_fills_it_in_the_next(program, kernel):
    given = {"table": {1: 4, 2: 5}, "places": pd.DataFrame(columns=["row", "column", "low", "flag", "other", "high"])}
    with accel_magic.gputrace(program, device="cpu", fill=given) as trace:
        kernel[1, 1](np.zeros(64, np.int32))
    first, _ = sums(program, kernel, fill={"table": trace.result.maps["table"]})
    assert first[:4].tolist() == [5, 9, 10, 5]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"settings": {"factr": 2}}, "did you mean factor"),
        ({"settings": {"factor": 65536}}, "it has 2 bytes"),
        ({"settings": {"factor": -32769}}, "it has 2 bytes"),
        ({"settings": {"table.64": 1}}, "64 entries"),
        ({"settings": {"table.1": 2**64}}, "it has 8 bytes"),
        ({"settings": {"tables.1": 1}}, "did you mean table"),
        ({"settings": {"table.x": 1}}, "indexes are numbers"),
        ({"fill": {"tabel": [1]}}, "did you mean table"),
        ({"fill": {"table": range(65)}}, "range is not a table"),
        ({"fill": {"table": [0] * 65}}, "65 were given"),
        ({"fill": {"table": {64: 1}}}, "none has the index 64"),
        ({"fill": {"table": [0.5]}}, "whole numbers"),
        ({"fill": {"table": [-1]}}, "type u8"),
        ({"fill": {"own": [2**32]}}, "from 0 to 4294967295"),
        ({"fill": {"table": pd.DataFrame({"key": [1]})}}, "the columns key, value, not key"),
        ({"fill": {"table": pd.DataFrame({"key": [1, 1], "value": [2, 3]})}}, "twice"),
        ({"fill": {"places": [1]}}, "row, column, low"),
        ({"fill": {".bss": [1]}}, "ring"),
    ],
)
def test_what_does_not_fit_is_a_typed_error_that_names_it(program, given, named):
    with raises("program.bad-setting", ProbeError, match=named), accel_magic.gputrace(program, device="cpu", **given):
        raise AssertionError


def test_a_tool_without_this_variable_names_what_it_has():
    with raises("program.bad-setting", ProbeError, match="no program has depth"):
        accel_magic.gputrace("memtrace", device="cpu", settings={"depth": 1}).prepare()


def test_a_dry_run_shows_what_is_set(program):
    shown = repr(accel_magic.gputrace(program, device="cpu", settings={"factor": 2}, fill={"table": [1, 2]}).examine())
    assert "looking.bpf.c: factor = 2" in shown
    assert "looking.bpf.c: table: filled with 2 entries" in shown


def test_a_line_of_a_notebook_sets_variables_and_fills_maps_with_its_own(program, kernel):
    shell = InteractiveShell()
    shell.user_ns |= {"kernel": kernel, "numbers": [10, 20], "x": np.zeros(32, np.int32)}
    magics = GpuTrace(shell=shell, parent=shell)
    result = magics.gputrace(
        f"{program} --device cpu --threads 32 --set factor=2 --fill table=numbers --no-live", "kernel[1, 32](x)\n"
    )
    found = result.maps["found"]
    assert found.loc[found["key"] == 0, "value"].tolist() == [25, 45] + [5] * 30
    with raises("program.bad-setting", ProbeError, match="other is not defined"):
        magics.gputrace(f"{program} --device cpu --fill table=other", "1\n")
