"""ITT tasks, counted by the collector and compared with what a program counts itself."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from accel_magic.collecting import collector_area, collector_memory
from accel_magic.kernel import buckets

pytestmark = pytest.mark.component

OUTER, FIRST, SECOND = "itt:test::outer:*/whole", "itt:test::inner:*/first", "itt:test::inner:*/second part"
LOAD = "accel_magic.collect_tasks(); library = load()\n"


def test_tasks_of_8_threads_are_counted_exactly_and_all_recorded(run):
    told = run(
        LOAD
        + """
with accel_magic.trace("itt:test::*:*", buffer=512) as t:
    done = library.work(8, 20_000)
events = t.result.events
answer([done, counts(t.result), t.result.recorded, t.result.lost, len(events), events.tid.nunique(),
        events.groupby("function", observed=True).size().to_dict(), t.result.latency["count"].tolist(),
        bool((events.time_ns.diff().dropna() >= 0).all()), sorted(set(events.comm))])
"""
    )
    done, counted, recorded, lost, rows, threads, by_name, calls, ordered, comms = told
    assert done == 8 * 20_000 * 3
    assert counted == {OUTER: 160_000, FIRST: 160_000, SECOND: 160_000}
    assert (recorded, lost) == (done, 0)
    assert rows == recorded
    assert threads == 8
    assert by_name == {"whole": 160_000, "first": 160_000, "second part": 160_000}
    assert calls == [160_000] * 3
    assert ordered
    assert len(comms) == 1


def test_what_a_full_ring_drops_is_counted(run):
    told = run(
        LOAD
        + """
with accel_magic.trace("itt:test::*:*", buffer=0.01) as t:
    done = library.work(4, 50_000)
answer([done, t.result.hits, t.result.recorded, t.result.lost, len(t.result.events)])
"""
    )
    done, hits, recorded, lost, rows = told
    assert hits == done == 600_000
    assert recorded + lost == done
    assert lost > 0
    assert rows == recorded


def test_an_inner_task_lies_within_the_outer_one_and_its_time_is_shorter(run):
    told = run(
        LOAD
        + """
with accel_magic.trace("itt:test::*:*") as t:
    library.work_here(500)
e = t.result.events
e["end"] = e.time_ns + e.duration_ns
outer = e[e.function == "whole"].reset_index()
inner = e[e.function != "whole"].reset_index()
at = inner.index // 2
total = t.result.recording.histograms.total_ns.tolist()
answer([len(outer), len(inner), bool((inner.time_ns.values >= outer.time_ns[at].values).all()),
        bool((inner.end.values <= outer.end[at].values).all()), total,
        e.groupby("function", observed=True).duration_ns.sum().tolist()])
"""
    )
    outer, inner, after, before, totals, sums = told
    assert (outer, inner) == (500, 1000)
    assert after
    assert before
    assert sorted(totals) == sorted(sums)


def test_globs_and_exclusions_select_by_domain_and_name(run):
    told = run(
        LOAD
        + """
found = []
for probes in (["itt:test::inner:*"], ["itt:test::*:*", "!itt:test::inner:f*"], ["itt:test::outer:whole"],
               ["itt:*:second part", "itt:*:whole"], ["itt:test::other:*", "itt:*:first"]):
    with accel_magic.trace(*probes) as t:
        library.work(2, 10)
    found.append([counts(t.result), t.result.recorded])
answer(found)
"""
    )
    assert told == [
        [{FIRST: 20, SECOND: 20}, 40],
        [{OUTER: 20, SECOND: 20}, 40],
        [{"itt:test::outer:whole/whole": 20}, 20],
        [{"itt:test::inner:second part/second part": 20, "itt:test::outer:whole/whole": 20}, 40],
        [{"itt:test::inner:first/first": 20, "itt:test::other:*/*": 0}, 20],
    ]


def test_without_events_counts_and_latencies_are_complete(run):
    told = run(
        LOAD
        + """
