"""Where programs are inserted in PTX, and what is reported about the places."""

from __future__ import annotations

import re

import pytest

from accel_magic.errors import ProgramError
from accel_magic.gpu.inject import ProbeCode, inject, parse
from accel_magic.gpu.inject import inject as module_function
from accel_magic.gpu.inject.inject import SEVERAL_KERNELS
from accel_magic.gpu.program.context import Operation, Space
from accel_magic.gpu.program.sections import EVERY_OPERATION, Attach, Where
from accel_magic.ptx.ptx_model import Function, Label, Scope, SourceLine, walk

MEMORY = Attach(Where.MEMORY, operations=EVERY_OPERATION)
HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


def kernel(body, registers=".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;"):
    return f"{HEADER}.visible .entry k(.param .u64 k_param_0)\n{{\n{registers}\n{body}\n}}\n"


def parts(module):
    """All statements of a module as text."""
    for item in module.items:
        if isinstance(item, Function) and item.body is not None:
            yield module.text[item.start : item.header_end]
            yield from (module.text[one.start : one.end] for one in walk(item.body) if not isinstance(one, Scope))
        else:
            yield module.text[item.start : item.end]


# Counted by hand in the listing of each kernel: memory operations, barriers, conditional branches, exits
# (returns, and branches straight to one).
COUNTS = {
    ("kernels", "vector_add"): (3, 0, 1, 2),
    ("kernels", "reduce"): (2, 0, 2, 2),
    ("kernels", "vectors"): (4, 0, 0, 1),
    ("kernels", "carries"): (6, 0, 0, 1),
    ("kernels", "spaces"): (8 + 2 + 1 + 2 + 2, 1, 0, 1),
    ("kernels", "atomics"): (8, 2, 2, 2),
    ("forms", "forms"): (9, 1, 2, 2),
    ("async_copy", "async_copy"): (4, 2, 3, 2),
    ("triton_add", "add"): (24, 0, 0, 1),
}


@pytest.mark.parametrize(("file", "name"), COUNTS)
def test_the_number_of_places_is_the_one_counted_by_hand(ptx, file, name):
    text = ptx.sample(file)
    kinds = (Where.MEMORY, Where.BARRIER, Where.BRANCH, Where.EXIT)
    found = tuple(inject(text, [(Attach(where, name), ptx.recorder())]).kernels for where in kinds)
    sites = tuple(next(one.sites for one in kernels if one.name == name) for kernels in found)
    assert sites == COUNTS[file, name]


# From `cuobjdump -sass` (CUDA 13) of the same modules, assembled for sm_80 because the assembler neither merges nor
# splits accesses there.
MACHINE_CODE = {
    ("kernels", "vector_add"): "LDG LDG STG",
    ("kernels", "matmul"): "LDG LDG STS STS LDS LDS STG",
    ("kernels", "reduce"): "LDG ATOMG",
    ("kernels", "early_returns"): "LDG STG STG",
    ("kernels", "vectors"): "LDG LDG STG STG",
    ("kernels", "atomics"): "STS LDG ATOMS ATOMG ATOMG ATOMG ATOMG LDS",
    ("kernels", "carries"): "LDG LDG LDG STG STG STG",
    ("kernels", "jumps"): "LDG STG STG STG STG STG STG STG ATOMG",
    ("kernels", "spaces"): "STL " * 8 + "LDL LDL STS LD ST STG ATOMG",
    ("triton_add", "add"): "LDG " * 16 + "STG " * 8,
    ("numba_smooth", "*smooth*"): "LD STS LDS LDS LDS ST ATOMG",
}
SUFFIXES = {Space.GENERIC: "", Space.GLOBAL: "G", Space.SHARED: "S", Space.LOCAL: "L"}
WORDS = {Operation.LOAD: "LD", Operation.STORE: "ST", Operation.ATOMIC: "ATOM"}


@pytest.mark.parametrize(("file", "name"), MACHINE_CODE)
def test_memory_operations_match_the_machine_code(ptx, file, name):
    injection = inject(ptx.sample(file), [(Attach(Where.MEMORY, name, EVERY_OPERATION), ptx.recorder())])
    found = [f"{WORDS[site.operation]}{SUFFIXES[site.space]}" for site in injection.sites]
    assert sorted(found) == sorted(MACHINE_CODE[file, name].split())


