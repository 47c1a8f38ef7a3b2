"""Patched functions keep their behaviour, and their hits are those that the programs count."""

import pytest

pytestmark = pytest.mark.component

FUNCTIONS = (
    "by_lea", "by_memory", "by_push", "by_nops", "by_global", "by_branch", "by_call", "begins_with_call"
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("uprobe", "count"), ("uprobe", "events"), ("latency:uprobe", "count"), ("latency:uprobe", "events")],
)
def test_calls_of_8_threads_are_counted_exactly(run, kind, mode):
    counted = run(f"""
found = {{}}
for name in {FUNCTIONS}:
    with patched(({kind!r}, name), mode={mode!r}) as t:
        called = threads(name, 8, 30000)
    r = t.result
    measured = int(r.latency["count"].sum()) if len(r.latency) else called
    found[name] = [called, hits(t)[name], measured, r.recorded + r.lost if {mode!r} == "events" else called,
                   r.probes["way"].tolist()]
answer(found)
""")

    assert counted == {name: [240_000] * 4 + [["patched"]] for name in FUNCTIONS}


def test_a_function_that_is_shorter_than_a_jump_is_counted(run):
    assert run("""
with patched(("uprobe", "tiny")) as t:
    for _ in range(100):
        WORK.tiny()
answer(hits(t))
""") == {"tiny": 100}


def test_registers_flags_and_vectors_are_those_of_the_caller_and_of_the_function(run):
    assert (
        run("""
import random
different = []
for kind in ("uprobe", "latency:uprobe", "uretprobe"):
    for trial in range(50):
        before = bytearray(random.randbytes(112 + 16 * 32))
        plain, traced = bytearray(len(before)), bytearray(len(before))
        arguments = [address("keeps_registers"), (ctypes.c_char * len(before)).from_buffer(before)]
        WORK.call_with.argtypes = [ctypes.c_void_p] * 3
        WORK.call_with(arguments[0], arguments[1], (ctypes.c_char * len(before)).from_buffer(plain))
        with patched((kind, "keeps_registers")) as t:
            WORK.call_with(arguments[0], arguments[1], (ctypes.c_char * len(before)).from_buffer(traced))
        if traced != plain or sum(hits(t).values()) != 1:
            different.append([kind, trial])
answer(different)
""")
        == []
    )


def test_arguments_in_registers_and_on_the_stack_and_results_of_any_kind(run):
    assert run("""
with patched(("latency:uprobe", "many"), args="a=arg0:u64,f=arg5:u64,g=arg6:u64") as t:
    value = WORK.call_many()
event = t.result.events.iloc[0]
answer([value, int(event.a), int(event.f), int(event.g)])
""") == [36.75, 1, 6, 7]


def test_exceptions_pass_through_measured_calls(run):
    told = run("""
with patched(("latency:uprobe", "throws"), ("latency:uprobe", "rethrows"), ("latency:uprobe", "catches"),
             ("latency:uprobe", "returns"), library=THROWS_PATH) as t:
    right = THROWS.throw_often(2000, 4)
answer([right, hits(t), t.result.latency["unfinished"].droplevel("probe").to_dict()])
""")

    frames = sum(at % 6 + 1 for at in range(2000)) * 4
    assert told == [
        8000,
        {"throws": frames, "rethrows": 8000, "catches": 8000, "returns": 8000},
        {"throws": frames, "rethrows": 8000, "catches": 0, "returns": 0},
    ]


def test_longjmp_cancellation_and_exit_of_a_thread_leave_calls_unfinished(run):
    assert run("""
with patched(("latency:uprobe", "jumps"), ("latency:uprobe", "waits"), ("latency:uprobe", "leaves")) as t:
    done = [WORK.jump_often(1000), WORK.cancel_and_exit()]
r = t.result
answer([done, hits(t), int(r.latency["count"].sum()), r.latency["unfinished"].droplevel("probe").to_dict()])
""") == [
        [1000, 2],
        {"jumps": 4000, "waits": 1, "leaves": 1},
        0,
        {"jumps": 4000, "waits": 1, "leaves": 1},
    ]


def test_coroutines_return_in_another_order_than_they_were_called(run):
    assert run("""
with patched(("latency:uprobe", "yields")) as t:
    value = WORK.coroutines(50)
answer([value, hits(t), int(t.result.latency["count"].sum())])
""") == [50 * sum(range(1, 21)), {"yields": 1000}, 1000]