with accel_magic.trace("itt:test::*:*", mode="count") as t:
    library.work(4, 1000)
r = t.result
answer([r.hits, r.recorded, r.lost, len(r.events), r.latency["count"].tolist()])
"""
    )
    assert told == [12_000, 0, 0, 0, [4000] * 3]


def test_each_trace_starts_at_zero_and_between_traces_tasks_are_switched_off(run):
    told = run(
        LOAD
        + """
domain = library.make_domain(b"test::outer")
flags = lambda: ctypes.c_int.from_address(domain).value
seen = [flags()]
for count in (3, 5, 0, 7):
    library.work_here(100)
    with accel_magic.trace("itt:test::outer:*") as t:
        seen.append(flags())
        library.work_here(count)
    seen += [t.result.hits, len(t.result.events), flags()]
with accel_magic.trace("itt:test::inner:*") as t:
    seen.append(flags())
answer(seen)
"""
    )
    assert told == [0, 1, 3, 3, 0, 1, 5, 5, 0, 1, 0, 0, 0, 1, 7, 7, 0, 0]


def test_a_task_that_began_before_the_trace_or_ends_after_it_is_not_timed(run):
    told = run(
        LOAD
        + """
domain, one, two = library.make_domain(b"d"), library.make_handle(b"one"), library.make_handle(b"two")
library.begin(domain, one)
with accel_magic.trace("itt:d:*") as t:
    library.begin(domain, two); library.end(domain)
    library.end(domain)                                   # of `one`
    library.begin(domain, two)
library.end(domain)
with accel_magic.trace("itt:d:*") as u:
    library.end(domain)
    library.begin(domain, one); library.end(domain)
unfinished = int(t.result.latency.unfinished.sum())
answer([counts(t.result), t.result.recorded, unfinished, counts(u.result), u.result.recorded])
"""
    )
    assert told == [{"itt:d:*/two": 2}, 1, 1, {"itt:d:*/one": 1}, 1]


def test_child_processes_are_counted_even_if_one_is_killed(run):
    told = run(
        """
accel_magic.collect_tasks()
with accel_magic.trace("itt:test::*:*") as t:
    children = [subprocess.Popen([PROGRAM, "2", "1000"], stdout=subprocess.PIPE) for _ in range(3)]
    done = sum(int(child.communicate()[0]) for child in children)
    endless = subprocess.Popen([PROGRAM, "1", "10", "endless"], stdout=subprocess.PIPE, text=True)
    done += int(endless.stdout.readline())
    endless.stdout.readline()
    endless.kill(); endless.wait()
events = t.result.events
answer([done, counts(t.result), t.result.recorded, t.result.lost, events.pid.nunique(),
        int(t.result.latency.unfinished.sum()), sorted(set(events.comm))])
"""
    )
    done, counted, recorded, lost, processes, unfinished, comms = told
    assert done == 3 * 6000 + 30
    assert counted == {OUTER: 6010, FIRST: 6010, SECOND: 6010, "itt:test::outer:*/endless": 1}
    assert (recorded, lost, processes, unfinished) == (done, 0, 4, 1)
    assert comms == ["tasks"]


def test_a_child_that_started_before_the_trace_is_counted_from_its_start(run):
    told = run(
        """
accel_magic.collect_tasks()
script = '''
import ctypes, sys
library = ctypes.CDLL(sys.argv[1]); library.look_for_collector()
library.work_here(50)
print("ready", flush=True)
for line in sys.stdin:
    library.work_here(int(line)); print("done", flush=True)
'''
command = [sys.executable, "-c", script, LIBRARY]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
child.stdout.readline()
found = []
for count in (7, 9):
    with accel_magic.trace("itt:test::outer:*") as t:
        child.stdin.write(f"{count}\\n"); child.stdin.flush(); child.stdout.readline()
    found.append([t.result.hits, t.result.recorded, set(t.result.events.pid) == {child.pid}])
