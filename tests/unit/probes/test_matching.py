from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from accel_magic.errors import AccelMagicError, MachineError, ProbeError
from accel_magic.probes import matching
from accel_magic.probes.grammar import parse_all
from accel_magic.probes.plan import Plan, Scope
from tests.support.errors import raises
from tests.support.plans import make_plan

FORMAT = """\
name: {name}
ID: {id}
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:{field};\toffset:16;\tsize:8;\tsigned:{signed};
"""
EVENTS = {
    ("syscalls", "sys_enter_read"): (700, "unsigned int fd", 0),
    ("syscalls", "sys_exit_read"): (699, "long ret", 1),
    ("syscalls", "sys_enter_write"): (702, "unsigned int fd", 0),
    ("syscalls", "sys_exit_write"): (701, "long ret", 1),
    ("syscalls", "sys_enter_lost"): (703, "int fd", 0),
    ("sched", "sched_switch"): (300, "long prev_state", 1),
    ("raw_syscalls", "sys_enter"): (20, "long id", 1),
}
LIBRARY = """
#define F __attribute__((noinline))
F int alpha(int x) { return x + 1; }
F int beta(int x) { return x + 2; }
F int gamma_1(int x) { return x + 3; }
int alpha_alias(int) __attribute__((alias("alpha")));
static int one(void) { return 1; }
static int (*pick(void))(void) { return one; }
int picked(void) __attribute__((ifunc("pick")));
"""


@pytest.fixture
def root(kernel_root):
    root = kernel_root()
    for (category, event), (id_, field, signed) in EVENTS.items():
        folder = root / "sys/kernel/tracing/events" / category / event
        folder.mkdir(parents=True)
        (folder / "format").write_text(FORMAT.format(name=event, id=id_, field=field, signed=signed))
    return root


@pytest.fixture
def library(compiled):
    return compiled(LIBRARY, "libsample.so", "-shared", "-fPIC", "-O1")


def functions(plan):
    return [point.function for point in plan.points]


def test_kernel_functions_become_points_with_dense_ids(root):
    plan = make_plan(["intel_vpu:ivpu_*", "kretprobe:vfs_read"], root=root)
    assert [point.id for point in plan.points] == [0, 1, 2, 3, 4]
    assert functions(plan) == [
        "ivpu_dbg_show",
        "ivpu_fw_check_api.constprop.0",
        "ivpu_ioctl",
        "ivpu_open",
        "vfs_read",
    ]
    assert [point.kind for point in plan.points] == ["kprobe"] * 4 + ["kretprobe"]
    assert [point.target for point in plan.points] == ["intel_vpu"] * 4 + [""]
    assert [item.function for item in plan.skipped] == ["ivpu_ioctl.cold"]
    assert plan.points[0].probe == "intel_vpu:ivpu_*"


def test_parsed_specs_give_the_same_plan_as_text(root):
    words = ["intel_vpu:ivpu_*", "!kprobe:ivpu_open"]
    assert make_plan(parse_all(words), root=root).points == make_plan(words, root=root).points


def test_exclusions_remove_entries_and_returns_in_any_position(root):
    plan = make_plan(["!intel_vpu:ivpu_dbg*", "intel_vpu:ivpu_*", "kr:intel_vpu:ivpu_d*", "k:vfs_read"], root=root)
    assert not any("dbg" in name for name in functions(plan))
    assert "vfs_read" in functions(plan)


def test_excluding_everything_is_an_error(root):
    with raises("probe.all-excluded", ProbeError):
        make_plan(["intel_vpu:ivpu_*", "!kprobe:*"], root=root)


def test_an_exclusion_that_matches_nothing_adds_a_note(root):
    plan = make_plan(["intel_vpu:ivpu_*", "!intel_vpu:ivpu_opne"], root=root)
    assert plan.notes[0].startswith("!intel_vpu:ivpu_opne excludes nothing. did you mean ivpu_open")


