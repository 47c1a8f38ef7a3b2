"""SIMT rules: unsafe programs are rejected at the right line, safe ones are accepted without findings."""

import os
from pathlib import Path

import pytest

from accel_magic.errors import ProgramError
from accel_magic.gpu.program import isa, objects, sections
from accel_magic.gpu.program.helpers import MapType
from accel_magic.gpu.program.isa import Alu, Jump
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram, MapSpec
from accel_magic.gpu.verifier import findings, judge, simt, verify
from tests.support.errors import raises
from tests.unit.gpu.verifier.compiled import compiled, marked, names, text
from tests.unit.gpu.verifier.lane_programs import alu, atomic, call, handle, load, put, store

pytestmark = pytest.mark.component

SEVERITIES = ("error", "warning", "note")


def found_in(folder, name, *, per="thread"):
    """Pairs of rule and finding from `--verify warn`."""
    loaded = compiled(folder, name)
    (program,) = loaded.programs
    verdict = verify(program, loaded.maps, mode="warn", per=per)
    rules = {**findings.RULES, **simt.RULES}
    return {(rules[each.rule], each) for each in verdict.findings if each.rule != "unreachable-code"}


def lines(found):
    """Rule and line of each finding."""
    return {(each.rule, each.line.line) for _, each in found}


@pytest.mark.parametrize("name", names("simt_unsafe"))
def test_an_unsafe_program_has_findings_at_the_marked_lines_only(name):
    found = found_in("simt_unsafe", name)

    assert lines(found) == {(rule, line) for _, rule, line in marked(text("simt_unsafe", name))}
    assert all(each.fix and each.message for _, each in found)


@pytest.mark.parametrize("name", names("simt_unsafe"))
def test_strict_mode_rejects_programs_with_marked_errors_only(name):
    loaded = compiled("simt_unsafe", name)
    refused = sorted(line for severity, _, line in marked(text("simt_unsafe", name)) if severity == "error")

    if not refused:
        verdict = verify(loaded.programs[0], loaded.maps, mode="strict")
        severities = {(each.severity, each.rule, each.line.line) for each in verdict.findings}
        assert severities == marked(text("simt_unsafe", name))
        return
    with pytest.raises(ProgramError) as caught:
        verify(loaded.programs[0], loaded.maps, mode="strict")
    message = caught.value.what + caught.value.why
    assert [line for line in refused if f"{name}.bpf.c:{line}:" not in message] == []
    assert caught.value.why
    assert caught.value.fix


@pytest.mark.parametrize("name", names("simt_safe"))
def test_a_safe_program_is_accepted_without_findings(name):
    loaded = compiled("simt_safe", name)

    verdict = verify(loaded.programs[0], loaded.maps, mode="strict")

    assert verdict.findings == ()
    assert verdict.promoted == frozenset()


def test_every_rule_has_an_unsafe_program():
    rules = {rule for name in names("simt_unsafe") for _, rule, _ in marked(text("simt_unsafe", name))}

    assert rules == set(simt.RULES) - {"promoted-update"}


def test_mode_off_finds_and_promotes_nothing():
    loaded = compiled("simt_promoted", "count")

    verdict = verify(loaded.programs[0], loaded.maps, mode="off")

    assert (verdict.findings, verdict.promoted) == ((), frozenset())


@pytest.mark.parametrize("name", ["barrier_for_whole_blocks", "barriers_in_an_even_loop", "barrier_by_configuration"])
def test_no_barrier_is_safe_if_only_leaders_run(name):
    assert {each.rule for _, each in found_in("simt_safe", name, per="warp")} == {"divergent-barrier"}


def test_a_vote_is_a_warning_if_only_leaders_run():
    found = found_in("simt_safe", "vote_then_leader", per="warp")

    assert [(each.rule, each.severity) for _, each in found] == [("divergent-vote", "warning")]


@pytest.mark.parametrize("name", ["vote_in_odd_lanes", "exit_of_some_lanes", "print_of_each_thread"])
def test_rules_about_lanes_of_one_warp_are_not_errors_if_only_leaders_run(name):
    severities = [each.severity for _, each in found_in("simt_unsafe", name, per="warp")]

    assert "error" not in severities


@pytest.mark.parametrize("name", ["store_of_the_last_time", "hash_read_add_write", "count_by_array_update"])
def test_warps_still_race_with_each_other_if_only_leaders_run(name):
    assert lines(found_in("simt_unsafe", name, per="warp")) == lines(found_in("simt_unsafe", name))


def test_a_finding_names_the_line_where_threads_diverge():
    (only,) = found_in("simt_unsafe", "barrier_in_half_a_warp")

    assert "line 7" in only[1].message


@pytest.mark.parametrize("name", ["count_in_two_bytes", "misaligned_count"])
def test_the_fix_names_the_sizes_of_atomics_if_no_atomic_can_change_the_value(name):
    ((_, found),) = found_in("simt_unsafe", name)

    assert "4 or 8 bytes" in found.fix