child.stdin.close(); child.wait()
answer(found)
"""
    )
    assert told == [[7, 7, True], [9, 9, True]]


def test_a_forked_child_counts_as_a_process_of_its_own(run):
    told = run(
        LOAD
        + """
with accel_magic.trace("itt:test::outer:*") as t:
    library.work_here(5)
    child = os.fork()
    if not child:
        library.work_here(20)
        os._exit(0)
    os.waitpid(child, 0)
    library.work_here(1)
by = t.result.events.groupby("pid").size().to_dict()
answer([t.result.hits, by[os.getpid()], by[child]])
"""
    )
    assert told == [26, 6, 20]


def test_python_code_marks_its_own_tasks(run):
    told = run(
        """
@accel_magic.task("function")
def work():
    with accel_magic.task("inside"):
        pass

work()
with accel_magic.trace("itt:python:*") as t:
    for _ in range(3):
        work()
    try:
        with accel_magic.task("fails"):
            raise ValueError
    except ValueError:
        pass
answer([counts(t.result), t.result.recorded])
"""
    )
    assert told == [
        {"itt:python:*/function": 3, "itt:python:*/inside": 3, "itt:python:*/fails": 1},
        7,
    ]


@pytest.mark.parametrize(
    ("pattern", "reported"), [("itt:python:*", False), ("itt:*:*", False), ("itt:ov::op::*:*", True)]
)
def test_tasks_of_others_are_not_missing_tasks_of_openvino(run, pattern, reported):
    hits, found = run(
        f"""
with accel_magic.trace({pattern!r}) as t:
    with accel_magic.task("load"):
        pass
answer([t.result.hits, list(t.result.diagnose().ids)])
"""
    )

    assert hits == (0 if reported else 1)
    assert ("nothing-traced" in found) == reported


def test_more_threads_than_there_is_room_for_are_reported(run):
    told = run(
        LOAD
        + f"""
import threading
barrier = threading.Barrier({collector_memory.MOST_SLOTS + 5})
def one():
    library.work_here(2); barrier.wait()
with accel_magic.trace("itt:test::outer:*") as t:
    threads = [threading.Thread(target=one) for _ in range({collector_memory.MOST_SLOTS + 5})]
    [thread.start() for thread in threads]; [thread.join() for thread in threads]
first = t.result.hits
with accel_magic.trace("itt:test::outer:*") as u:
    library.work(3, 10)
answer([first, [note for note in t.result.recording.notes if "threads" in note], u.result.hits])
"""
    )
    assert told[0] == 2 * collector_memory.MOST_SLOTS
    assert told[1] == [
        f"tasks of 10 threads were not counted: more than {collector_memory.MOST_SLOTS} threads ran tasks"
    ]
    assert told[2] == 30


def test_more_names_than_there_is_room_for_are_counted_together(run):
    told = run(
        LOAD
        + f"""
domain = library.make_domain(b"many")
with accel_magic.trace("itt:many:*") as t:
    for at in range({collector_memory.TASKS.most_points + 100}):
        library.begin(domain, library.make_handle(b"name %d" % at)); library.end(domain)
answer([t.result.hits, len(t.result.counts), int(t.result.counts.hits.max()), t.result.recorded])
"""
    )
    assert told == [
        collector_memory.TASKS.most_points + 100,
        collector_memory.TASKS.most_points,
        101,
        collector_memory.TASKS.most_points + 100,
    ]


def test_patterns_are_compared_once_with_each_name(run):
    """A task of one of 2,000 names that take turns costs about as much as one of a single name."""
    told = run(
        LOAD
        + """
domain, names = library.make_domain(b"turns"), [library.make_handle(b"name %d" % at) for at in range(2000)]
def cost(handles):
    start = time.thread_time_ns()
    for handle in handles:
        library.begin(domain, handle); library.end(domain)
    return time.thread_time_ns() - start
with accel_magic.trace("itt:turns:*", *(f"itt:other{at}:*" for at in range(20))) as t:
    ratio = sorted(cost(names) / cost(names[:1] * 2000) for _ in range(30))[15]