def test_recursion_beyond_what_can_be_measured_is_counted_and_reported(run):
    assert run("""
with patched(("latency:uprobe", "recurses")) as t:
    depth = WORK.recurses(500)
r = t.result
answer([depth, hits(t), int(r.latency["count"].sum()), int(r.recording.unpaired.sum())])
""") == [500, {"recurses": 501}, 127, 374]


def test_hits_of_signal_handlers_are_counted(run):
    handled, told, in_handler = run("""
with patched(("latency:uprobe", "by_memory"), ("latency:uprobe", "in_handler")) as t:
    handled = WORK.with_timer(address("by_memory"), 2000000)
answer([handled, hits(t)["by_memory"], hits(t)["in_handler"]])
""")

    assert handled > 5
    assert (told, in_handler) == (2_000_000, handled)


def test_forked_children_count_and_programs_do_not_inherit_anything(run):
    assert run("""
with patched(("latency:uprobe", "by_lea")) as t:
    for child in range(3):
        pid = os.fork()
        if not pid:
            for at in range(100 + child):
                WORK.by_lea(at, 1)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    WORK.by_lea(1, 2)
    assert subprocess.run(["/bin/true"]).returncode == 0
r = t.result
notes = [note for note in r.recording.notes if "true" in note]
answer([hits(t), int(r.latency["count"].sum()), sorted(r.events.groupby("pid").size()), len(notes)])
""") == [{"by_lea": 304}, 304, [1, 100, 101, 102], 1]


def test_programs_that_are_started_count_too_if_that_is_asked_for(run, programs):
    dynamic, static = programs
    assert run(
        f"""
DYNAMIC, STATIC = {str(dynamic)!r}, {str(static)!r}
"""
        """
environment = dict(os.environ)
with patched(("latency:uprobe", "by_lea"), children=True, args="n=arg0:u64") as t:
    for _ in range(2):
        subprocess.run([DYNAMIC, "1000"], check=True)
    subprocess.run([STATIC], check=True)
    subprocess.run([DYNAMIC, "10"], env={}, check=True)
    subprocess.run([sys.executable, "-c", "import ctypes"], check=True)
    WORK.by_lea(1, 2)
r = t.result
answer([hits(t), int(r.latency["count"].sum()), sorted(r.events.groupby("pid").size().tolist()),
        len(set(r.events["comm"])), sorted(r.recording.notes), environment == dict(os.environ)])
"""
    ) == [
        {"by_lea": 2001},
        2001,
        [1, 1000, 1000],
        2,
        [
            "dynamic (1 of 3) was started and is not traced: it was started with an environment of its own",
            "python was started and is not traced: it has not loaded any of the functions",
            "static was started and is not traced: it is linked statically",
        ],
        True,
    ]


def test_a_forked_child_can_have_its_own_trace_of_the_same_functions(run):
    assert run("""
with patched(("uprobe", "by_lea"), mode="count") as t:
    WORK.by_lea(1, 2)
receive, send = os.pipe()
with patched(("uprobe", "by_lea"), mode="count") as outer:
    WORK.by_lea(1, 2)
    pid = os.fork()
    if not pid:
        found = []
        for kind in ("uprobe", "latency:uprobe"):
            with patched((kind, "by_lea"), mode="count") as inner:
                called = threads("by_lea", 3, 1000)
            found.append(hits(inner)["by_lea"] - called)
        os.write(send, json.dumps(found).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    WORK.by_lea(1, 2)
answer([hits(t), hits(outer), json.loads(os.read(receive, 100))])
""") == [{"by_lea": 1}, {"by_lea": 2}, [0, 0]]


def test_a_forked_child_that_outlives_the_trace_counts_in_no_later_one(run):
    assert run("""
begun, ended = os.pipe()
with patched(("uprobe", "by_lea")) as t:
    pid = os.fork()
    if not pid:
        os.read(begun, 1)
        for at in range(1000):
            WORK.by_lea(at, 1)
        os._exit(0)
with patched(("uprobe", "by_memory")) as other:
    os.write(ended, b"x")
    os.waitpid(pid, 0)
    WORK.by_memory(1, 2)
answer([hits(t), hits(other)])
""") == [{"by_lea": 0}, {"by_memory": 1}]