def test_a_place_belongs_to_the_first_spec_that_matches_it(root):
    plan = make_plan(["kprobe:ivpu_open", "intel_vpu:ivpu_o*", "intel_vpu:ivpu_*"], root=root)
    assert functions(plan)[0] == "ivpu_open"
    assert functions(plan).count("ivpu_open") == 1
    assert plan.points[0].probe == "kprobe:ivpu_open"


def test_a_latency_probe_takes_precedence_over_a_glob(root):
    for words in (["intel_vpu:ivpu_*", "latency:kprobe:ivpu_open"], ["latency:kprobe:ivpu_open", "intel_vpu:ivpu_*"]):
        plan = make_plan(words, root=root)
        (point,) = (point for point in plan.points if point.function == "ivpu_open")
        assert (point.latency, point.probe) == (True, "latency:kprobe:ivpu_open")


def test_tracepoints_carry_id_fields_and_record_end(root):
    (point,) = make_plan(["tracepoint:syscalls:sys_enter_read"], root=root).points
    assert (point.event_id, point.exit_event_id, point.record_end) == (700, 0, 24)
    assert [(field.name, field.type) for field in point.fields] == [("__syscall_nr", "s32"), ("fd", "u64")]


def test_a_measured_system_call_is_paired_with_its_exit(root):
    plan = make_plan(["latency:tracepoint:syscalls:sys_enter_*"], root=root)
    assert [(p.function, p.event_id, p.exit_event_id) for p in plan.points] == [
        ("sys_enter_read", 700, 699),
        ("sys_enter_write", 702, 701),
    ]
    assert [item.function for item in plan.skipped] == ["sys_enter_lost"]


def test_default_scopes_follow_the_kind_of_probe(root, library):
    plan = make_plan(
        [
            "t:syscalls:sys_enter_read",
            "t:raw_syscalls:sys_enter",
            "t:sched:sched_switch",
            "k:vfs_read",
            f"uprobe:{library}:alpha",
        ],
        root=root,
        pid=os.getppid(),
    )
    mine, everybody = Scope("self", os.getppid()), Scope("all")
    assert [point.scope for point in plan.points] == [mine, mine, everybody, everybody, mine]
    assert plan.scope_text() == "self + all"


@pytest.mark.parametrize(
    ("text", "scope"),
    [("all", Scope("all")), ("self", Scope("self", os.getpid())), (str(os.getppid()), Scope("pid", os.getppid()))],
)
def test_an_explicit_scope_applies_to_all_points(root, text, scope):
    plan = make_plan(["t:syscalls:sys_enter_read", "k:vfs_read"], scope=text, root=root)
    assert {point.scope for point in plan.points} == {scope}


@pytest.mark.parametrize(
    ("scope", "code"),
    [
        *((scope, "scope.unknown") for scope in ("everyone", "-1", "0", "²")),
        ("4194305", "scope.no-process"),
    ],
)
def test_invalid_scopes_are_rejected(root, scope, code):
    with raises(code, ProbeError, match=scope):
        make_plan(["k:vfs_read"], scope=scope, root=root)


def test_user_functions_have_offsets_and_aliases(library):
    plan = make_plan([f"uprobe:{library}:alpha*", f"uretprobe:{library}:beta"])
    assert [(p.kind, p.function, p.aliases) for p in plan.points] == [
        ("uprobe", "alpha", ("alpha_alias",)),
        ("uretprobe", "beta", ()),
    ]
    assert {point.target for point in plan.points} == {str(library)}
    assert len({point.offset for point in plan.points}) == 2


def test_excluding_an_alias_removes_the_function(library):
    plan = make_plan([f"uprobe:{library}:*a", f"!uprobe:{library}:alpha_alias"])
    assert "beta" in functions(plan)
    assert "alpha" not in functions(plan)


def test_resolvers_are_skipped_by_latency_probes_and_noted_by_others(library):
    plan = make_plan([f"latency:uprobe:{library}:*[te][ad]"])
    assert "beta" in functions(plan)
    assert [(item.function, "IFUNC" in item.why) for item in plan.skipped] == [("picked", True)]
    with raises("probe.untraceable", ProbeError, match="no match can be traced") as caught:
        make_plan([f"latency:uprobe:{library}:picked"])
    assert "IFUNC" in caught.value.why
    assert "picked" in make_plan([f"uprobe:{library}:picked"]).notes[0]