answer([t.result.hits, sorted(set(t.result.counts.hits.tolist())), ratio])
"""
    )
    assert told[:2] == [2 * 30 * 2000, [0, 30, 30 + 30 * 2000]]
    assert told[2] < 5  # 8 if they are compared each time, about 2 else, because more memory is used


def test_descendants_note_the_files_that_they_map(run, tmp_path):
    for name in ("one.data", "other.data", "third.text"):
        (tmp_path / name).write_bytes(bytes(4096))
    told = run(
        LOAD
        + f"""
from accel_magic.itt import collector
script = '''
import ctypes, mmap, os, sys
library = ctypes.CDLL(sys.argv[1]); library.make_domain.restype = library.make_handle.restype = ctypes.c_void_p
library.begin.argtypes, library.end.argtypes = [ctypes.c_void_p] * 2, [ctypes.c_void_p]
library.look_for_collector()
domain, kept = library.make_domain(b"d"), []
for task, names in ((b"x", ["one.data"]), (b"noted a", ["one.data", "third.text"]), (b"noted b", ["other.data"])):
    kept += [mmap.mmap(os.open({str(tmp_path)!r} + "/" + name, os.O_RDONLY), 0, prot=mmap.PROT_READ) for name in names]
    if sys.argv[2] != "few" or task == b"x":
        for _ in range(3): library.begin(domain, library.make_handle(task)); library.end(domain)
'''
found = []
for how in ("all", "few"):
    with accel_magic.trace("itt:d:*") as t:
        collector.note_files("noted*", ".data")
        subprocess.run([sys.executable, "-c", script, LIBRARY, how], check=True)
        mine = library.make_domain(b"d")
        library.begin(mine, library.make_handle(b"noted here")); library.end(mine)
    found.append([path.name for path in collector.noted_files()])
answer(found)
"""
    )
    assert told == [["one.data", "other.data"], []]


def test_one_name_in_two_domains_is_two_tasks(run):
    told = run(
        LOAD
        + """
one, other, third = (library.make_domain(name) for name in (b"one", b"other", b"third"))
handle = library.make_handle(b"name")
found = []
for probes in (["itt:one:*", "itt:other:*"], ["itt:third:*"], ["itt:o*:*"]):
    with accel_magic.trace(*probes) as t:
        for domain, times in ((one, 3), (other, 4), (third, 5), (one, 1)):
            for _ in range(times):
                library.begin(domain, handle); library.end(domain)
    found.append(counts(t.result))
answer(found)
"""
    )
    assert [sorted(each.values()) for each in told] == [[4, 4], [5], [4, 4]]


def test_names_that_are_not_ascii_match_by_character(run):
    told = run(
        LOAD
        + """
domain = library.make_domain(b"words")
with accel_magic.trace("itt:words:Gr??e", "itt:words:caf[\u00e9e]") as t:
    for text in ("Gr\u00f6\u00dfe", "Grube", "Gr\u00f6\u00df\u00dfe", "caf\u00e9", "cafe", "cafo"):
        library.begin(domain, library.make_handle(text.encode())); library.end(domain)
answer(counts(t.result))
""",
        LC_ALL="C.UTF-8",
    )
    assert {name.rsplit("/", 1)[-1]: hits for name, hits in told.items() if hits} == {
        "Gr\u00f6\u00dfe": 1,
        "Grube": 1,
        "caf\u00e9": 1,
        "cafe": 1,
    }


def test_a_library_that_was_loaded_too_early_is_an_error_that_names_it(run):
    told = run(
        """
load()
try:
    with accel_magic.trace("itt:test::*:*"):
        pass
    found = None
except AccelMagicError as error:
    found = [error.code, error.what, error.fix]
with accel_magic.trace("itt:elsewhere*:*") as t:
    pass
with accel_magic.trace("itt:*:*") as u:
    pass