def test_filters_and_columns_are_those_of_breakpoints(run):
    told = run("""
text = ctypes.create_string_buffer(b"a text that is longer than sixty-four characters, and therefore cut at some place")
values = (ctypes.c_int32 * 2)(3, -7)
WORK.reads.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
def calls():
    for at in range(50):
        WORK.by_lea(at, 3)
    WORK.reads(text, values)
    WORK.reads(None, values)
found = []
text_of_filter = "arg0 > 20 and retval % 2 == 0 and not arg0 in (25, 27)"
with patched(("latency:uprobe", "by_lea"), filter=text_of_filter, args="n=arg0:u8") as t:
    calls()
found.append([hits(t), t.result.events["n"].tolist(), t.result.events["retval"].astype(int).tolist()])
with patched(("uprobe", "reads"), args="t=arg0:str,second=arg1[4]:s32") as t:
    calls()
found.append([t.result.events["t"].tolist(), t.result.events["second"].astype(int).tolist()])
with patched(("uretprobe", "reads"), filter="retval < 0") as t:
    calls()
found.append(t.result.events["retval"].astype(int).tolist())
answer(found)
""")

    even = [at for at in range(21, 50) if (at + 3) % 2 == 0 and at not in (25, 27)]
    assert told == [
        [{"by_lea": len(even)}, even, [at + 3 for at in even]],
        [["a text that is longer than sixty-four characters, and therefore", ""], [-7, -7]],
        [-7, -1],
    ]


def test_stacks_lead_from_the_function_to_the_python_code(run):
    entered, returned = run("""
def user_code():
    for _ in range(10):
        WORK.by_call(1, 2)
found = []
for kind in ("uprobe", "latency:uprobe"):
    with patched((kind, "by_memory"), stacks="user,python") as t:
        user_code()
    (stack,) = t.result.profile().stacks.itertuples()
    found.append([[frame.name for frame in stack.frames], int(stack.hits)])
answer(found)
""")

    assert (entered[1], returned[1]) == (10, 10)
    assert entered[0][-2:] == ["by_call", "by_memory"]
    assert {"user_code", "ffi_call"} < set(entered[0])
    assert returned[0] == entered[0]


def test_nothing_is_patched_before_after_and_on_failure(run):
    assert run("""
def code():
    start = address("by_lea")
    return ctypes.string_at(start & ~4095, 4096)
def mapped():
    return [line for line in open("/proc/self/maps") if " r-xp" in line and WORK_PATH in line]
plain = code()
seen = []
with patched(("uprobe", "by_lea")) as t:
    seen.append(code() == plain)
seen.append(code() == plain)
try:
    with patched(("uprobe", "by_lea")):
        raise KeyboardInterrupt
except KeyboardInterrupt:
    pass
seen.append(code() == plain)
seen.append(not any("rwx" in line for line in open("/proc/self/maps")))
answer(seen)
""") == [False, True, True, True]


@pytest.mark.parametrize("below", [0, 8])
def test_threads_within_replaced_instructions_continue(run, below):
    """Also where the memory below the library is used, so that the jumps have other bytes than breakpoints."""
    held = f"range({below})"
    script = """
import mmap
from accel_magic.patching import patched_functions
held = [mmap.mmap(-1, 1 << 30, mmap.MAP_PRIVATE | 0x4000, mmap.PROT_READ) for _ in HELD]
WORK.begin_threads(address("by_slow"), 4, 0)
for task in os.listdir("/proc/self/task"):
    if open(f"/proc/self/task/{task}/status").read().split("State:\\t")[1][0] == "R" and int(task) != os.getpid():
        os.sched_setscheduler(int(task), os.SCHED_IDLE, os.sched_param(0))
hit = 0
trials = 0
control = patched_functions.memory_of_this_process().area.control
end = time.monotonic() + 120
while trials < 100 or not (control["traps"] and hit) and time.monotonic() < end:
    trials += 1
    with patched(("uprobe" if trials % 2 else "latency:uprobe", "by_slow"), mode="count") as t:
        sum(range(2000))
    hit += hits(t)["by_slow"]
called = WORK.end_threads(4)
answer([hit > 0, called < 0, int(control["traps"])])
"""
    hit, wrong, traps = run(script.replace("HELD", held))

    assert (hit, wrong) == (True, False)
    assert traps > 0


def test_places_are_found_beside_memory_that_fills_the_addresses_below_or_above(run):
    assert (
        run("""
import mmap
held = [mmap.mmap(-1, 1 << 30, mmap.MAP_PRIVATE | 0x4000, mmap.PROT_READ) for _ in range(8)]  # below the library
library = WORK_PATH.replace("libwork", "liblate")
import shutil
shutil.copy(WORK_PATH, library)
late = ctypes.CDLL(library)  # they are above this one
found = []
for path, functions in ((WORK_PATH, WORK), (library, late)):
    for name in ("by_lea", "by_push", "by_memory", "by_slow"):
        with patched(("latency:uprobe", name), library=path) as t:
            for at in range(10):
                getattr(functions, name)(at, 1)
        found.append([t.result.probes["way"].tolist(), t.result.hits])
answer(found)
""")
        == [[["patched"], 10]] * 8
    )


