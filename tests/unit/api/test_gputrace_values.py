"""What programs see of the values that loads return and stores write, compared with the arrays of the kernel."""

import re
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic.errors import MachineError
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu.codegen.assemble import assemble
from accel_magic.gpu.program.context import ValueType
from tests.support.paths import ROOT

pytestmark = pytest.mark.component

RECORDER = Path(__file__).with_name("recorder.bpf.c").read_text("utf-8")
HEAD = """.version 7.8
.target sm_80
.address_size 64
.visible .entry f(.param .u64 in, .param .u64 out)
{
	.reg .b16 %h<9>;
	.reg .b32 %r<9>;
	.reg .f32 %f<9>;
	.reg .b64 %d<9>;
	.reg .f64 %e<9>;
	.reg .pred %p<3>;
	ld.param.u64 %d0, [in];
	ld.param.u64 %d1, [out];
	mov.u32 %r0, %tid.x;
	mul.wide.u32 %d2, %r0, 32;
	add.u64 %d0, %d0, %d2;
	add.u64 %d1, %d1, %d2;
	cvta.to.global.u64 %d3, %d0;
	and.b32 %r1, %r0, 1;
	setp.eq.u32 %p0, %r1, 0;
"""
BITS, UNSIGNED, SIGNED, FLOAT = ValueType.BITS, ValueType.UNSIGNED, ValueType.SIGNED, ValueType.FLOAT
FORMS = [
    ("ld.u8 %r2, [%d0+1];", "st.u8 [%d1+1], %r2;", "u1", UNSIGNED, 1, 1),
    ("ld.s8 %r2, [%d0+3];", "st.s8 [%d1+3], %r2;", "i1", SIGNED, 1, 3),
    ("ld.s8 %h2, [%d0+3];", "st.b8 [%d1+3], %h2;", "i1", SIGNED, 1, 3),
    ("ld.global.b16 %h2, [%d3+2];", "st.b16 [%d1+2], %h2;", "u2", BITS, 1, 2),
    ("ld.global.nc.s16 %d4, [%d3+2];", "st.s16 [%d1+2], %d4;", "i2", SIGNED, 1, 2),
    ("ld.global.u32 %r2, [%d3+4];", "st.u32 [%d1+4], %r2;", "u4", UNSIGNED, 1, 4),
    ("ld.volatile.s32 %r2, [%d0+4];", "st.volatile.s32 [%d1+4], %r2;", "i4", SIGNED, 1, 4),
    ("ld.s32 %d4, [%d0+4];", "st.u32 [%d1+4], %d4;", "i4", SIGNED, 1, 4),
    ("ld.global.f32 %f2, [%d3+4];", "st.relaxed.gpu.f32 [%d1+4], %f2;", "u4", FLOAT, 1, 4),
    ("ld.f64 %e2, [%d0+8];", "st.f64 [%d1+8], %e2;", "u8", FLOAT, 1, 8),
    ("ld.s64 %d0, [%d0+8];", "st.s64 [%d1+8], %d0;", "i8", SIGNED, 1, 8),
    ("ld.global.v2.f64 {%e2, %e3}, [%d3+16];", "st.v2.f64 [%d1+16], {%e2, %e3};", "u8", FLOAT, 2, 16),
    (
        "ld.global.v4.f32 {%f2, %f3, %f4, %f5}, [%d3+16];",
        "st.v4.f32 [%d1+16], {%f2, %f3, %f4, %f5};",
        "u4",
        FLOAT,
        4,
        16,
    ),
    ("ld.v4.u8 {%r2, %r3, %r4, %r5}, [%d0+4];", "st.v4.u8 [%d1+4], {%r2, %r3, %r4, %r5};", "u1", UNSIGNED, 4, 4),
    ("ld.v2.s16 {%h2, %h3}, [%d0];", "st.v2.s16 [%d1], {%h2, %h3};", "i2", SIGNED, 2, 0),
    ("ld.v2.b32 {%r3, %r2}, [%d0+8];", "st.v2.b32 [%d1+8], {%r3, %r2};", "u4", BITS, 2, 8),
]