answer([found, t.result.recording.notes, u.result.recording.notes])
"""
    )
    (code, what, fix), none, notes = told
    assert (code, what) == ("itt.loaded-early", "libtasks.so reports no tasks: it was loaded before accel_magic")
    assert "%load_ext accel_magic" in fix
    assert none == []
    assert notes == ["libtasks.so was loaded before accel_magic and reports no ITT tasks"]


def test_another_tools_collector_is_left_alone(run):
    told = run(
        """
try:
    accel_magic.collect_tasks()
except AccelMagicError as error:
    answer([error.code, os.environ["INTEL_LIBITTNOTIFY64"]])
""",
        INTEL_LIBITTNOTIFY64="/opt/intel/vtune/libittnotify_collector.so",
    )
    assert told == ["itt.other-collector", "/opt/intel/vtune/libittnotify_collector.so"]


def test_damaged_memory_harms_neither_the_trace_nor_the_next_one(run):
    """Every traced process can write to it."""
    told = run(
        LOAD
        + """
import random
from accel_magic.collecting import collector_memory
from accel_magic.itt import collector
fd, random = collector.memory_of_this_process().fd, random.Random(5)
for kind in range(12):
    with accel_magic.trace("itt:test::*:*") as t:
        library.work(2, 50)
        for _ in range(20):
            # Names, hashes, slots of other threads and counters; then the lengths and positions of all rings.
            at = random.randrange(collector_memory.TASKS.names, collector_memory.TASKS.counters + (1 << 20))
            if collector_memory.TASKS.slots <= at < collector_memory.TASKS.slots + 4 * collector_memory.SLOT_BYTES:
                continue
            os.pwrite(fd, random.randbytes(random.choice([1, 8, 300])), at)
        for slot in range(4, collector_memory.MOST_SLOTS):
            os.pwrite(fd, random.randbytes(16), collector_memory.TASKS.slots + slot * collector_memory.SLOT_BYTES + 16)
            os.pwrite(fd, random.randbytes(8), collector_memory.TASKS.slots + slot * collector_memory.SLOT_BYTES + 64)
    str(t.result), t.result.events, t.result.counts
with accel_magic.trace("itt:test::*:*") as t:
    library.work(2, 50)
answer([t.result.hits, t.result.recorded])
"""
    )
    assert told == [300, 300]


def test_the_structures_are_those_of_the_c_code(tmp_path):
    header = Path(collector_memory.__file__).with_name("area.h")
    fields = {
        "control": (
            collector_area.CONTROL,
            {"libraries": "parts"},
            [
                "magic",
                "generation",
                "libraries",
                "points",
                "record_bytes",
                "library_count",
                "python",
                "token",
                "lock",
                "specs",
            ],
        ),
        "file": (collector_area.FILE, {}, list(collector_area.FILE.names)),
        "name": (collector_area.NAME, {}, ["spec", "domain", "task"]),
        "slot": (collector_area.SLOT, {}, list(collector_area.SLOT.names)),
        "counters": (collector_area.COUNTERS, {}, list(collector_area.COUNTERS.names)),
        "stack": (collector_area.STACK, {}, list(collector_area.STACK.names)),
        "python_layout": (collector_area.PYTHON, {}, list(collector_area.PYTHON.names)),
    }
    prints, expected = [], []
    for struct, (dtype, renamed, names) in fields.items():
        prints.append(f"sizeof(struct {struct})")
        expected.append(dtype.itemsize)
        for name in names:
            prints.append(f"offsetof(struct {struct}, {name})")
            expected.append(dtype.fields[renamed.get(name, name)][1])
    source = tmp_path / "sizes.c"
    lines = "\n".join(
        f'printf("%zu ", {one});' for one in [*prints, "offsetof(struct record, user_stack)", "sizeof(struct record)"]
    )
    source.write_text(f'#include "{header}"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {{ {lines} }}\n')
    subprocess.run(["gcc", "-o", tmp_path / "sizes", source], check=True)
    printed = subprocess.run([tmp_path / "sizes"], capture_output=True, check=True).stdout.split()
    assert [int(number) for number in printed] == [*expected, 56, 72]
    assert (collector_area.CONTROL.itemsize, collector_area.STACK.itemsize) == (
        collector_memory.CONTROL_BYTES,
        collector_memory.STACK_BYTES,
    )
    assert collector_memory.BUCKETS == buckets.COUNT


@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv")
def test_a_trace_of_tasks_needs_no_privilege(run):
    told = run(
        LOAD
        + """
