"""Generating C from plans: programs, sharing, and record layouts."""

import re
from itertools import pairwise

import pytest

from accel_magic.c_programs import bpf_folder
from accel_magic.kernel.attach import plan_source
from accel_magic.kernel.attach.plan_source import started_size
from accel_magic.kernel.bcc import own_text
from accel_magic.probes.plan import Capture, Filter, ProbePoint, Scope, TracepointField, UsdtArgument
from tests.support.plans import plan_of

TEMPLATES = {file.name for file in (bpf_folder() / "kernel").iterdir()}


def generate(plan):
    """Check that the compiler process would accept the text."""
    made = plan_source.generate(plan)
    assert own_text.foreign_line(made.text, TEMPLATES) is None
    return made


READ = TracepointField("fd", "u32", 16, 4), TracepointField("buf", "u64", 24, 8), TracepointField("count", "u64", 32, 8)


def point(id_, kind="uprobe", function="f", **fields):
    return ProbePoint(id_, "probe", kind, fields.pop("target", "/lib/x.so"), function, **fields)


def event(id_, function="sched_switch", target="sched", **fields):
    return point(id_, "tracepoint", function, target=target, event_id=100 + id_, **fields)


def programs(*points, **options):
    return [(program.role, program.points, program.table) for program in generate(plan_of(points, **options)).programs]


def test_points_that_need_the_same_program_share_it():
    assert programs(point(0), point(1, function="g"), point(2, target="/lib/y.so")) == [("plain", (0, 1, 2), None)]


def parts(*points):
    return {at: part for p in generate(plan_of(points)).programs for at, part in zip(p.points, p.parts, strict=True)}


def test_functions_with_different_constants_are_parts_of_one_program():
    for other in (
        point(1, scope=Scope("self", 5)),
        point(1, filter=Filter("x", "(1)")),
        point(1, "uretprobe"),
        point(1, captures=(Capture("size", "arg0", "u64"),)),
    ):
        assert programs(point(0), other) == [("plain", (0, 1), None)]
        assert parts(point(0), other) == {0: 0, 1: 1}
    assert parts(point(0), point(1, "uretprobe"), point(2)) == {0: 0, 2: 0, 1: 1}


@pytest.mark.parametrize(("loops", "with_stacks"), [(False, [16, 16, 8]), (True, [40])])
def test_parts_with_stacks_are_split_within_the_verifiers_limit(monkeypatch, loops, with_stacks):
    monkeypatch.setattr("accel_magic.kernel.load.shared_functions.has_loops", lambda: loops)
    points = [point(at, captures=(Capture("size", "arg0", "u64", 8 * at),)) for at in range(40)]

    assert [len(own) for _, own, _ in programs(*points, stacks=("kernel",))] == with_stacks
    assert [len(own) for _, own, _ in programs(*points)] == [40]
    assert f"#define AM_LOOPS {int(loops)}\n" in generate(plan_of(tuple(points))).text


def test_kernel_and_user_functions_have_separate_programs():
    kernel = point(1, "kprobe", target="m")

    assert programs(point(0), kernel) == [("plain", (0,), None), ("plain", (1,), None)]


def test_every_part_is_called_by_its_number():
    text = generate(plan_of((point(0), point(1, "uretprobe")))).text

    assert "case 0: return am_plain_0_0(ctx, cookie);\n\tcase 1: return am_plain_0_1(ctx, cookie);" in text


def test_different_tracepoints_have_separate_programs():
    assert programs(event(0), event(1, scope=Scope("self", 5))) == [("plain", (0,), None), ("plain", (1,), None)]


def test_a_latency_has_an_entry_and_an_exit():
    assert programs(point(0, latency=True), point(1, latency=True)) == [("entry", (0, 1), None), ("exit", (0, 1), None)]


