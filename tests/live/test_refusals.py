"""Invalid input: each mistake is a typed error with a fix, and nothing is attached."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_magic import AccelMagicError, MachineError, ProbeError, ProgramError, RecordingError, trace
from accel_magic.api.trace_options import Options
from accel_magic.kernel import features
from accel_magic.kernel.attach.plan_source import generate
from accel_magic.magics.ktrace_magic import parse
from accel_magic.magics.magic_line import HelpRequested
from tests.support.errors import raises
from tests.support.thorough import THOROUGH

pytestmark = pytest.mark.live

GETPPID = "t:syscalls:sys_enter_getppid"


@pytest.mark.parametrize(
    ("probes", "options", "code", "value"),
    [
        ((), {}, "probe.none-given", ""),
        (("",), {}, "probe.bad-syntax", ""),
        (("nonsense",), {}, "probe.bad-syntax", "nonsense"),
        (("tracepoin:syscalls:sys_enter_read",), {}, "probe.unknown-kind", "tracepoint"),
        (("t:syscalls",), {}, "probe.bad-syntax", ""),
        (("t:syscals:sys_enter_read",), {}, "probe.no-match", "syscalls"),
        (("t:syscalls:sys_enter_getppidd",), {}, "probe.no-match", "sys_enter_getppid"),
        (("uprobe:libc:mallocc",), {}, "probe.no-match", "malloc"),
        (("uprobe:libnowhere:f",), {}, "probe.no-library", "libnowhere"),
        (("uprobe:/nowhere/lib.so:f",), {}, "probe.no-file", "/nowhere/lib.so"),
        (("uprobe:/etc/passwd:f",), {}, "probe.not-elf", "/etc/passwd"),
        (("uprobe:/tmp:f",), {}, "probe.not-a-file", ""),
        (("latency:uretprobe:libc:malloc",), {}, "probe.no-duration", "latency"),
        (("latency:t:sched:sched_switch",), {}, "probe.no-duration", ""),
        (("!t:syscalls:sys_enter_read",), {}, "probe.only-exclusions", ""),
        ((GETPPID, "!t:syscalls:*"), {}, "probe.all-excluded", ""),
        ((GETPPID,), {"filter": "no_such == 1"}, "filter.invalid", "no_such"),
        ((GETPPID,), {"filter": "pid = 1"}, "filter.invalid", "=="),
        ((GETPPID,), {"filter": "retval == 1"}, "filter.invalid", "retval"),
        ((GETPPID,), {"filter": "__import__('os')"}, "filter.invalid", "Call"),
        ((GETPPID,), {"filter": "pid == 1); return 0; //"}, "filter.invalid", ""),
        (("uprobe:libc:malloc",), {"args": "size=arg0"}, "capture.bad-syntax", "arg0"),
        (("uprobe:libc:malloc",), {"args": "size=arg12:u64"}, "capture.no-source", "arg12"),
        (("uprobe:libc:malloc",), {"args": "size=arg0:float"}, "capture.no-type", "float"),
        (("uprobe:libc:malloc",), {"args": "pid=arg0:u64"}, "capture.name-taken", "pid"),
        (("uprobe:libc:malloc",), {"args": "a=arg0:u64,a=arg1:u64"}, "capture.name-twice", ""),
        (("uprobe:libc:malloc",), {"args": "r=retval:u64"}, "capture.not-here", "retval"),
        ((GETPPID,), {"scope": "everybody"}, "scope.unknown", "everybody"),
        ((GETPPID,), {"scope": 4194303}, "scope.no-process", ""),
        ((GETPPID,), {"scope": -1}, "scope.unknown", "-1"),
        ((GETPPID,), {"mode": "fast"}, "option.unknown-value", "fast"),
        ((GETPPID,), {"max_events": 0}, "option.max-events", ""),
        ((GETPPID,), {"duration": -1}, "option.duration", ""),
        ((GETPPID,), {"duration": float("nan")}, "option.duration", ""),
        ((GETPPID,), {"buffer": 0}, "option.buffer", ""),
        ((GETPPID,), {"buffer": 1e9}, "option.buffer", ""),
        ((GETPPID,), {"buffer": float("nan")}, "option.buffer", ""),
    ],
)
def test_bad_input_is_a_typed_error_with_a_fix_and_attaches_nothing(probes, options, code, value, monkeypatch):
    monkeypatch.setattr("accel_magic.engine.session.attach", lambda *_, **__: pytest.fail("attached"))
    with raises(code, ProbeError) as caught, trace(*probes, **options):
        pytest.fail("the block must not run")

    assert caught.value.what
    assert caught.value.fix
    assert value in str(caught.value)


def test_a_usdt_probe_missing_in_libc_is_an_error():
    with pytest.raises(ProbeError) as caught, trace("usdt:libc:nobody:nothing"):
        pytest.fail("the block must not run")

    assert caught.value.code in ("probe.no-usdt", "probe.no-match")  # some builds of libc have no USDT probes
    assert caught.value.fix


def test_an_unknown_keyword_argument_is_rejected_by_name():
    with pytest.raises(TypeError, match="colour"):
        trace(GETPPID, colour="red")


@pytest.mark.skipif(features.has_kprobes(), reason="this kernel has kprobes")
@pytest.mark.parametrize("probe", ["kprobe:vfs_read", "kretprobe:vfs_*", "latency:kprobe:vfs_read", "intel_vpu:ivpu_*"])
def test_a_kernel_without_kprobes_is_an_error_that_suggests_alternatives(probe, monkeypatch):
    monkeypatch.setattr("accel_magic.engine.session.attach", lambda *_, **__: pytest.fail("attached"))
    with raises("kernel.no-kprobes", MachineError) as caught, trace(probe):
        pytest.fail("the block must not run")

    assert "CONFIG_KPROBES" in caught.value.why
    assert "tracepoint" in caught.value.fix
    assert ("NPU lab" in caught.value.fix) == (probe == "intel_vpu:ivpu_*")


FEW_DESCRIPTORS = """
import collections, os, resource, sys, threading
import accel_magic
from accel_magic.kernel.bcc import compiler
from accel_magic.recording.reader import reader_client