@pytest.fixture(scope="module")
def recorder(tmp_path_factory):
    path = tmp_path_factory.mktemp("values") / "values.bpf.c"
    path.write_text(RECORDER)
    return str(path)


def seen(recorder, body):
    """Records of a kernel of 32 threads, and its arrays (threads, 32 bytes) before and after."""
    given = np.random.default_rng(5).integers(0, 256, (32, 32)).astype(np.uint8)
    out = np.zeros((32, 32), np.uint8)
    with accel_magic.gputrace(recorder, device="cpu") as trace:
        nvrtc.CpuKernel(f"{HEAD}{body}\n\tret;\n}}", "f")[1, 32](given, out)
    assert not trace.result.lost
    return trace.result.maps["seen"].merge(trace.result.sites[["site", "where"]], on="site"), given, out


@pytest.mark.parametrize("case", FORMS, ids=lambda case: case[0].partition(" ")[0] + case[0][-4:-1])
def test_loads_and_stores_show_the_components_that_are_in_memory(recorder, case):
    load, store, kind, form, count, offset = case
    records, given, out = seen(recorder, f"{load}\n{store}")
    expected = np.ascontiguousarray(given[:, offset : offset + count * int(kind[1])]).view(f"<{kind}")
    as_stored = re.search(r"\.([busf])\d+ ", store)[1]
    for where, signed in (("after a load", kind[0] == "i"), ("before a memory operation", as_stored == "s")):
        rows = records[(records["where"] == where) & (records["values"] > 0)].sort_values("thread")
        assert len(rows) == 32
        values = expected.astype("<i8") if signed else expected.view(f"<u{kind[1]}").astype("<u8")
        found = rows[["v0", "v1", "v2", "v3"]].to_numpy(np.uint64)
        np.testing.assert_array_equal(found[:, :count], values.view("<u8").reshape(32, count))
        assert not found[:, count:].any()
        assert set(rows["values"]) == {count}
        assert set(rows["width"]) == {int(kind[1])}
    assert set(records.loc[records["where"] == "after a load", "type"]) == {int(form)}
    width = count * int(kind[1])
    np.testing.assert_array_equal(out[:, offset : offset + width], given[:, offset : offset + width])


def test_before_a_load_there_is_no_value(recorder):
    records, *_ = seen(recorder, FORMS[5][0])
    assert records.groupby("where")["values"].agg(set).to_dict() == {
        "after a load": {1},
        "before a memory operation": {0},
    }
    before = records[records["values"] == 0]
    assert not before[["v0", "v1", "v2", "v3", "width", "type"]].to_numpy().any()


def test_a_load_that_overwrites_its_address_is_shown_with_the_address_and_the_value(recorder):
    records, given, _ = seen(recorder, "ld.u64 %d0, [%d0+8];")
    after = records[records["where"] == "after a load"].sort_values("thread")
    before = records[records["where"] != "after a load"].sort_values("thread")
    assert after["address"].tolist() == before["address"].tolist()
    assert after["v0"].tolist() == np.ascontiguousarray(given[:, 8:16]).view("<u8").ravel().tolist()


def test_accesses_under_a_predicate_are_shown_in_the_threads_that_execute_them(recorder):
    body = "@%p0 ld.u32 %r2, [%d0];\n@!%p0 st.u32 [%d1], %r0;"
    records, given, _ = seen(recorder, body)
    loads = records[records["where"] == "after a load"]
    stores = records[records["operation"] == 2]
    assert sorted(loads["thread"]) == list(range(0, 32, 2))
    assert sorted(stores["thread"]) == list(range(1, 32, 2))
    words = np.ascontiguousarray(given[:, :4]).view("<u4").ravel()
    assert loads["v0"].tolist() == words[loads["thread"]].tolist()
    assert stores["v0"].tolist() == stores["thread"].tolist()