COUNTS = MapSpec("counts", MapType.GPU_ARRAY, 4, 8, 4)


def judged(code, section="gpu/entry"):
    program = EbpfProgram("p", section, (EbpfFunction("p", tuple(code), (None,) * len(code)),))
    return verify(program, [COUNTS], mode="warn")


def looked_up(*use, before=()):
    """Code that uses the value of key 0."""
    body = [*before, put(10, -4, 0, 4), *handle(1, "counts"), alu(Alu.MOV, 2, src=10), alu(Alu.ADD, 2, imm=-4), call(1)]
    body.append(isa.EbpfInstruction(isa.JMP | Jump.JEQ, 0, offset=len(use)))
    return [*body, *use, alu(Alu.MOV, 0, imm=0), isa.EbpfInstruction(isa.EXIT)]


def test_code_without_line_information_is_checked_too():
    verdict = judged(looked_up(alu(Alu.MOV, 6, src=0), call(511), store(6, 0, 0)))

    assert [(each.rule, each.slot, each.line) for each in verdict.findings] == [("racy-update", 9, None)]


def test_a_value_spilled_to_the_stack_still_counts_as_read_from_the_map():
    use = [load(1, 0, 0), store(10, -16, 1), load(2, 10, -16), alu(Alu.MUL, 2, imm=3), store(0, 0, 2)]

    assert [each.rule for each in judged(looked_up(*use)).findings] == ["lost-update"]


def test_storing_back_the_result_of_an_atomic_is_a_lost_update():
    use = [alu(Alu.MOV, 1, imm=1), atomic(0, 0, 1, Alu.ADD | isa.FETCH), alu(Alu.MUL, 1, imm=2), store(0, 0, 1)]

    assert [each.rule for each in judged(looked_up(*use)).findings] == ["lost-update"]


def test_a_store_to_the_stack_or_a_shared_value_depending_on_the_path_is_a_warning():
    use = [alu(Alu.MOV, 6, src=0), call(511), isa.EbpfInstruction(isa.JMP | Jump.JEQ, 0, offset=2, imm=3)]
    use += [alu(Alu.MOV, 6, src=10), alu(Alu.ADD, 6, imm=-16), store(6, 0, 0)]

    verdict = judged(looked_up(*use))

    assert [(each.rule, each.severity, each.slot) for each in verdict.findings] == [("racy-update", "warning", 12)]


@pytest.mark.parametrize(("helper", "ruled"), [(14, []), (608, ["racy-update"]), (511, ["racy-update"])])
def test_a_store_races_unless_all_threads_store_the_same(helper, ruled):
    verdict = judged(looked_up(alu(Alu.MOV, 6, src=0), call(helper), store(6, 0, 0)))

    assert [each.rule for each in verdict.findings] == ruled


def test_memory_errors_reject_a_program_before_races_are_checked():
    with raises("gpu.verifier.uninitialised-register", ProgramError):
        judged([alu(Alu.MOV, 0, src=3), isa.EbpfInstruction(isa.EXIT)])


def test_judge_reports_the_findings_of_a_rejected_program():
    loaded = compiled("simt_unsafe", "swap_of_two_values")

    verdict = judge(loaded.programs[0], loaded.maps)

    assert [(each.rule, each.line.line) for each in verdict.errors] == [("lost-update", 19), ("lost-update", 18)]


PEERS = os.environ.get("ACCEL_MAGIC_BPFTIME", "")
RACY = {
    ("cuda-counter", "cuda__probe"),
    ("cuda-counter", "cuda__retprobe"),
    ("gpu_shared_map", "cuda__retprobe"),
    ("host_map_test", "cuda__probe"),
    ("rocm-counter", "probe"),
    ("rocm-counter", "retprobe"),
    ("threadscheduling", "cuda__probe_threadscheduling"),
    ("threadscheduling_dynamic_hook", "cuda__probe_threadscheduling"),
}
"""Programs of bpftime that lose counts: folder and function."""


@pytest.mark.skipif(not PEERS, reason="ACCEL_MAGIC_BPFTIME does not name a checkout of bpftime")
def test_programs_of_bpftime_run_and_those_that_lose_counts_have_warnings():
    warned = {}
    for path in sorted(Path(PEERS).glob("example/gpu/*/*.bpf.c")):
        loaded = objects.load(path)
        for program in loaded.programs:
            if sections.is_gpu(program):
                verdict = verify(program, loaded.maps, mode="warn")
                warned[path.parent.name, program.name] = {
                    each.rule for each in verdict.findings if each.severity == "warning" and each.rule in simt.RULES
                }

    assert len(warned) >= 22
    assert {name for name, rules in warned.items() if rules} == RACY
