"""What an ordinary user can trace through the broker, with the values that the traced code counts itself."""

import subprocess
from pathlib import Path

import pytest

from tests.support import users


def test_calls_and_functions_of_the_own_process_are_counted_exactly_with_columns_and_stacks(broker):
    told = broker.run(
        """
def work():
    for _ in range(300): os.getppid()
    for _ in range(200): libc.atoi(b"12")
probes = "latency:tracepoint:syscalls:sys_enter_getppid", "uprobe:libc:atoi"
with accel_magic.trace(*probes, args="text=arg0:str", stacks=True) as t:
    work()
r = t.result
privileged = [line for line in open("/proc/self/status") if line.startswith("Cap")]
answer(r.counts.hits.tolist(), r.lost, len(r.events), r.latency["count"].tolist(), str(r).splitlines()[0],
       sorted(set(r.events.text.dropna())), sorted(set(r.by_stack()["where"].str.split(" ").str[0])),
       all(int(line.split()[1], 16) == 0 for line in privileged), os.getuid())
"""
    )
    hits, lost, events, latencies, headline, texts, where, powerless, uid = told
    assert (hits, lost, events, latencies) == ([300, 200], 0, 500, [300])
    assert headline.endswith("scope self, 1 function patched, through the broker")
    assert (texts, where) == (["12"], ["work"])
    assert (powerless, uid) == (True, users.FIRST)


def test_flame_graphs_have_samples_waits_and_calls(broker):
    told = broker.run(
        """
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(1000))
with accel_magic.flame("tracepoint:syscalls:sys_enter_getppid", off_cpu=True, rate=499) as f:
    spin(0.4); time.sleep(0.3); os.getppid()
threads = f.result.threads
answer(f.result.waits.set_index("reason").total_ns.to_dict().get("sleep"), threads.cpu_ns.max().item(),
       f.result.spans.calls.tolist())
"""
    )
    slept, cpu, calls = told
    assert slept >= 0.29e9
    assert cpu >= 0.3e9
    assert calls == [1]


def test_children_are_in_scope_and_their_breakpoints_are_not_set(broker):
    told = broker.run(
        """
script = "import os, ctypes\\nlibc = ctypes.CDLL(None)\\nfor i in range(40): os.getppid(); libc.atoi(b'1')"
probes = "tracepoint:syscalls:sys_enter_getppid", "uprobe:libc:atoi"
with accel_magic.trace(*probes, filter="", uprobes="kernel") as t:
    subprocess.run([sys.executable, "-c", script], check=True)
    libc.atoi(b"1")
answer(t.result.counts.hits.tolist())
"""
    )
    assert told == [[40, 1]]


REFUSED = {
    '"tracepoint:sched:sched_switch"': "broker.not-allowed",
    '"tracepoint:syscalls:sys_enter_getppid", scope="all"': "broker.not-allowed",
    '"tracepoint:syscalls:sys_enter_getppid", scope=1': "broker.not-allowed",
    '"tracepoint:syscalls:sys_enter_getppid", stacks="kernel"': "broker.not-allowed",
    '"profile:hz:5000"': "broker.limit",
    '"tracepoint:syscalls:*"': "broker.limit",
    '"tracepoint:syscalls:sys_enter_getppid", buffer=1100': "broker.limit",
    '"tracepoint:syscalls:sys_enter_getppid", duration=5': "broker.limit",
    '"tracepoint:syscalls:nothing"': "probe.no-match",
    '"uprobe:libc:nothing"': "probe.no-match",
    '"uprobe:/etc/shadow:*"': "probe.unreadable-file",
    '"tracepoint:syscalls:sys_enter_getppid", filter="pid == `id`"': "filter.invalid",
}


def test_what_is_not_allowed_is_a_typed_error(start):
    broker = start("[limits]\nplaces = 100\nduration_s = 4\n")
    found = broker.run(f"answer(*[{', '.join(f'refused({arguments})' for arguments in REFUSED)}])")
    assert dict(zip(REFUSED, found, strict=True)) == REFUSED


def test_without_the_policys_consent_a_user_is_not_admitted(start):
    broker = start('[users]\nnames = ["somebody"]\n')
    assert broker.run('answer(refused("tracepoint:syscalls:sys_enter_getppid"))') == ["broker.not-admitted"]
    assert {(line["what"], line["why"]) for line in broker.audit()} == {("connect", "user")}