def test_numbers_in_the_instruction_are_shown_as_they_are_stored(recorder):
    body = (
        "st.f32 [%d1], 0fC0490FDB;\nst.s16 [%d1+4], -2;\nst.u8 [%d1+6], 259;\n"
        "st.f64 [%d1+8], 0d4000000000000000;\nst.v2.f32 [%d1+16], {%f1, 0f7FC00000};"
    )
    records, _, out = seen(recorder, f"mov.f32 %f1, 0f3F800000;\n{body}")
    first = records[records["thread"] == 0]
    assert first["v0"].tolist() == [0xC0490FDB, 2**64 - 2, 3, 1 << 62, 0x3F800000]
    assert first["v1"].tolist() == [0, 0, 0, 0, 0x7FC00000]
    assert out[0].view("<u4")[4:6].tolist() == [0x3F800000, 0x7FC00000]


def test_a_load_within_a_carry_chain_is_shown_after_the_chain(recorder):
    body = "add.cc.u32 %r3, %r0, -1;\nld.u32 %r2, [%d0];\naddc.u32 %r4, 0, 0;\nmov.u32 %r2, 7;\nst.u32 [%d1], %r4;"
    records, given, out = seen(recorder, body)
    loads = records[records["where"] == "after a load"].sort_values("thread")
    assert loads["v0"].tolist() == np.ascontiguousarray(given[:, :4]).view("<u4").ravel().tolist()
    assert np.ascontiguousarray(out[:, :4]).view("<u4").ravel().tolist() == [0] + [1] * 31


@pytest.mark.parametrize("body", ["\n".join(f"{load}\n{store}" for load, store, *_ in FORMS if "%d0, [" not in load)])
def test_the_assembler_accepts_the_programs(recorder, body):
    with accel_magic.gputrace(recorder, device="cpu") as trace:
        nvrtc.CpuKernel(f"{HEAD}{body}\n\tret;\n}}", "f")[1, 32](np.zeros(1024, np.uint8), np.zeros(1024, np.uint8))
    (text,) = trace.result.recording.modules["after"]
    try:
        assert assemble(text, "sm_80").cubin[:4] == b"\x7fELF"
    except MachineError as error:
        pytest.skip(str(error))


def test_the_nan_finder_of_the_page_finds_each_thread_and_line_that_makes_one(tmp_path):
    page = (ROOT / "docs/gpu-programs.md").read_text()
    (program,) = [text for text in re.findall(r"```c\n(.*?)```", page, re.DOTALL) if "gpu_nans(" in text]
    (tmp_path / "nans.bpf.c").write_text(program)
    source = """
extern "C" __global__ void roots(const float *x, const double *y, float4 *z, int *counts)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float4 four = {1.0f, 2.0f, 3.0f, x[i] / x[i]};
	z[i] = four;                                    // 0 / 0
	counts[i] = 0x7fc00000;
	if (i % 2) ((double *)y)[i] = sqrt(y[i]);       // of odd ones
}
"""
    lines = source.splitlines()
    x, y = np.arange(64, dtype=np.float32), np.arange(64, dtype=np.float64)
    x[::5] = 0
    y[10:21] *= -1
    with accel_magic.gputrace(str(tmp_path / "nans.bpf.c"), device="cpu") as trace:
        nvrtc.CpuKernel(nvrtc.compile(source))[2, 32](x, y, np.zeros((64, 4), np.float32), np.zeros(64, np.int32))
    found = trace.result.maps["nans"].merge(trace.result.sites, on="site")
    by_line = found.groupby("line")["thread"].agg(sorted).to_dict()
    expected = {
        next(at for at, line in enumerate(lines, 1) if "0 / 0" in line): list(range(0, 64, 5)),
        next(at for at, line in enumerate(lines, 1) if "odd ones" in line): [11, 13, 15, 17, 19],
    }
    assert by_line == expected