def test_known_system_calls_have_tables_and_unknown_ones_use_perfs_tracepoints():
    known = event(0, "sys_enter_read", "syscalls", fields=READ)
    unknown = "sys_enter_of_the_future"

    found = programs(known, event(1, unknown, "syscalls", fields=READ))
    assert sorted(found) == [("plain", (0,), 0), ("plain", (1,), None)]
    assert "#define AM_SYSCALL_TABLES 1" in generate(plan_of((known,))).text
    assert "AM_SYSCALL" not in generate(plan_of((event(0, unknown, "syscalls", fields=READ),))).text


def test_system_call_entries_and_exits_have_separate_programs_and_tables():
    entry = event(0, "sys_enter_read", "syscalls", fields=READ)
    exit_ = event(1, "sys_exit_read", "syscalls", fields=(TracepointField("ret", "s64", 16, 8),))
    timed = event(2, "sys_enter_write", "syscalls", fields=READ, latency=True)

    found = generate(plan_of((entry, exit_, timed)))

    assert sorted(program.table for program in found.programs) == [0, 1, 2, 3]
    assert "AM_SYSCALL_EXIT(AM_TABLE)" in found.text
    assert "AM_SYSCALL_ENTER(AM_TABLE)" in found.text


def test_a_function_that_ends_its_thread_is_counted_without_a_return():
    plan = plan_of((point(0, "kprobe", "do_task_dead", latency=True), point(1, "kprobe", "vfs_read", latency=True)))

    found = [(program.role, program.points) for program in generate(plan).programs]

    assert found == [("entry", (0, 1)), ("exit", (1,))]


@pytest.fixture
def offsets(monkeypatch):
    """Fake the type information of a given kernel: `offsets(6, 18)`."""

    def of_kernel(*version):
        monkeypatch.setattr("accel_magic.kernel.features.kernel_version", lambda: version)
        known = {"pid": 1234, "tgid": 1238, "__state": 24, "thread_info": 0, "status": 16}
        monkeypatch.setattr("accel_magic.kernel.btf.member_offset", lambda _, member: known[member])

    return of_kernel


def sample(id_, rate=99, **fields):
    return point(id_, "profile", f"{rate} Hz", target="cpu-clock", rate_hz=rate, **fields)


def wait(id_, **fields):
    return point(id_, "offcpu", "wait", target="sched", latency=True, **fields)


def test_samples_share_a_program_and_waits_have_a_separate_one(offsets):
    offsets(6, 18)

    assert programs(sample(0), sample(1, 999), wait(2), point(3)) == [
        ("plain", (0, 1), None),
        ("switch", (2,), None),
        ("plain", (3,), None),
    ]


def test_waits_use_the_plans_point_and_histogram(offsets):
    offsets(6, 18)
    text = generate(plan_of((point(0, latency=True), sample(1), wait(2, shortest_ns=5000)))).text

    assert {"#define AM_POINT 2", "#define AM_ROW 1", "#define AM_SHORTEST 5000ULL"} <= set(text.splitlines())
    assert "#define AM_LATENCIES 2\n" in text


def test_the_state_of_the_stopping_task_is_an_argument_if_the_kernel_passes_it(offsets):
    offsets(5, 17)
    assert "#define AM_STATE_OF(ctx) AM_READ_KERNEL(u32, (ctx)[1] + 24)" in generate(plan_of((wait(0),))).text
    offsets(5, 18)
    assert "#define AM_STATE_OF(ctx) (u32)(ctx)[3]" in generate(plan_of((wait(0),))).text


def test_stacks_of_a_wait_are_taken_at_its_start_and_recorded_at_its_end(offsets):
    offsets(6, 18)
    found = generate(plan_of((wait(0),), stacks=("kernel", "user")))

    assert "wait.stacks[0] = (u64)AM_KERNEL_STACK; wait.stacks[1] = (u64)AM_USER_STACK;" in found.text
    items = found.layout.point_layouts[0].items
    assert [(item.name, item.type) for item in items] == [
        ("duration_ns", "s64"),
        ("state", "u32"),
        ("syscall", "s32"),
        ("arg0", "u64"),
        ("arg1", "u64"),
        ("kernel_stack", "u64"),
        ("user_stack", "u64"),
    ]
    assert [item.offset for item in items] == list(range(0, 56, 8))