def limit(descriptors):
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

def closed():
    # Descriptors of an ended trace may still be closed by a thread.
    for thread in threading.enumerate():
        if thread.name == "accel_magic detach":
            thread.join()

ENOUGH = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
kinds = {
    "trace": lambda: accel_magic.trace("t:syscalls:sys_enter_getppid", "uprobe:libc:atoi"),
    "stacks": lambda: accel_magic.trace("t:syscalls:sys_enter_getppid", stacks=True),
    "many": lambda: accel_magic.trace("t:syscalls:sys_enter_getppid", "t:sched:*", "t:irq:*", "t:kmem:*", scope="self"),
    "program": lambda: accel_magic.trace_program(sys.argv[1]),
}
for name, make in kinds.items():
    limit(ENOUGH)
    with make() as t:  # after one-time imports and process starts
        os.getppid()
    seen = collections.Counter()
    for more in range(1, 40, int(sys.argv[2])):
        if more % 13 == 0:  # the helpers must be restarted
            reader_client.end()
            compiler.stop()
        closed()
        limit(len(os.listdir("/proc/self/fd")) - 1 + more)
        try:
            with make() as t:
                os.getppid()
        except accel_magic.AccelMagicError as error:
            seen[error.code] += 1
        else:
            if name != "program":
                assert t.result.counts["hits"].droplevel("probe")["sys_enter_getppid"] == 1, t.result
            seen["traced"] += 1
        limit(ENOUGH)
        t = None
    with accel_magic.trace("t:syscalls:sys_enter_getppid") as t:
        os.getppid()
    assert t.result.hits == 1
    print(name, *sorted(seen))
"""


def test_running_out_of_descriptors_is_a_typed_error_and_counts_stay_correct(python, tmp_path):
    program = tmp_path / "count.bpf.c"
    program.write_text(
        "BPF_HASH(counts, u32, u64);\nBPF_RINGBUF_OUTPUT(out, 8);\n"
        "TRACEPOINT_PROBE(syscalls, sys_enter_getppid) { u32 key = 0; counts.increment(key); u64 v = 1;"
        " out.ringbuf_output(&v, sizeof(v), 0); return 0; }\n"
    )
    printed = python(FEW_DESCRIPTORS, program, 3 if THOROUGH else 6, timeout=280)

    assert printed.splitlines() == [
        "trace machine.too-many-files traced",
        "stacks machine.too-many-files traced",
        "many machine.too-many-files",
        "program machine.too-many-files traced",
    ]


MANY_FILES = """
import os, resource, time
from accel_magic import Options, Trace

resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
kept = [open(os.devnull) for _ in range(1200)]  # select(2) takes no descriptor above 1,023
seen = []
t = Trace(("t:syscalls:sys_enter_getppid",), Options())
t.prepare()
t.attach(seen.extend)
t.go()
os.getppid()
end = time.monotonic() + 60
while not seen and time.monotonic() < end:
    time.sleep(0.01)