def test_a_handler_that_leaves_a_probe_by_longjmp_does_not_keep_the_thread_busy(run):
    found = run("""
WORK.left_by_handlers.restype = ctypes.c_long
WORK.left_by_handlers.argtypes = [ctypes.c_void_p, ctypes.c_long]
with patched(("latency:uprobe", "by_lea"), ("uprobe", "in_handler"), mode="count") as t:
    done = WORK.left_by_handlers(address("by_lea"), 300)
    before = done
    for at in range(1000):
        WORK.by_lea(at, 1)
r = t.result
answer([hits(t)["in_handler"], hits(t)["by_lea"] - done, int(r.recording.unpaired.sum()), done])
""")

    assert found[0] == 300
    assert 1000 <= found[1] <= 1300
    assert found[2] <= 300
    assert found[3] > 1000


@pytest.mark.parametrize("kind", ["uprobe", "latency:uprobe"])
def test_the_caller_is_found_from_each_instruction_of_a_probe(run, kind):
    result, in_range, found = run(f"""
WORK.step.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_void_p]
WORK.step.restype = ctypes.c_long
steps, found = ctypes.c_long(), ctypes.c_long()
with patched(({kind!r}, "by_push")) as t:
    library = [line.split("-") for line in open("/proc/self/maps") if "patching" in line and "r-xp" in line][0]
    start, end = int(library[0], 16), int(library[1].split()[0], 16)
    WORK.by_push(1, 2)  # takes the thread's part
    result = WORK.step(address("by_push"), start, end, ctypes.byref(steps), ctypes.byref(found))
answer([result, steps.value, found.value])
""")

    assert result == 6
    assert in_range > 30
    assert found == in_range


def test_memory_that_was_written_to_may_not_become_executable(run):
    """As with systemd's MemoryDenyWriteExecute: the pages are then those of a memory file."""
    told = run("""
PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
with patched(("uprobe", "by_memory")) as t:  # what ctypes needs is loaded
    WORK.by_memory(1, 2)
refused = ctypes.CDLL(None).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0)
found = []
for _ in range(3):
    with patched(("latency:uprobe", "by_push"), ("uprobe", "by_lea")) as t:
        for at in range(10):
            WORK.by_push(at, 1)
            WORK.by_lea(at, 1)
    found.append(hits(t))
answer([refused, found])
""")
    if told[0]:
        pytest.skip("this kernel cannot refuse that")

    assert told[1] == [{"by_push": 10, "by_lea": 10}] * 3


def test_a_process_that_is_debugged_is_not_patched(run):
    assert "is debugging this one" in run("""
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long] * 4
libc.prctl(0x59616d61, ctypes.c_ulong(-1 & (1 << 64) - 1), 0, 0, 0)  # any process may, if Yama asks
SEIZE, parent = 0x4206, os.getpid()
ready, attached = os.pipe()
done, leave = os.pipe()
debugger = os.fork()
if not debugger:
    os.write(attached, b"y" if libc.ptrace(SEIZE, parent, 0, 0) == 0 else b"n")
    os.read(done, 1)
    os._exit(0)
told = "is debugging this one (not tried)"
if os.read(ready, 1) == b"y":
    try:
        patched(("uprobe", "by_lea")).__enter__()
        told = "patched"
    except accel_magic.AccelMagicError as error:
        told = str(error)
os.write(leave, b"x")
os.waitpid(debugger, 0)
answer(told)
""")


def test_importing_a_library_that_copies_stacks_ends_measuring(run):
    assert run("""
import types, sys, importlib.abc, importlib.machinery
class Loader(importlib.abc.Loader):
    def create_module(self, spec): return types.ModuleType("greenlet")
    def exec_module(self, module): pass
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec("greenlet", Loader()) if name == "greenlet" else None
sys.meta_path.append(Finder())
with patched(("latency:uprobe", "by_lea")) as t:
    WORK.by_lea(1, 2)
    import greenlet
    WORK.by_lea(1, 2)
r = t.result
answer([hits(t), int(r.latency["count"].sum()), any("copies stacks" in note for note in r.recording.notes)])
""") == [{"by_lea": 2}, 1, True]