def test_all_of_the_original_text_is_kept_in_order(ptx):
    for name in ptx.samples:
        text = ptx.sample(name)
        injection = inject(text, ptx.everywhere(ptx.recorder()))
        at = 0
        for part in parts(parse(text)):
            at = injection.code.index(part, at) + len(part)
        assert len(injection.code) > len(text)


def test_nothing_changes_without_programs_or_selected_kernels(ptx):
    text = ptx.sample("kernels")
    assert inject(text, []).code == text
    unwanted = inject(text, ptx.everywhere(ptx.recorder()), requested=lambda _: False)
    assert unwanted.code == text
    assert unwanted.sites == ()
    assert {one.reason for one in unwanted.kernels} == {"not selected"}
    assert not any(one.instrumented for one in unwanted.kernels)


def test_only_selected_kernels_and_the_functions_that_they_use_are_changed(ptx):
    injection = inject(ptx.sample("kernels"), ptx.everywhere(ptx.recorder()), requested=lambda name: name == "calls")
    assert {site.function for site in injection.sites} == {"calls", "_Z7doubledPKii", "_Z9fibonaccii"}
    (report,) = [one for one in injection.kernels if one.instrumented]
    assert report.functions == ("_Z7doubledPKii", "_Z9fibonaccii")
    assert report.sites == len(injection.sites)


def test_sites_in_a_function_used_by_two_traced_kernels_have_no_single_kernel(ptx):
    function = ".func f()\n{\n.reg .b64 %rd<2>; .reg .b32 %r<2>;\nld.global.u32 %r1, [%rd1];\nret;\n}\n"
    entries = "".join(f".visible .entry {name}()\n{{\ncall f, ();\nret;\n}}\n" for name in ("a", "b"))
    both = inject(HEADER + function + entries, [(MEMORY, ptx.recorder())])
    assert [site.kernel for site in both.sites] == [SEVERAL_KERNELS]
    assert [one.sites for one in both.kernels] == [1, 1]
    one = inject(HEADER + function + entries, [(MEMORY, ptx.recorder())], requested=lambda name: name == "b")
    assert [site.kernel for site in one.sites] == [1]


def test_functions_called_through_pointers_are_found(ptx):
    injection = inject(ptx.sample("forms"), [(Attach(Where.FUNCTION), ptx.recorder())])
    assert [site.function for site in injection.sites] == ["twice", "thrice"]


def test_functions_whose_address_is_in_a_variable_are_found(ptx):
    function = ".func kept()\n{\nret;\n}\n.func alone()\n{\nret;\n}\n.global .u64 table[1] = {kept};\n"
    call = "ld.global.u64 %rd1, [table];\np: .callprototype _ ();\ncall %rd1, (), p;\nret;"
    text = kernel(call).replace(".visible", function + ".visible")
    injection = inject(text, [(Attach(Where.FUNCTION), ptx.recorder())])
    assert [site.function for site in injection.sites] == ["kept"]
    # A kernel without calls through addresses or into other modules cannot reach it.
    direct = text.replace("call %rd1, (), p", "call alone, ()")
    assert [site.function for site in inject(direct, [(Attach(Where.FUNCTION), ptx.recorder())]).sites] == ["alone"]
    other = text.replace("call %rd1, (), p", "call elsewhere, ()").replace(
        ".func kept", ".extern .func elsewhere();\n.func kept"
    )
    assert [site.function for site in inject(other, [(Attach(Where.FUNCTION), ptx.recorder())]).sites] == ["kept"]


@pytest.mark.parametrize("pattern", ["_Z7doubled*", "doubled", "doubled(*)", "doub*"])
def test_functions_can_be_named_mangled_or_demangled(ptx, pattern):
    injection = inject(ptx.sample("kernels"), [(Attach(Where.FUNCTION, pattern), ptx.recorder())])
    assert [site.function for site in injection.sites] == ["_Z7doubledPKii"]