def test_a_plan_with_only_waits_has_no_call_tables(offsets):
    offsets(6, 18)

    assert started_size(plan_of((wait(0),), stacks=("kernel", "user", "python"))) == 24


def test_program_names_are_unique_and_short_enough_for_the_kernel():
    names = [
        program.name for program in generate(plan_of(tuple(point(i, scope=Scope("pid", i)) for i in range(3)))).programs
    ]

    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"am_[a-z]+_\d+", name) and len(name) <= 15 for name in names)


def test_payloads_never_overlap_and_fit_their_record():
    size, path, r = Capture("size", "arg0", "u32"), Capture("path", "arg1", "str"), Capture("r", "retval", "s32")
    arguments = (UsdtArgument("register", -4, "di"), UsdtArgument("constant", 8, value=7))
    points = (
        point(0, captures=(size, path)),
        point(1, "uretprobe", captures=(r,)),
        point(2, "usdt", usdt_arguments=arguments, captures=(size, path)),
        event(3, fields=READ),
        point(4, function="g", latency=True, captures=(size, path, r)),
    )
    layout = generate(plan_of(points)).layout

    widths = {"string": 64}
    assert len(layout.point_layouts) == 5
    for place in layout.point_layouts:
        spans = sorted((item.offset, widths.get(item.type) or int(item.type[1:]) // 8) for item in place.items)
        assert all(start + width <= after for (start, width), (after, _) in pairwise(spans))
        if spans:
            assert spans[-1][0] + spans[-1][1] <= layout.record_sizes[place.ring] - 40
    names = [[item.name for item in place.items] for place in layout.point_layouts]
    assert names == [
        ["size", "path"],
        ["retval", "r"],
        ["size", "path"],
        ["fd", "buf", "count"],
        ["duration_ns", "retval", "size", "path", "r"],
    ]


def test_a_field_named_like_a_column_is_renamed():
    fields = (
        TracepointField("pid", "s32", 8, 4),
        TracepointField("function", "u64", 16, 8),
        TracepointField("cpu_id", "u32", 24, 4),
    )
    (place,) = generate(plan_of((event(0, fields=fields),))).layout.point_layouts

    assert [(item.name, item.offset) for item in place.items] == [
        ("pid_field", 0),
        ("function_field", 8),
        ("cpu_id", 16),
    ]


def test_counting_records_nothing():
    source = generate(plan_of((point(0), event(1, fields=READ), point(2, function="g", latency=True)), mode="count"))

    assert source.layout.record_sizes == ()
    assert source.layout.point_layouts == ()
    assert "AM_RECORDS 1" not in source.text


@pytest.mark.parametrize(("count", "room"), [(1, 8), (8, 8), (9, 16), (10_000, 16_384)])
def test_counters_have_a_slot_for_every_point(count, room):
    layout = generate(plan_of(tuple(point(i) for i in range(count)), mode="count")).layout

    assert layout.points == room
    assert layout.cpus & layout.cpus - 1 == 0


def test_saved_entry_values_match_the_maps_value_size():
    filter_ = Filter("x", exit="AM_SAVED(0)", saved=("((u64)(AM_ARG5))",))
    captures = (Capture("a", "arg0", "u64"), Capture("b", "arg1", "u64"), Capture("r", "retval", "u64"))
    plan = plan_of((point(0, latency=True, filter=filter_, captures=captures),))
    text = generate(plan).text

    (most,) = re.findall(r"#define AM_SAVED_MAX (\d+)", text)
    assert int(most) == 3
    assert started_size(plan) == 16 + 8 * 3
    assert "started.saved[0] = (u64)((u64)(AM_ARG5));" in text


def test_plans_of_the_same_shape_have_the_same_text():
    one = plan_of((point(0, scope=Scope("self", 1)),), max_events=5, duration_s=1)
    other = plan_of((point(0, function="g", target="/lib/z.so", offset=99, scope=Scope("self", 2)),), max_events=9)

    assert generate(one).text == generate(other).text


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        (UsdtArgument("constant", -4, value=-7), "(s32)(-7LL)"),
        (UsdtArgument("register", 2, "ax"), "(u16)AM_REGISTERS->ax"),
        (UsdtArgument("memory", 8, "bp", value=-8), "AM_READ_USER(u64, AM_REGISTERS->bp + (-8LL))"),
        (
            UsdtArgument("memory", 1, "bp", value=4, index="cx", scale=8),
            "AM_READ_USER(u8, AM_REGISTERS->bp + (4LL) + AM_REGISTERS->cx * 8)",
        ),
    ],
)
def test_static_probes_read_arguments_from_the_notes_location(argument, expected):
    text = generate(plan_of((point(0, "usdt", usdt_arguments=(argument,)),))).text

    assert expected in text