def test_all_functions_of_libraries_at_once_leave_inferences_as_they_are(run):
    same, patched, hit, timed, hits_, unpaired = run("""
import accel_magic
import openvino as ov
from openvino import opset13 as ops
x = ops.parameter([1, 3, 32, 32], np.float32)
weights = ops.constant(np.random.default_rng(1).random((8, 3, 3, 3), np.float32))
model = ov.Model([ops.relu(ops.convolution(x, weights, [1, 1], [0, 0], [0, 0], [1, 1]))], [x])
core = ov.Core()
compiled = core.compile_model(model, "CPU")
data = np.random.default_rng(2).random((1, 3, 32, 32), np.float32)
right = compiled(data)[0].copy()
same = []
def infer():
    request = compiled.create_infer_request()
    for _ in range(20):
        same.append(bool((request.infer({0: data})[0] == right).all()))
    try:
        core.read_model("/nowhere.xml")
    except RuntimeError:
        same.append(True)
everything = [f"latency:uprobe:{library}:*" for library in ("libc", "libtbb", "libstdc++")]
with trace(*everything, uprobes="patched", max_events=10**8) as t:
    threads_ = [threading.Thread(target=infer) for _ in range(4)]
    [thread.start() for thread in threads_]
    [thread.join() for thread in threads_]
    child = os.fork()
    if not child:
        os._exit(len([str(at) for at in range(7)]))
    same.append(os.waitpid(child, 0)[1] == 7 << 8)
    same.append(subprocess.run(["/bin/echo", "x"], capture_output=True).stdout == b"x\\n")
same.append(bool((compiled(data)[0] == right).all()))
r = t.result
answer([[len(same), all(same)], len(r.probes), int((r.counts["hits"] > 0).sum()), int(r.latency["count"].sum()),
        r.hits, int(r.recording.unpaired.sum())])
""")

    assert same == [87, True]
    assert patched > 6000
    assert hit > 100
    assert 0 <= hits_ - timed - unpaired < 0.01 * hits_


def test_a_library_that_is_unloaded_in_the_cell_stays_until_its_end(run):
    assert (
        run("""
import _ctypes, shutil
copy = WORK_PATH.replace("libwork", "libcopy")
def is_loaded():
    return any(copy in line and "--p " in line for line in open("/proc/self/maps"))
found = []
for _ in range(3):
    shutil.copy(WORK_PATH, copy)
    library = ctypes.CDLL(copy)
    with patched(("latency:uprobe", "by_memory"), library=copy) as t:
        library.by_memory(1, 2)
        _ctypes.dlclose(library._handle)
        loaded = is_loaded()
    found.append([hits(t), loaded, is_loaded()])
answer(found)
""")
        == [[{"by_memory": 1}, True, False]] * 3
    )


def test_a_process_that_copies_stacks_has_no_measured_calls(run):
    told = run("""
import types
sys.modules["greenlet"] = types.ModuleType("greenlet")
with patched(("uprobe", "by_lea")) as t:
    WORK.by_lea(1, 2)
try:
    patched(("latency:uprobe", "by_lea")).__enter__()
except accel_magic.AccelMagicError as error:
    told = str(error)
answer([hits(t), told])
""")

    assert told[0] == {"by_lea": 1}
    assert "greenlet copies stacks" in told[1]


def test_a_foreign_handler_of_traps_and_a_thread_without_them_are_respected(run):
    told = run("""
found = []
signal.signal(signal.SIGTRAP, lambda *_: None)
try:
    patched(("uprobe", "by_lea")).__enter__()
except accel_magic.AccelMagicError as error:
    found.append(str(error))
signal.signal(signal.SIGTRAP, signal.SIG_DFL)
go = threading.Event()
def busy():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTRAP])
    while not go.is_set():
        pass
thread = threading.Thread(target=busy)
thread.start()
time.sleep(0.05)
try:
    with patched(("uprobe", "by_lea")) as t:
        pass
except accel_magic.AccelMagicError as error:
    found.append(str(error))
go.set()
thread.join()
with patched(("uprobe", "by_lea")) as t:
    WORK.by_lea(1, 2)
found.append(hits(t))
answer(found)
""")

    assert "the process has a handler of SIGTRAP" in told[0]
    assert "runs with SIGTRAP or SIGILL blocked" in told[1] or len(told) == 2
    assert told[-1] == {"by_lea": 1}