def test_a_program_with_a_kernel_name_attaches_to_matching_kernels_only(ptx):
    injection = inject(ptx.sample("kernels"), [(Attach(Where.ENTRY, "vec*"), ptx.recorder())])
    assert [site.function for site in injection.sites] == ["vector_add", "vectors"]
    reasons = {one.name: one.reason for one in injection.kernels}
    assert reasons["vector_add"] == ""
    assert reasons["matmul"] == "no program attaches to a place in it"


def test_sites_describe_the_instruction_and_its_source_line(ptx):
    injection = inject(ptx.sample("kernels"), [(MEMORY, ptx.recorder())])
    store = next(one for one in injection.sites if one.function == "vectors" and one.operation is Operation.STORE)
    assert (store.space, store.size, store.where) == (Space.GLOBAL, 16, Where.MEMORY)
    assert store.instruction == "@p st.global.v4.f32 [%rd2], {%f1, %f2, %f9, %f10};"
    assert store.instruction.split(";")[0] in ptx.sample("kernels").splitlines()[store.ptx_line - 1]
    assert store.programs == ("accel_record",)
    lines = ptx.source_lines("kernels.cu")
    assert '"l"(out + i)' in lines[store.source.line - 1]
    atomic = next(one for one in injection.sites if one.function == "jumps" and one.operation is Operation.ATOMIC)
    assert (atomic.source.file, "atomicAdd(out + n, 1)" in lines[atomic.source.line - 1]) == ("kernels.cu", True)
    assert atomic.inlined.file.endswith("device_atomic_functions.hpp")


def test_programs_at_one_place_run_in_the_given_order_and_share_its_number(ptx):
    first = ptx.recorder(4096)
    second = ProbeCode("other", ptx.recorder(8192).text.replace("accel_record", "other"))
    injection = inject(kernel("ld.global.u32 %r1, [%rd1];\nret;"), [(MEMORY, first), (MEMORY, second)])
    (site,) = injection.sites
    assert site.programs == ("accel_record", "other")
    assert injection.code.index(", 4096;") < injection.code.index(", 8192;")


def test_one_probe_at_several_kinds_of_places_shares_its_stack_and_variables(ptx):
    injection = inject(ptx.sample("kernels"), ptx.everywhere(ptx.recorder()), requested=lambda name: name == "atomics")
    assert len(re.findall(r"\.global .*unused_text", injection.code)) == 1
    assert len(re.findall(r"\.local .*__local_depot0", injection.code)) == 1
    assert len(injection.sites) > 10


def test_labels_in_a_kernel_are_unique(ptx):
    for name in ptx.samples:
        for function in parse(inject(ptx.sample(name), ptx.everywhere(ptx.recorder())).code).functions:
            labels = [item.name for item in walk(function.body) if isinstance(item, Label)]
            assert len(set(labels)) == len(labels)


def test_a_program_without_a_place_does_not_change_the_module(ptx):
    newer = ptx.recorder().text.replace(".version 6.3", ".version 8.3").replace("accel_record", "unused")
    probes = [(MEMORY, ptx.recorder()), (Attach(Where.BARRIER), ProbeCode("unused", newer))]
    injection = inject(kernel("ld.global.u32 %r1, [%rd1];\nret;"), probes)
    assert parse(injection.code).version == (8, 0)
    assert injection.code.count("unused_text") == 1


def test_code_without_a_line_has_no_source(ptx):
    body = ".loc 1 7 3\nld.global.u32 %r1, [%rd1];\n.loc 1 0 3\nld.global.u32 %r1, [%rd1];\nret;"
    injection = inject(kernel(body) + '.file 1 "mine.cu"\n', [(MEMORY, ptx.recorder())])
    assert [site.source for site in injection.sites] == [SourceLine("mine.cu", 7, 3), None]


def test_nested_inlining_reports_the_innermost_and_the_outermost_line(ptx):
    body = (
        ".loc 1 7 3\n.loc 2 5 1, function_name $x, inlined_at 1 7 3\n"
        ".loc 2 9 2, function_name $y+16, inlined_at 2 5 1\nld.global.u32 %r1, [%rd1];\nret;"
    )
    files = '.file 1 "mine.cu"\n.file 2 "library.h"\n'
    (site,) = inject(kernel(body) + files, [(MEMORY, ptx.recorder())]).sites
    assert (site.source, site.inlined) == (SourceLine("mine.cu", 7, 3), SourceLine("library.h", 9, 2))


