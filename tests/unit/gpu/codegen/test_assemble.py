"""Machine code from original and instrumented PTX, for every architecture."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.codegen import assemble as module
from accel_magic.gpu.codegen.assemble import Assembled, Resources, _assembler, _newest, assemble, compare
from accel_magic.gpu.inject import ProbeCode, inject, parse
from accel_magic.gpu.program import context
from accel_magic.gpu.program.sections import EVERY_OPERATION, OF_BLOCKS, Attach, Where
from tests.support.errors import raises
from tests.support.paths import ROOT

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
SAMPLES = ROOT / "tests/unit/ptx/samples"
BITS = [(number, 8 * size) for number, (_, size) in enumerate(context.PARAMETERS)]
PARAMETERS = ", ".join(f".param .b{bits} accel_count_{number}" for number, bits in BITS)
READ = "\n".join(
    f"\tld.param.b{bits} %{'rd2' if bits == 64 else 'r3'}, [accel_count_{number}];\n"
    + ("\tcvt.u64.u32 %rd2, %r3;\n" if bits == 32 else "")
    + "\txor.b64 %rd1, %rd1, %rd2;"
    for number, bits in BITS
)
COUNTER = ProbeCode(
    "accel_count",
    f"""
.version 6.3
.target sm_75
.address_size 64
.func accel_count({PARAMETERS})
{{
	.reg .pred %p<2>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	ld.param.b64 %rd1, [accel_count_0];
	ld.param.b32 %r1, [accel_count_4];
{READ}
	and.b64 %rd1, %rd1, 248;
	activemask.b32 %r2;
	setp.eq.u32 %p1, %r1, %r2;
	@%p1 bra $L__BB0_2;
	mov.b64 %rd2, 4294967296;
	add.s64 %rd3, %rd1, %rd2;
	red.global.add.u64 [%rd3], 1;
$L__BB0_2:
	ret;
}}
""",
)
EVERYWHERE = [(Attach(where, operations=EVERY_OPERATION), COUNTER) for where in Where if where not in OF_BLOCKS]
SIMPLE = """.version 7.0
.target sm_75
.address_size 64
.visible .entry simple(.param .u64 simple_param_0)
{
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [simple_param_0];
	st.global.u64 [%rd1], 7;
	ret;
}
"""


def sample(name):
    return (SAMPLES / f"{name}.ptx").read_text()


@pytest.fixture
def assembler():
    """Skip the test if no assembler is installed; CI has one."""
    try:
        module._assembler()
    except MachineError as error:
        pytest.skip(str(error))


def fits(target, number):
    """Whether a module for `target` can be assembled for an architecture."""
    return target.endswith("a") if number == "90a" else not target.endswith("a") and int(target[3:]) <= number


def cases():
    """One sample for every architecture, the others for the oldest and the newest supported one."""
    for path in sorted(SAMPLES.glob("*.ptx")):
        target = parse(path.read_text()).target[0]
        fitting = [number for number in (*ARCHITECTURES, "90a") if fits(target, number)]
        chosen = fitting if path.stem == "kernels" else {fitting[0], fitting[-1]}
        yield from ((path.stem, number) for number in chosen)


CASES = sorted(cases(), key=str)


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@pytest.mark.parametrize(("name", "number"), CASES)
def test_every_sample_assembles_with_programs_at_all_its_places(assembler, name, number):
    injection = inject(sample(name), EVERYWHERE)
    assert injection.sites
    made = assemble(injection.code, f"sm_{number}")
    assert made.cubin[:4] == b"\x7fELF"
    assert {one.name for one in injection.kernels} <= set(made.functions)


def test_every_architecture_is_covered_by_some_sample():
    assert {number for _, number in CASES} == {*ARCHITECTURES, "90a"}


@pytest.mark.parametrize("where", [where for where in Where if where not in OF_BLOCKS])
def test_every_kind_of_place_assembles_alone(assembler, where):
    text = sample("kernels").replace("bar.sync", "membar.gl;\n\tbar.sync")
    injection = inject(text, [(Attach(where, operations=EVERY_OPERATION), COUNTER)])
    assert {site.where for site in injection.sites} == {where}
    assemble(injection.code, "sm_80")


def test_matrix_instructions_still_overlap_with_programs_between_them(assembler):
    """The assembler warns if it serializes wgmma instructions."""
    _, run = module._assembler()
    log = run(inject(sample("triton_matmul_sm90"), EVERYWHERE).code, "sm_90a").log
    assert "Used" in log
    assert "serialized" not in log


def test_resources_of_kernels_are_reported(assembler):
    made = assemble(sample("kernels"), "sm_80").functions
    # Two tiles of 16 by 16 floats; a stack of 8 floats; 64 counters.
    assert made["matmul"].shared == 2048
    assert made["spaces"].stack == 32
    assert made["atomics"].shared == 256
    assert made["vector_add"].registers in range(8, 17)
    assert made["vector_add"].spill_stores == made["vector_add"].spill_loads == made["vector_add"].stack == 0
    assert made["spaces"].constant > 0
    assert made["_Z9fibonaccii"].registers is None
    assert made["_Z9fibonaccii"].stack > 0


def test_spills_are_reported(assembler):
    registers = 64
    loads = "".join(f"ld.volatile.global.u64 %q{i}, [%rd1+{8 * i}];\n" for i in range(registers))
    stores = "".join(f"st.volatile.global.u64 [%rd1+{8 * i}], %q{i};\n" for i in range(registers))
    text = SIMPLE.replace("\tst.global", f".reg .b64 %q<{registers}>;\n{loads}{stores}\tst.global")
    made = assemble(text.replace("\n{", "\n.maxnreg 32\n{"), "sm_80").functions["simple"]
    assert made.registers <= 32
    assert made.spill_stores > 0
    assert made.spill_loads > 0


def test_compare_reports_kernels_without_and_with_programs(assembler):
    before = assemble(sample("triton_add"), "sm_80")
    after = assemble(inject(sample("triton_add"), EVERYWHERE).code, "sm_80")
    (change,) = compare(before, after, 128)
    assert change.kernel == "add"
    assert change.before == before.functions["add"]
    assert change.after == after.functions["add"]
    assert change.after.spill_stores == 0
    assert change.occupancy_before.share >= change.occupancy_after.share > 0


def test_a_comparison_uses_static_and_dynamic_shared_memory():
    def made(registers):
        return Assembled(b"", {"k": Resources(registers, 0, 0, 0, shared=1024)}, "sm_80", "ptxas")

    (change,) = compare(made(32), made(80), 256, shared=31 * 1024)
    assert (change.occupancy_before.blocks, change.occupancy_before.limits) == (4, ("shared memory",))
    assert (change.occupancy_after.blocks, change.occupancy_after.limits) == (3, ("registers",))


def test_a_rejected_line_is_named_and_shown(assembler):
    with raises("gpu.assembler-rejects-ptx", ProgramError, match=r"line 8 .*frob") as caught:
        assemble(SIMPLE.replace("st.global", "st.frob"), "sm_80")
    assert caught.value.why == "st.frob.u64 [%rd1], 7;"


def test_the_error_for_too_new_ptx_names_the_package_to_upgrade(assembler):
    newest = _newest(*_assembler())
    assert newest >= (8, 0)
    assemble(SIMPLE.replace("7.0", "{}.{}".format(*newest)), "sm_80")
    versions = rf"{newest[0] + 1}\.0\b.* {newest[0]}\.{newest[1]}\b"
    with raises("gpu.assembler-too-old", ProgramError, match=versions) as caught:
        assemble(SIMPLE.replace("7.0", f"{newest[0] + 1}.0"), "sm_80")
    assert caught.value.fix == "pip install --upgrade nvidia-nvjitlink"


@pytest.mark.parametrize("arch", ["sm_79", "sm_nothing", ""])
def test_an_architecture_that_does_not_exist_is_an_error(assembler, arch):
    with raises("gpu.assembler-lacks-architecture", ProgramError):
        assemble(SIMPLE, arch)


def test_a_trailing_zero_byte_is_ignored(assembler):
    assert assemble(SIMPLE + "\0", "sm_80").functions.keys() == {"simple"}


def test_without_the_wheel_ptxas_is_used_and_reports_the_same(monkeypatch):
    if shutil.which("ptxas") is None:
        pytest.skip("ptxas is not on the PATH")
    module._assembler.cache_clear()
    monkeypatch.setattr(module, "_library", lambda: None)
    try:
        made = assemble(SIMPLE, "sm_80")
        assert made.assembler == "ptxas"
        assert made.functions["simple"].registers >= 4
        with raises("gpu.assembler-rejects-ptx", ProgramError, match="ptxas .*line 8"):
            assemble(SIMPLE.replace("st.global", "st.frob"), "sm_80")
    finally:
        module._assembler.cache_clear()


def test_without_any_assembler_the_error_names_the_package_to_install(monkeypatch):
    module._assembler.cache_clear()
    monkeypatch.setattr(module, "_library", lambda: None)
    monkeypatch.setattr(module.shutil, "which", lambda _: None)
    try:
        with raises("gpu.no-assembler", MachineError) as caught:
            assemble(SIMPLE, "sm_80")
        assert "accel-magic[gpu]" in caught.value.fix
    finally:
        module._assembler.cache_clear()


def test_reading_and_changing_ptx_imports_no_heavy_packages():
    code = (
        "import sys, accel_magic.gpu.inject, accel_magic.gpu.codegen.assemble\n"
        "print(sorted({'llvmlite', 'numpy', 'pandas', 'bokeh', 'IPython'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