with open("/proc/self/status") as status:
    assert "CapEff:\\t0000000000000000" in status.read()
with accel_magic.trace("itt:test::*:*") as t:
    library.work(2, 10)
answer([t.result.hits, t.result.recorded])
""",
        prefix=["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else (),
    )
    assert told == [60, 60]


def test_durations_are_in_the_histograms_of_the_kernels_programs(run):
    told = run(
        LOAD
        + """
with accel_magic.trace("itt:test::outer:*") as t:
    library.work_here(3000)
answer([t.result.recording.histograms.counts[0].tolist(), t.result.events.duration_ns.tolist()])
"""
    )
    histogram, durations = told
    expected = np.bincount(buckets.index_of(np.array(durations, np.int64)), minlength=buckets.COUNT)
    assert histogram == expected.tolist()


def test_stacks_have_the_python_callers_and_every_native_one_without_frame_pointers(run):
    told = run(
        LOAD
        + """
import traceback
def own():
    found = [(frame.f_code.co_qualname, line) for frame, line in traceback.walk_stack(sys._getframe(1))]
    return [f"{name} (<string>:{line})" for name, line in reversed(found)]

def work():
    global seen
    seen = own(); library.work_here(3)

def outer(value):
    work()
    return value

def frames(name):
    return [text.split(";") for text in t.result.by_stack(name).text]

with accel_magic.trace("itt:test::*:*", "itt:python:*", stacks=True) as t:
    sorted([0], key=outer); library.work(2, 5)
    with accel_magic.task("mine"):
        pass
answer([[frames(name) for name in ("first", "whole", "mine")], seen, t.result.stacks_lost, t.result.recorded,
        int(t.result.stacks.hits.sum()), list(t.result.recording.notes)])
""",
        prefix=["env"],  # a forked Python's stacks begin with the function that forked it
    )
    (first, whole, mine), seen, lost, recorded, with_stacks, notes = told
    assert len(seen) == 3
    for found in (first, whole):
        ours, threads = sorted(found, key=lambda text: text[0] != seen[0])
        python = [frame for frame in ours if "<string>" in frame]
        assert python == seen
        assert ours[-3:] == ["work_here", "run", "end"]
        assert threads[-2:] == ["run", "end"]
        assert any("clone" in frame for frame in threads)
    assert [text[-1].split(" ")[0] for text in mine] == ["<module>"]
    assert (lost, with_stacks, notes) == (0, recorded, [])
    assert recorded == 3 * 3 + 2 * 3 * 5 + 1


def test_tasks_marked_in_python_have_native_stacks_if_python_ones_are_not_asked_for(run):
    told = run(
        """
with accel_magic.trace("itt:python:mine", stacks="user") as t:
    for _ in range(200):
        with accel_magic.task("mine"):
            pass
table = t.result.stacks
answer([t.result.recorded, int(table.hits.sum()), t.result.stacks_lost, [text.split(";") for text in table.text]])
"""
    )
    recorded, with_stacks, lost, stacks = told
    assert (recorded, with_stacks, lost) == (200, 200, 0)
    assert all("Py_BytesMain" in frames or "main" in frames for frames in stacks)


def test_a_child_has_native_stacks_of_its_own(run):
    told = run(
        LOAD
        + """
with accel_magic.trace("itt:test::*:*", stacks="user") as t:
    subprocess.run([PROGRAM, "2", "10"], check=True)