def test_a_register_range_includes_only_its_own_numbers(ptx):
    registers = ".reg .b32 %r<3>; .reg .b64 %r1<4>; .reg .pred %p<2>;"
    body = "ld.shared.u32 %r2, [%r2];\nld.shared.u32 %r2, [%r13];\nret;"
    code = inject(kernel(body, registers), [(MEMORY, ptx.recorder())]).code
    assert "cvt.u64.u32 %ax_address, %r2;" in code
    assert "%ax_address, %r13;" not in code
    assert "mov.b64 %ax0_rd1, %r13;" in code


def test_unused_parameters_generate_no_code(ptx):
    text = re.sub(r"\tld\.param\.b64.*\n", "", ptx.recorder().text)
    injection = inject(kernel("ld.global.u32 %r1, [%rd1+4];\nret;"), [(MEMORY, ProbeCode("accel_record", text))])
    assert "add.s64 \t%rd1" not in injection.code
    assert "%rd1, 4" not in injection.code
    assert "ld.param" not in injection.code


def test_addresses_are_computed_from_the_instructions_operands(ptx):
    registers = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .b32 tile[4];"
    body = (
        "ld.shared.u32 %r1, [%r2+8];\nld.shared.u32 %r1, [tile+4];\nld.u32 %r1, [tile];\nst.global.u32 [64], %r1;\nret;"
    )
    injection = inject(kernel(body, registers), [(MEMORY, ptx.recorder())])
    code = re.sub(r"\s+", " ", injection.code)
    assert "cvt.u64.u32 %ax_address, %r2; add.s64 %ax_address, %ax_address, 8;" in code
    assert "mov.u64 %ax_address, tile; add.s64 %ax_address, %ax_address, 4;" in code
    assert "cvta.shared.u64 %ax_address, tile;" in code
    assert re.search(r"mov\.b64 %ax0_rd1, 64;", code)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];", (Operation.LOAD, Space.SHARED, 16)),
        ("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r5], {%r1, %r2};", (Operation.STORE, Space.SHARED, 8)),
        ("red.global.add.noftz.f16x2 [%rd1], %r1;", (Operation.ATOMIC, Space.GLOBAL, 4)),
        ("atom.shared::cluster.add.u64 %rd2, [%rd1], %rd3;", (Operation.ATOMIC, Space.SHARED, 8)),
        (
            "ld.global.nc.L1::no_allocate.L2::128B.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];",
            (Operation.LOAD, Space.GLOBAL, 16),
        ),
        ("ld.volatile.v2.b64 {%rd2, %rd3}, [%rd1];", (Operation.LOAD, Space.GENERIC, 16)),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 2048, [%r2];",
            (Operation.ASYNC_COPY, Space.GLOBAL, 2048),
        ),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;", (Operation.ASYNC_COPY, Space.GLOBAL, 0)),
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], 64;",
            (Operation.ASYNC_COPY, Space.GLOBAL, 64),
        ),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile [%r1], [%rd1, {%r2, %r3}], [%r4];",
            (Operation.ASYNC_COPY, Space.GENERIC, 0),
        ),
    ],
)
def test_rarer_memory_operations_have_the_right_kind_space_and_size(ptx, instruction, expected):
    (site,) = inject(kernel(f"{instruction}\nret;"), [(MEMORY, ptx.recorder())]).sites
    assert (site.operation, site.space, site.size) == expected


@pytest.mark.parametrize(
    "instruction",
    [
        "ld.param.u64 %rd1, [k_param_0];",
        "ld.const.u32 %r1, [%rd1];",
        "cp.async.commit_group;",
        "cp.async.wait_group 0;",
        "cp.async.bulk.prefetch.L2.global [%rd1], 64;",
        "prefetch.global.L2 [%rd1];",
        "bar.warp.sync 0xffffffff;",
        "mbarrier.arrive.shared.b64 _, [%rd1];",
        "bra.uni next; next:",
    ],
)
def test_instructions_that_are_not_places(ptx, instruction):
    attaches = [(MEMORY, ptx.recorder()), *((Attach(where), ptx.recorder()) for where in (Where.BARRIER, Where.BRANCH))]
    assert inject(kernel(f"{instruction}\nret;"), attaches).sites == ()


