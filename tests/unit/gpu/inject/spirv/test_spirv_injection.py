"""Programs in SPIR-V: every result is valid, and programs are where they are said to be, for the right kernels."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from accel_magic.errors import AccelMagicError
from accel_magic.gpu.inject.report import SEVERAL_KERNELS
from accel_magic.gpu.inject.spirv import inject_spirv
from accel_magic.gpu.program.sections import Where
from accel_magic.gpu.programs import tools
from accel_magic.spirv.spirv_module import SpirvModule
from tests.support import opencl, spirv_modules

pytestmark = pytest.mark.component

TOOLS = [tool for tool in tools() if tool not in ("blocktime", "kernelretsnoop", "warpmap")]  # need the multiprocessor


@pytest.fixture(scope="module", autouse=True)
def _validator():
    if opencl.validator() is None:
        pytest.skip("spirv-val is not installed")


def calls(code):
    """How often each function calls each other one."""
    module = SpirvModule.read(code)
    return Counter(
        (function.id, one.words[2])
        for function in module.functions
        for one in function.code
        if one.name == "FunctionCall"
    )


@pytest.mark.parametrize("tool", TOOLS)
def test_modules_with_every_tool_are_valid(tool):
    for code in (spirv_modules.assembled(), spirv_modules.by_llvm()):
        done = inject_spirv(code, spirv_modules.probes(tool))
        assert done.sites or tool == "funclat"
        opencl.assert_valid(done.code)


@pytest.mark.parametrize("producer", ["llvm", "llvm-spirv", "llvm-spirv -O0"])
def test_every_place_has_its_calls(producer):
    code = spirv_modules.PRODUCERS[producer]()
    probes = spirv_modules.probes(spirv_modules.COUNT)
    done = inject_spirv(code, probes)
    added = sum(calls(done.code).values()) - sum(calls(code).values()) - sum(calls(probes.code).values())
    assert added == sum(len(site.programs) for site in done.sites)
    assert [site.number for site in done.sites] == list(range(len(done.sites)))
    kinds = Counter(site.where for site in done.sites)
    assert kinds[Where.ENTRY] == 6
    assert kinds[Where.LOADED] > 0
    assert all(kernel.instrumented for kernel in done.kernels)
    assert {site.kernel for site in done.sites} == set(range(6))


def test_a_shared_function_is_one_if_all_kernels_have_the_same_programs():
    done = inject_spirv(spirv_modules.assembled(), spirv_modules.probes("memtrace"))
    assert len(SpirvModule.read(done.code).functions) == 3 + 2
    (site,) = [site for site in done.sites if site.function == "helper"]
    assert site.kernel == SEVERAL_KERNELS
    assert [kernel.functions for kernel in done.kernels] == [("helper",), ("helper",)]


def test_a_kernel_that_is_not_traced_keeps_the_original_of_a_shared_function():
    code = spirv_modules.assembled()
    done = inject_spirv(code, spirv_modules.probes("memtrace"), requested=lambda name: name == "second", first_kernel=7)
    opencl.assert_valid(done.code)
    module = SpirvModule.read(done.code)
    names = {one.words[0]: one for one in module.sections["debug"]}
    copies = [function for function in module.functions if function.id in names]
    assert len(copies) == 2  # both are called helper
    assert min(len(function.code) for function in copies) == 6  # the original: no call in it
    assert {site.kernel for site in done.sites} == {8}
    assert [kernel.reason for kernel in done.kernels] == ["not selected", ""]


def test_programs_for_different_kernels_do_not_meet_in_a_shared_function():
    probes = spirv_modules.probes(spirv_modules.COUNT)
    functions = tuple(
        (replace(attach, name="first" if attach.where is Where.LOADED else "second"), name)
        for attach, name in probes.functions
        if attach.where in (Where.LOADED, Where.MEMORY)
    )
    done = inject_spirv(spirv_modules.assembled(), replace(probes, functions=functions))
    opencl.assert_valid(done.code)
    seen = {(site.kernel, site.function, site.where) for site in done.sites}
    assert seen == {
        (0, "helper", Where.LOADED),
        (1, "helper", Where.MEMORY),
        (1, "%" + str(SpirvModule.read(spirv_modules.assembled()).sections["entry point"][1].words[1]), Where.MEMORY),
    }


def test_nothing_is_changed_if_no_program_attaches():
    code = spirv_modules.assembled()
    done = inject_spirv(code, spirv_modules.probes("memtrace"), requested=lambda _: False)
    assert done.code == code
    assert {kernel.reason for kernel in done.kernels} == {"not selected"}


def test_places_have_the_line_of_the_text_and_of_the_source():
    done = inject_spirv(spirv_modules.by_llvm_spirv(), spirv_modules.probes("memtrace"))
    lines = {site.source.line for site in done.sites if site.source is not None and site.function == "add"}
    assert lines == {7}  # c[i] = a[i] + b[i]
    from accel_magic.spirv.text import text_of

    text = text_of(SpirvModule.read(spirv_modules.by_llvm_spirv())).splitlines()
    assert all(text[site.ptx_line - 1] == site.instruction for site in done.sites)


def test_calls_of_what_is_not_in_the_module_are_named():
    done = inject_spirv(spirv_modules.by_llvm(), spirv_modules.probes("memtrace"))
    (count,) = [kernel for kernel in done.kernels if kernel.name == "count"]
    assert [line for line in count.left if line.startswith("calls of")] or any(
        site.operation.name == "ATOMIC" for site in done.sites
    )


@pytest.mark.parametrize("seed", range(4))
def test_damaged_modules_are_typed_errors(seed):
    chosen = random.Random(seed)
    probes, original, codes = spirv_modules.probes("memtrace"), spirv_modules.by_llvm(), set()
    for _ in range(60):
        data = bytearray(original)
        for _ in range(chosen.randint(1, 3)):
            data[chosen.randrange(20, len(data))] = chosen.randrange(256)
        try:
            inject_spirv(bytes(data), probes)
        except AccelMagicError as error:
            codes.add(error.code)
    assert codes <= {"gpu.spirv.invalid", "gpu.spirv.unsupported"}