answer([t.result.recorded, t.result.stacks_lost, t.result.by_stack("second part").text.tolist()])
"""
    )
    recorded, lost, texts = told
    assert (recorded, lost) == (60, 0)
    assert len(texts) == 1
    assert texts[0].split(";")[-1] == "end"


def test_stacks_without_the_unwinding_library_are_noted(run, tmp_path):
    (tmp_path / "libgcc_s.so.1").write_bytes(b"not a library")
    told = run(
        LOAD
        + f"""
with accel_magic.trace("itt:test::*:*", stacks="user") as t:
    subprocess.run([PROGRAM, "2", "10"], check=True, env={{**os.environ, "LD_LIBRARY_PATH": {str(tmp_path)!r}}})
frames = [len(text.split(";")) for text in t.result.stacks.text]
answer([t.result.recorded, frames, list(t.result.recording.notes)])
"""
    )
    recorded, frames, notes = told
    assert recorded == 60
    assert set(frames) == {1}
    (note,) = [note for note in notes if "libgcc_s" in note]
    assert note.startswith("native stacks of 60 tasks are only their calling function")


def test_kernel_stacks_of_tasks_are_an_error(run):
    told = run(
        """
try:
    with accel_magic.trace("itt:test::*:*", stacks="kernel"):
        pass
except AccelMagicError as error:
    answer([error.code, error.fix])
"""
    )
    assert told == ["stacks.itt", "use --stacks=user,python"]


def test_stacks_beyond_the_tables_size_are_counted_as_lost(run):
    told = run(
        LOAD
        + f"""
def deeper(level):
    with accel_magic.task("deep"):
        pass
    return level and deeper(level - 1)

def wide(number):
    exec(compile("\\n" * number + "deeper(2)", f"file{{number}}", "exec"), globals())