def order(ptx, body, where=MEMORY):
    """The kernel's instructions, and `*` for each copy, in the order of the new text."""
    injection = inject(kernel(body), [(where, ptx.recorder())])
    words = []
    for function in parse(injection.code).kernels:
        for item in function.body.items:
            if hasattr(item, "items"):
                words.append("*")
            elif hasattr(item, "opcode") and "%ax" not in item.operand_text and "$ax" not in item.operand_text:
                words.append(item.name)
    return words


def test_a_carry_chain_is_not_split(ptx):
    body = (
        "add.cc.u32 %r1, %r2, %r3;\nld.global.u32 %r4, [%rd1];\naddc.cc.u32 %r5, %r4, 0;\n"
        "add.u32 %r7, %r7, 1;\naddc.u32 %r6, 0, 0;\nret;"
    )
    assert order(ptx, body) == ["add.cc.u32", "ld.global.u32", "addc.cc.u32", "add.u32", "addc.u32", "*", "ret"]


def test_a_copy_can_go_between_two_carry_chains(ptx):
    chain = "add.cc.u32 %r1, %r2, %r3;\naddc.u32 %r5, %r4, 0;\n"
    body = f"{chain}ld.global.u32 %r4, [%rd1];\n{chain}ret;"
    assert order(ptx, body) == ["add.cc.u32", "addc.u32", "*", "ld.global.u32", "add.cc.u32", "addc.u32", "ret"]


def test_matrix_instructions_between_fence_and_wait_are_not_split(ptx):
    body = (
        "ld.global.u32 %r1, [%rd1];\nwgmma.fence.sync.aligned;\nld.global.u32 %r2, [%rd2];\n"
        "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nld.global.u32 %r3, [%rd3];\nret;"
    )
    names = ["wgmma.fence.sync.aligned", "ld.global.u32", "wgmma.commit_group.sync.aligned"]
    expected = ["*", "ld.global.u32", *names, "wgmma.wait_group.sync.aligned", "*", "*", "ld.global.u32", "ret"]
    assert order(ptx, body) == expected


def test_a_copy_follows_both_of_two_overlapping_sequences(ptx):
    body = (
        "wgmma.fence.sync.aligned;\nld.global.u32 %r1, [%rd1];\nadd.cc.u32 %r1, %r2, %r3;\n"
        "wgmma.wait_group.sync.aligned 0;\naddc.u32 %r5, %r4, 0;\nret;"
    )
    names = ["wgmma.fence.sync.aligned", "ld.global.u32", "add.cc.u32", "wgmma.wait_group.sync.aligned", "addc.u32"]
    assert order(ptx, body) == [*names, "*", "ret"]


def test_a_calls_arguments_stay_with_the_call(ptx):
    call = (
        ".param .b32 given; .param .b32 taken;\nst.param.b32 [given], %r1;\nld.global.u32 %r2, [%rd1];\n"
        "call (taken), f, (given);\nld.param.b32 %r3, [taken];\nst.global.u32 [%rd2], %r3;\nret;"
    )
    function = ".func (.param .b32 o) f(.param .b32 i)\n{\nst.param.b32 [o], 1;\nret;\n}\n"
    text = kernel(call).replace(".visible", function + ".visible")
    code = inject(text, [(MEMORY, ptx.recorder())]).code
    together = code[code.index("st.param.b32 [given]") : code.index("ld.param.b32 %r3")]
    assert "atom" not in together
    assert code.index("atom", code.index("ld.param.b32 %r3")) < code.index("st.global.u32 [%rd2]")