def test_a_mapped_library_takes_precedence(library):
    ctypes.CDLL(str(library))
    assert make_plan(["uprobe:sample:alpha"]).points[0].target == str(library)


def test_the_libraries_of_the_scope_process_are_searched(compiled):
    library = compiled("int only_there(void) { return 1; }", "libelsewhere.so", "-shared", "-fPIC")
    code = f"import ctypes; ctypes.CDLL({str(library)!r}); print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        plan = make_plan(["uprobe:elsewhere:only_*"], scope=str(child.pid))
        assert [(p.target, p.scope) for p in plan.points] == [(str(library), Scope("pid", child.pid))]
    finally:
        child.communicate(b"\n")


def test_filters_are_translated_for_each_point(root):
    plan = make_plan(
        ["t:syscalls:sys_enter_read", "latency:t:syscalls:sys_enter_write"], filter="fd == 3 and pid > 1", root=root
    )
    assert plan.request.filter == "fd == 3 and pid > 1"
    assert ["AM_FIELD(u64, 16)" in point.filter.entry for point in plan.points] == [True, True]
    with raises("filter.invalid", ProbeError) as caught:
        make_plan(["t:syscalls:sys_enter_read", "k:vfs_read"], filter="fd == 3", root=root)
    assert "vfs_read" in caught.value.why


def test_sample_and_wait_points_have_the_scope_self_and_a_rate_or_minimum_wait(root):
    plan = make_plan(["profile:hz:99", "p:hz:499", "offcpu:us:250", "offcpu"], pid=77, root=root)

    assert [(point.kind, point.function, point.rate_hz, point.shortest_ns, point.latency) for point in plan.points] == [
        ("profile", "99 Hz", 99, 0, False),
        ("profile", "499 Hz", 499, 0, False),
        ("offcpu", "wait", 0, 250_000, True),
    ]
    assert {point.scope for point in plan.points} == {Scope("self", 77)}
    assert plan.latency_points == plan.points[2:]
    assert Plan.from_dict(plan.to_dict()) == plan


def test_sample_and_wait_filters_have_only_their_own_names(root):
    both = ["profile:hz:99", "offcpu"]
    points = make_plan(both, filter="pid == 1 and cpu < 2 and comm == 'x'", root=root).points
    assert [point.kind for point in points] == ["profile", "offcpu"]
    for point in points:
        assert point.filter.entry
        assert not point.filter.exit
    (wait,) = make_plan(["offcpu"], filter="duration > 9 and state == 2 and syscall != 0", root=root).points
    assert not wait.filter.entry
    assert "AM_DURATION" in wait.filter.exit
    assert "AM_WAIT_STATE" in wait.filter.exit
    assert wait.filter.saved == ()
    for name in ("duration", "arg0", "retval", "state"):
        with raises("filter.invalid", ProbeError, match=f"profile has no '{name}'") as caught:
            make_plan(both, filter=f"{name} == 1", root=root)
        assert caught.value.fix == "it has pid, tid, cpu, comm"
    with raises("capture.not-here", ProbeError, match="none of the probes has arg0"):
        make_plan(both, args="x=arg0:u64", root=root)