with accel_magic.trace("itt:python:*", stacks="python") as t:
    for number in range({collector_memory.MOST_STACKS} // 3 + 500):
        wide(number)
r = t.result
answer([r.recorded, r.lost, r.stacks_lost, len(r.stacks)])
"""
    )
    recorded, lost, without, kept = told
    assert (recorded, lost) == (3 * (collector_memory.MOST_STACKS // 3 + 500), 0)
    assert kept + without == recorded
    assert 0.9 * collector_memory.MOST_STACKS < kept <= collector_memory.MOST_STACKS


def test_page_faults_of_the_process_during_a_task_are_recorded_if_they_are_asked_for(run):
    told = run(
        LOAD
        + """
import mmap, threading
from accel_magic.subsystems.openvino.preset import INFERENCES
domain = library.make_domain(INFERENCES.replace("*", "cpu").encode())
inference = library.make_handle(b"SyncInferenceCPU::infer::Model1")
def touch(pages):
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        for page in range(pages): memory[page * mmap.PAGESIZE] = 1
def in_thread(pages):
    thread = threading.Thread(target=touch, args=(pages,)); thread.start(); thread.join()
touch(10); in_thread(10)
found = []
for part in ("openvino:memory", "openvino:requests"):
    with accel_magic.trace(part, "itt:python:*") as t:
        for pages in (0, 300, 0, 1000):
            library.begin(domain, inference)
            (touch if pages < 500 else in_thread)(pages) if pages else None
            library.end(domain)
            touch(500)
        with accel_magic.task("mine"): touch(50)
    events = t.result.events
    requests = t.result.openvino.requests
    found.append([requests.faults.tolist() if requests.faults.notna().all() else None,
                  "page_faults" in events and int(events.loc[events.function == "mine", "page_faults"].isna().sum())])
answer(found)
"""
    )
    (counted, missing), (uncounted, _) = told
    assert missing == 1
    assert uncounted is None
    # Some more: of the interpreter, the new thread and the records themselves.
    for pages, faults in zip((0, 300, 0, 1000), counted, strict=True):
        assert pages <= faults < pages + 200


NESTED = """
import threading
names = dict(inference="ov::phases::cpu::inference", type="ov::op::cpu::exec", layer="ov::op::cpu::details",
             primitive="dnnl::primitive::execute", loop="tbb")
domains = {kind: library.make_domain(name.encode()) for kind, name in names.items()}
def task(kind, name, *inside):
    library.begin(domains[kind], library.make_handle(name.encode()))
    for each in inside: task(*each)
    library.end(domains[kind])
loop = ("loop", "parallel_for")
def infer(model, second):
    primitive = ("primitive", "matmul", loop)
    task("inference", f"SyncInferenceCPU::infer::{model}",
         ("type", "Convolution::execute", ("layer", "A", loop, loop)), loop,
         ("type", f"{second}::execute", ("layer", "B", primitive)))
def several():
    for model, second in (("Model1", "Eltwise"), ("Model2", "Pooling"), ("Model1", "Eltwise"), ("Model2", "Pooling")):
        for _ in range(5): infer(model, second)
"""


@pytest.mark.parametrize("again", [False, True])
def test_tasks_that_tables_do_not_need_are_only_counted(run, again):
    """The type around a node is recorded when the model changes; loops within nodes and primitives are not."""
    counted, recorded, unfinished, others, layers, loops, steps = run(
        LOAD
        + NESTED
        + f"""
for _ in range({1 + again}):
    with accel_magic.trace("openvino") as t:
        several()
        thread = threading.Thread(target=task, args=loop); thread.start(); thread.join()
r = t.result
functions = ["Convolution::execute", "Eltwise::execute", "Pooling::execute", "A", "B", "matmul", "parallel_for"]
layers, calls = r.openvino.layers, r.openvino.calls
hits = [int(r.counts.hits[r.counts.index.get_level_values("function") == name].sum()) for name in functions]
answer([hits, [int((r.events.function == name).sum()) for name in functions], int(r.latency.unfinished.sum()),
        int(r.lost) + int(r.latency.only_counted.sum()),
        sorted(zip(layers.model, layers.index, layers.type, layers.executions.tolist(), layers.threads.tolist())),
        int((r.events[r.events.function == "parallel_for"].tid.nunique())),
        sorted(set(zip(calls.name, calls.parent.map(calls.name.astype(str)).fillna(""))))])
"""
    )
    assert counted == [20, 10, 10, 20, 20, 20, 81]
    assert recorded == [4, 2, 2, 20, 20, 20, 21]
    assert unfinished == 0
    assert others == sum(counted) - sum(recorded)
    assert layers == [
        ["Model1", "A", "Convolution", 10, 1.0],
        ["Model1", "B", "Eltwise", 10, 1.0],
        ["Model2", "A", "Convolution", 10, 1.0],
        ["Model2", "B", "Pooling", 10, 1.0],
    ]
    assert loops == 2
    first, second = (f"SyncInferenceCPU::infer::Model{number}" for number in (1, 2))
    assert steps == sorted(
        [
            *([layer, around] for layer in "AB" for around in (first, second)),
            *([first, ""], [second, ""], ["matmul", "B"]),
            *(["parallel_for", around] for around in (first, second, "")),
        ]
    )


def test_a_type_that_did_not_fit_into_the_ring_is_recorded_later(run):
    types, lost = run(
        LOAD
        + NESTED
        + """
with accel_magic.trace("openvino:layers", buffer=0.01) as t:
    for _ in range(200): several()
    time.sleep(0.5)
    several()
types = t.result.events.function.astype(str)
answer([sorted(set(types[types.str.endswith("::execute")])), int(t.result.lost)])
"""
    )
    assert types == ["Convolution::execute", "Eltwise::execute", "Pooling::execute"]
    assert lost > 0


def test_tasks_that_the_user_asks_for_are_all_recorded(run):
    recorded = run(
        LOAD
        + NESTED
        + """
with accel_magic.trace("itt:tbb:*", "itt:ov::op::cpu::exec:*", "openvino") as t: several()
answer([int((t.result.events.function == name).sum()) for name in ("parallel_for", "Convolution::execute")])
"""
    )
    assert recorded == [80, 20]