def test_a_moved_place_keeps_its_original_address_and_guard(ptx):
    body = (
        "add.cc.u32 %r1, %r2, %r3;\n@!%p1 ld.global.u64 %rd1, [%rd1+8];\nsetp.eq.u32 %p1, %r1, %r2;\n"
        "addc.u32 %r5, %r4, 0;\nret;"
    )
    code = inject(kernel(body), [(MEMORY, ptx.recorder())]).code
    assert code.index("mov.pred %ax_guard0, %p1;") < code.index("@!%p1 ld.global.u64")
    assert re.search(r"add\.s64 %ax_address0, %ax_address0, 8;\s+mov\.pred", code)
    assert code.index("@%ax_guard0 bra") > code.index("addc.u32")


def test_the_header_is_raised_only_if_the_programs_need_it(ptx):
    host = kernel("ld.global.u32 %r1, [%rd1];\nret;")
    newer = ptx.recorder().text.replace(".version 6.3", ".version 8.3").replace("sm_75", "sm_100")
    raised = inject(host, [(MEMORY, ProbeCode("accel_record", newer))])
    assert parse(raised.code).version == (8, 3)
    assert parse(raised.code).target == ("sm_100",)
    assert len(raised.notes) == 2
    same = inject(host, [(MEMORY, ptx.recorder())])
    assert (parse(same.code).version, parse(same.code).target, same.notes) == ((8, 0), ("sm_90",), ())
    special = inject(host.replace("sm_90", "sm_90a"), [(MEMORY, ProbeCode("accel_record", newer))])
    assert [one.reason for one in special.kernels] == ["it is compiled for sm_90a only, but the programs need sm_100"]


def test_kernels_that_cannot_be_instrumented_have_a_reason(ptx, monkeypatch):
    probes = [(MEMORY, ptx.recorder())]
    narrow = kernel("ld.global.u32 %r1, [%rd1];\nret;").replace("address_size 64", "address_size 32")
    assert inject(narrow, probes).kernels[0].reason == "its addresses have 32 bits, not 64"
    declared = inject(f"{HEADER}.extern .entry k(.param .u64 a);", probes)
    assert "only declared" in declared.kernels[0].reason
    monkeypatch.setitem(module_function.__globals__, "MOST_STATEMENTS", 100)
    large = inject(kernel("ld.global.u32 %r1, [%rd1];\n" * 20 + "ret;"), probes)
    assert "too large: 20 places" in large.kernels[0].reason
    assert large.code.count("atom") == 0


def test_an_instruction_that_cannot_be_parsed_is_not_instrumented_and_reported(ptx):
    injection = inject(kernel("ld.global.u32 %r1, [?];\nld.global.u32 %r1, [%rd1];\nret;"), [(MEMORY, ptx.recorder())])
    assert len(injection.sites) == 1
    (left,) = injection.kernels[0].left
    assert "[?]" in left


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("accel_record(", "other("),
        lambda text: text.replace("\t.param .b32 accel_record_param_4,\n", ""),
        lambda text: text.replace("ld.param.b32 \t%r1, [accel_record_param_1]", "mov.b64 %rd1, accel_record_param_1"),
        lambda text: text.replace("ld.param.b32 \t%r1,", "ld.param.v2.b32 {%r1, %r2},"),
        lambda text: text.replace("accel_record_param_1]", "accel_record_param_1+2]"),
        lambda text: "not PTX",
    ],
)
def test_a_compiled_program_of_unexpected_form_is_an_error(ptx, change):
    with pytest.raises(ProgramError):
        inject(
            kernel("ld.global.u32 %r1, [%rd1];\nret;"),
            [(MEMORY, ProbeCode("accel_record", change(ptx.recorder().text)))],
        )


def test_functions_of_a_program_are_inserted_under_new_names(ptx):
    helper = ".func helper()\n{\n\tret;\n}\n"
    text = ptx.recorder().text.replace(".visible .func", helper + ".visible .func")
    text = text.replace("\tst.local.b64", "\tcall.uni helper, ();\n\tst.local.b64")
    host = kernel("call helper, ();\nld.global.u32 %r1, [%rd1];\nret;").replace(".visible", helper + ".visible")
    injection = inject(host, [(MEMORY, ProbeCode("accel_record", text))])
    names = [one.name for one in parse(injection.code).functions]
    assert names == ["ax0_helper", "helper", "k"]
    assert "call.uni ax0_helper, ();" in injection.code