def test_captures_need_a_probe_with_their_source(root):
    assert make_plan(["k:vfs_read"], args="size=arg2:u64", root=root).points[0].captures[0].source == "arg2"
    for spec, column in [("k:vfs_read", "r=retval:s64"), ("kr:vfs_read", "x=arg0:u64"), ("t:sched:*", "x=arg0:u64")]:
        with raises("capture.not-here", ProbeError):
            make_plan([spec], args=column, root=root)


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        ("kprobe:vfs_raed", ProbeError, "did you mean kprobe:vfs_read"),
        ("intel_vpu:ivpu_opne", ProbeError, "did you mean intel_vpu:ivpu_open"),
        ("kprobe:banned", ProbeError, "cannot be traced"),
        ("kprobe:twice", ProbeError, "2 functions share this name"),
        ("xe:xe_*", MachineError, "modprobe xe"),
        ("builtin:*", ProbeError, "built into"),
        ("t:sched:sched_swich", ProbeError, "did you mean t:sched:sched_switch"),
        ("t:schd:*", ProbeError, "did you mean t:sched:*"),
        ("latency:t:syscalls:sys_enter_lost", ProbeError, "no tracepoint for its return"),
        ("uprobe:{library}:alhpa", ProbeError, "did you mean uprobe:{library}:alpha"),
        ("usdt:{library}:a:b", ProbeError, "no USDT probes"),
        ("uprobe:nosuchlib:f", ProbeError, "no library or program"),
    ],
)
def test_unmatched_probes_report_the_reason_and_similar_names(root, library, spec, error, text):
    (root / "sys/module/builtin").mkdir(parents=True)
    with pytest.raises(error) as caught:
        make_plan([spec.format(library=library)], root=root)
    assert text.format(library=library) in str(caught.value)


def test_without_an_npu_the_lab_is_suggested(kernel_root):
    root = kernel_root(modules="", kallsyms="00 T a\n")
    with raises("probe.module-not-loaded", MachineError, match="intel_vpu is not loaded") as caught:
        make_plan(["intel_vpu:ivpu_*"], root=root)
    assert caught.value.fix.startswith("modprobe intel_vpu; without an NPU: the Jupyter kernel 'Python 3 (NPU lab)'")
    with raises("probe.module-not-loaded", MachineError, match="xe is not loaded") as caught:
        make_plan(["xe:xe_*"], root=root)
    assert "NPU" not in caught.value.fix


def test_a_kernel_without_kprobes_still_has_tracepoints(root):
    (root / "sys/bus/event_source/devices/kprobe/type").unlink()
    (root / "sys/bus/event_source/devices/kprobe").rmdir()
    with raises("kernel.no-kprobes", MachineError):
        make_plan(["k:vfs_read"], root=root)
    assert make_plan(["t:sched:sched_switch"], root=root).points


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_too_many_places_are_rejected(kernel_root, root, compiled, monkeypatch):
    monkeypatch.setattr(matching, "MOST_POINTS", 3)
    with raises("probe.too-many", ProbeError, match="4 places") as caught:
        make_plan(["intel_vpu:ivpu_*"], root=root)
    assert "!SPEC" in caught.value.fix
    many = "".join(f"int f{number}(int x) {{ return x * {number}; }}" for number in range(2001))
    library = compiled(many, "libmany.so", "-shared", "-fPIC")
    monkeypatch.setattr(matching, "MOST_POINTS", 10_000)
    with raises("probe.too-many-user", ProbeError, match="2,001 places in programs") as caught:
        make_plan([f"uprobe:{library}:f[0-9]*"])
    assert "microseconds" in caught.value.why
    assert len(make_plan([f"uprobe:{library}:f[0-9]*", f"!uprobe:{library}:f7"]).points) == 2000


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ({"mode": "trace"}, "option.unknown-value"),
        ({"max_events": 0}, "option.max-events"),
        ({"duration_s": 0}, "option.duration"),
        ({"duration_s": float("nan")}, "option.duration"),
        ({"buffer_mib": 0}, "option.buffer"),
        ({"buffer_mib": 1 << 20}, "option.buffer"),
    ],
)
def test_invalid_limits_are_rejected(root, option, code):
    with raises(code, ProbeError):
        make_plan(["k:vfs_read"], root=root, **option)


def test_options_are_stored_in_the_plan(root):
    plan = make_plan(
        ["k:vfs_read"], mode="count", args="a=arg0:u64", max_events=5, duration_s=1.5, buffer_mib=8, root=root
    )
    assert (plan.request.mode, plan.request.max_events, plan.request.duration_s, plan.request.buffer_mib) == (
        "count",
        5,
        1.5,
        8,
    )
    assert "--args has no effect" in plan.notes[0]
    assert Plan.from_dict(plan.to_dict()) == plan