def test_more_traces_at_once_than_allowed_are_refused(start):
    broker = start("[limits]\ntraces = 1\n")
    told = broker.run(
        """
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid"):
    try:
        with accel_magic.flame(sampler="bpf"): pass
    except AccelMagicError as error:
        found = error.code
answer(found)
"""
    )
    assert told == ["broker.too-many-traces"]


@pytest.mark.parametrize(
    ("limit", "rights"),
    [("duration_s = 0.5", ()), ("hits_per_s = 2", ()), ("processor_share = 0.0", ("sys_admin",))],
)
def test_a_trace_that_exceeds_a_limit_ends_and_its_result_says_so(start, limit, rights):
    broker = start(f"[limits]\n{limit}\n", rights=rights)
    told = broker.run(
        """
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", mode="count") as t:
    for _ in range(10): os.getppid()
    time.sleep(2.5)
    for _ in range(1000): os.getppid()
answer(t.result.hits, str(t.result))
"""
    )
    assert told[0] == 10
    name = limit.split()[0]
    assert f"the limit {name} is" in told[1]
    assert [line["why"] for line in broker.audit() if line["what"] == "limit"] == [name]


def test_the_audit_names_user_process_probes_and_hits(start):
    broker = start()
    script = """
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid") as t:
    for _ in range(7): os.getppid()
answer(os.getpid())
"""
    (pid,) = broker.run(script)
    attach, detach = broker.audit()
    assert (attach["uid"], attach["pid"], attach["what"], attach["decision"]) == (users.FIRST, pid, "attach", "allowed")
    assert attach["probes"] == ["tracepoint:syscalls:sys_enter_getppid"]
    assert (detach["what"], detach["trace"], detach["hits"]) == ("detach", attach["trace"], 7)


def test_the_doctor_and_the_status_say_what_the_broker_allows(start):
    broker = start('[probes]\ntracepoints = ["syscalls:*"]\n')
    told = broker.run(
        """
from accel_magic.api.doctor import report
found = report()
privilege = next(check for check in found.checks if check.name == "privilege")
shown = subprocess.run([sys.executable, "-m", "accel_magic", "broker", "status"], capture_output=True, text=True)
answer(found.exit_status, privilege.status, privilege.detail, shown.returncode, shown.stdout)
"""
    )
    status, level, detail, shown, text = told
    assert (status, level, shown) == (0, "ok", 0)
    assert detail.endswith("offcpu, syscalls:*")
    assert 'tracepoints = ["syscalls:*"]' in text


def test_driver_calls_of_gpu_programs_are_recorded_exactly(broker):
    pytest.importorskip("llvmlite", reason="GPU programs need the extra [gpu]")
    source = Path(__file__).parents[1] / "live" / "programs" / "driver.c"
    library = broker.folder / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", library, source], check=True)
    told = broker.run(
        f"""
driver = ctypes.CDLL({str(library)!r})
before = ctypes.c_long.in_dll(driver, "calls").value
with accel_magic.gputrace("kernelcount", device="cpu", host_api="on") as t:
    driver.run_all()
api = t.result.api
answer(len(api), ctypes.c_long.in_dll(driver, "calls").value - before, sorted(set(api.pid)) == [os.getpid()],
       int(api[api.name == "cuMemAlloc"].bytes.iloc[0]), t.result.recording.api_lost)
"""
    )
    assert told[0] == told[1] > 20
    assert told[2:] == [True, 4096, 0]


def test_what_a_preset_only_counts_is_counted_by_thread_without_events(broker):
    told = broker.run(
        """
accel_magic.collect_tasks()
import threading
def work():
    for _ in range(300): os.sched_yield()
with accel_magic.trace("openvino:threads", "openvino:memory") as t:
    thread = threading.Thread(target=work); thread.start(); thread.join()
    work()
r = t.result
(point,) = (point for point in r.plan.points if point.function == "sys_enter_sched_yield")
threads = sorted(row[2:4] for row in r.recording.by_thread.rows if row[0] == point.id)
answer(sorted([os.getpid(), thread.native_id]), threads, len(r.events), str(r).splitlines()[0],
       int(r.counts.loc["openvino:memory", "page_fault_user"].hits) > 0)
"""
    )
    ids, threads, events, headline, faults = told
    assert threads == [[tid, 300] for tid in ids]
    assert (events, faults) == (0, True)
    assert headline.endswith("scope self, through the broker")