result = t.stop()
print(result.counts["hits"].sum(), result.recorded, result.lost, bool(seen))
"""


def test_a_process_with_more_than_a_thousand_open_files_traces_and_sees_live_counters(python):
    assert python(MANY_FILES).split() == ["1", "1", "0", "True"]


def test_a_damaged_or_foreign_recording_is_a_typed_error(tmp_path):
    import accel_magic

    path = tmp_path / "recording.parquet"
    with trace(GETPPID, save=path):
        pass
    whole = path.read_bytes()
    for name, content in (("cut", whole[:-100]), ("foreign", b"PAR1 something else PAR1"), ("empty", b"")):
        bad = tmp_path / f"{name}.parquet"
        bad.write_bytes(content)
        for use in (accel_magic.open, accel_magic.replay):
            with pytest.raises(RecordingError) as caught:
                use(bad)
            assert caught.value.fix
    with raises("recording.not-found", RecordingError):
        accel_magic.replay(tmp_path / "nowhere.parquet")


def test_programs_rejected_by_the_verifier_are_shown_with_the_offending_lines():
    from accel_magic.kernel import bpf_syscalls
    from accel_magic.kernel.load import relocation

    # r0 = *(u64 *)(r1 + 32512); exit: no tracepoint record is that long.
    code = bytes.fromhex("7910007f00000000") + bytes.fromhex("9500000000000000")
    with raises("program.verifier-refused", ProgramError) as caught:
        relocation.load(bpf_syscalls.PROG_TRACEPOINT, {"am_refused": code}, {}, name="am_refused")

    assert "am_refused" in caught.value.what
    assert "invalid bpf_context access off=32512" in caught.value.why
    assert caught.value.fix


words = st.one_of(
    st.sampled_from(
        [
            "-o",
            "--mode",
            "--scope",
            "--filter",
            "--args",
            "--max-events",
            "--duration",
            "--buffer",
            "--live",
            "--no-live",
            "--save",
            "--dry-run",
            "--program",
            "--replay",
            "--speed",
            "--run",
            "count",
            "events",
            "auto",
            "self",
            "all",
            "1",
            "0",
            "-1",
            "x=arg0:u64",
            "t.parquet",
            "'pid==1'",
            "\"comm=='a'\"",
        ]
    ),
    st.sampled_from(
        [
            GETPPID,
            "t:syscalls:sys_enter_get*",
            "latency:t:syscalls:sys_enter_read",
            "uprobe:libc:mallo?",
            "latency:uprobe:libc:malloc",
            "!uprobe:libc:*",
            "usdt:libc:*:*",
            "kprobe:vfs_*",
            "t:sched:*",
            "uretprobe:libc:usleep",
        ]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
    st.text("abcdefgh:*?[]!-'\"\\ =<>&|()0123456789", max_size=24),
)


@given(st.lists(words, max_size=7).map(" ".join))
def test_malformed_lines_only_raise_typed_errors(line):
    try:
        chosen = parse(line)
        if chosen.common.replay is None and chosen.program is None:
            plan = Options(**chosen.given).plan(chosen.probes)
            text = generate(plan).text
    except HelpRequested:
        return
    except AccelMagicError:
        return
    if chosen.common.replay is None and chosen.program is None:
        assert plan.points
        assert text.isascii()
        assert "\n#include" in text


FILTERS = st.recursive(
    st.sampled_from(["pid", "tid", "cpu", "arg0", "arg1", "0", "1", "-1", "4096", "18446744073709551615", "2**3"]),
    lambda inner: st.builds(
        "({} {} {})".format,
        inner,
        st.sampled_from(
            [
                "+",
                "-",
                "*",
                "/",
                "%",
                "&",
                "|",
                "^",
                "<<",
                ">>",
                "==",
                "!=",
                "<",
                "<=",
                ">",
                ">=",
                "and",
                "or",
                "&&",
                "||",
            ]
        ),
        inner,
    ),
    max_leaves=8,
)


@settings(max_examples=settings.default.max_examples // 3)
@given(FILTERS, st.booleans())
def test_every_accepted_filter_compiles_and_passes_the_verifier(expression, latency):
    probe = "latency:uprobe:libc:atoi" if latency else "uprobe:libc:atoi"
    try:
        with trace(probe, filter=f"{expression} and retval != 3" if latency else expression, buffer=0.25):
            pass
    except ProbeError:
        return


def test_the_shell_of_the_magic_never_runs_anything():
    before = subprocess.run(["ls", "/tmp"], capture_output=True, text=True, check=True).stdout
    for line in ("t:a:b; touch /tmp/am_pwned", "$(touch /tmp/am_pwned)", "`touch /tmp/am_pwned`"):
        with raises("probe.bad-syntax", AccelMagicError):
            Options().plan(parse(line).probes)
    assert "am_pwned" not in before
    assert "am_pwned" not in subprocess.run(["ls", "/tmp"], capture_output=True, text=True, check=True).stdout