USDT = r"""
#define PROBE(name, arguments) __asm__ volatile( \
  "771: nop\n .pushsection .note.stapsdt, \"?\", \"note\"\n .balign 4\n .4byte 8, 774f - 773f, 3\n" \
  ".asciz \"stapsdt\"\n 773: .8byte 771b, 0, 0\n" \
  ".asciz \"shop\"\n .asciz \"" name "\"\n .asciz \"" arguments "\"\n 774: .balign 4\n .popsection\n")
void work(void) { PROBE("sale", "8@%rdi 8@price(%rip)"); PROBE("sale", "8@$1 8@$2"); PROBE("open", ""); }
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program is x86-64 assembly")
def test_a_usdt_probe_has_a_point_at_each_of_its_locations(compiled):
    library = compiled(USDT, "libshop.so", "-shared", "-fPIC")
    plan = make_plan([f"usdt:{library}:shop:*"], filter="pid > 0", args="")
    assert functions(plan) == ["shop:open", "shop:sale", "shop:sale"]
    assert len({point.offset for point in plan.points}) == 3
    assert "arg1" in plan.notes[0]
    assert functions(make_plan([f"usdt:{library}:*:*", f"!usdt:{library}:shop:sale"])) == ["shop:open"]
    with raises("probe.no-match", ProbeError) as caught:
        make_plan([f"usdt:{library}:shop:sael"])
    assert "shop:sale" in caught.value.fix
    with raises("filter.invalid", AccelMagicError):
        make_plan([f"usdt:{library}:shop:sale"], filter="arg1 == 2")


@pytest.mark.parametrize(
    ("text", "code", "suggested"),
    [
        ("syscall:read", "probe.no-match", "tracepoint:syscalls:sys_enter_read"),
        ("read", "probe.bad-syntax", "tracepoint:syscalls:sys_enter_read"),
        ("tracepoint:syscalls:read", "probe.no-match", "tracepoint:syscalls:sys_enter_read"),
        ("latency:t:syscalls:read", "probe.no-duration", ""),
        ("sched_switch", "probe.bad-syntax", "tracepoint:sched:sched_switch"),
        ("sched:sched_switch", "probe.no-match", "tracepoint:sched:sched_switch"),
        ("vfs_read", "probe.bad-syntax", "kprobe:vfs_read"),
        ("tracepoint:vfs_read", "probe.bad-syntax", "kprobe:vfs_read"),
        ("{library}:alpha", "probe.bad-syntax", "uprobe:{library}:alpha"),
        ("latency:{library}:alpha", "probe.bad-syntax", "latency:uprobe:{library}:alpha"),
        ("tracepoint:{library}:alpha", "probe.bad-syntax", "uprobe:{library}:alpha"),
        ("uprobe:{library}:alpha+8", "probe.offset", "uprobe:{library}:alpha"),
        ("nonsense:x:y:z", "probe.unknown-kind", ""),
        ("a:b:c:d:e", "probe.unknown-kind", ""),
    ],
)
def test_a_probe_of_another_kind_is_suggested_if_it_matches(root, library, text, code, suggested):
    with raises(code) as caught:
        make_plan([text.format(library=library)], root=root)

    first = caught.value.fix.removeprefix("write ").split()[:1]
    if suggested:
        assert first == [suggested.format(library=library)]
        assert make_plan(first, root=root).points
    assert isinstance(caught.value, ProbeError)


def test_a_kernel_without_kprobes_suggests_what_works(root):
    (root / "sys/bus/event_source/devices/kprobe/type").unlink()
    (root / "sys/bus/event_source/devices/kprobe").rmdir()

    with raises("kernel.no-kprobes", MachineError) as caught:
        make_plan(["kprobe:sys_read"], root=root)

    assert caught.value.fix.startswith("write tracepoint:syscalls:sys_enter_read; or ")


def test_whoever_has_found_the_places_elsewhere_gets_no_look_into_files(root, library):
    with raises("probe.bad-syntax", ProbeError) as caught:
        make_plan([f"{library}:alpha+"], root=root, places=lambda *_: pytest.fail("looked"))

    assert not caught.value.fix.startswith(f"write uprobe:{library}:alpha ")