def test_only_module_functions_are_counted_regardless_of_the_interrupted_task():
    """Hits of the tracer are recognized by process id, which interrupts share; the tracer never calls modules."""
    points = (point(0, "kprobe", target="intel_vpu"), point(1, "kprobe", target=""), event(2, fields=READ))
    text = generate(plan_of(points, mode="count")).text

    programs = text.split("#define AM_NAME ")[1:]
    found = {program.split()[0]: "#define AM_NEVER_TRACER 1" in program for program in programs}
    assert found == {"am_plain_0": False, "am_plain_1_0": True, "am_plain_1_1": False}


@pytest.mark.parametrize(("category", "expected"), [("gpu_scheduler", True), ("dma_fence", True), ("sched", False)])
def test_tracepoints_of_devices_are_counted_regardless_of_the_interrupted_task(category, expected):
    text = generate(plan_of((event(0, target=category, fields=READ),), mode="count")).text

    assert ("#define AM_NEVER_TRACER 1" in text) == expected


def test_text_behind_a_pointer_field_is_copied_into_the_record():
    fields = (TracepointField("event", "char *", 8, 8), TracepointField("job", "u32", 16, 4))
    source = generate(plan_of((event(0, fields=fields),)))

    (layout,) = source.layout.point_layouts
    assert [(item.name, item.type, item.offset) for item in layout.items] == [
        ("event", "string", 16),
        ("job", "u32", 8),
    ]
    assert "AM_PUT_KERNEL_STRING(16, AM_FIELD(u64, 8))" in source.text


def test_a_point_that_is_only_counted_has_no_records_beside_one_that_has():
    source = generate(plan_of((event(0), event(1, "sched_wakeup", counted=True)), mode="events"))
    alone = generate(plan_of((event(0),), mode="events"))

    assert source.layout.record_sizes == alone.layout.record_sizes
    assert [place.ring for place in source.layout.point_layouts] == [0, -1]
    (counted,) = (program for program in source.programs if program.points == (1,))
    own = source.text.partition(f"#define AM_NAME {counted.name}\n")[2].partition("#include")[0]
    assert "#define AM_RECORDS 0" in own
    assert "#define AM_BY_THREAD" in own
    assert source.text.count("AM_BY_THREAD") == 1


def test_only_calls_that_returned_are_counted_by_thread():
    source = generate(plan_of((event(0, "sys_enter_read", "syscalls", latency=True, counted=True),), mode="events"))
    entry, end = source.text.split("#define AM_NAME ")[1:]

    assert "AM_BY_THREAD" not in entry.partition("#include")[0]
    assert "AM_BY_THREAD" in end.partition("#include")[0]
    assert source.layout.record_sizes == ()
