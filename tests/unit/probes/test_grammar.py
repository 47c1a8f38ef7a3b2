from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.errors import ProbeError
from accel_magic.probes.grammar import parse, parse_all
from accel_magic.probes.plan import ProbeSpec
from tests.support.errors import raises


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("intel_vpu:ivpu_*", ("kprobe", "intel_vpu", "ivpu_*")),
        ("intel-vpu:ivpu_*", ("kprobe", "intel_vpu", "ivpu_*")),
        ("kprobe:vfs_read", ("kprobe", "", "vfs_read")),
        ("k:vfs_read", ("kprobe", "", "vfs_read")),
        ("kprobe:xe:xe_*.isra.0", ("kprobe", "xe", "xe_*.isra.0")),
        ("kretprobe:vfs_read", ("kretprobe", "", "vfs_read")),
        ("kr:xe:xe_[a-c]?", ("kretprobe", "xe", "xe_[a-c]?")),
        ("tracepoint:syscalls:sys_enter_ioctl", ("tracepoint", "syscalls", "sys_enter_ioctl")),
        ("t:sched:*", ("tracepoint", "sched", "*")),
        ("uprobe:libc:malloc", ("uprobe", "libc", "malloc")),
        ("u:/usr/lib/libc++.so.1:_ZN*", ("uprobe", "/usr/lib/libc++.so.1", "_ZN*")),
        ("uretprobe:libc:malloc", ("uretprobe", "libc", "malloc")),
        ("ur:c:malloc", ("uretprobe", "c", "malloc")),
        ("profile:hz:99", ("profile", "hz", "99")),
        ("p:hz:9999", ("profile", "hz", "9999")),
        ("offcpu", ("offcpu", "us", "0")),
        ("offcpu:us:0100", ("offcpu", "us", "100")),
    ],
)
def test_each_form_gives_its_kind_target_and_name(text, spec):
    assert parse(text) == ProbeSpec(text, *spec)


@pytest.mark.parametrize("kind", ["usdt", "U"])
def test_usdt_keeps_provider_and_name_apart(kind):
    text = f"{kind}:/usr/bin/python3:python:gc__*"
    assert parse(text) == ProbeSpec(text, "usdt", "/usr/bin/python3", "gc__*", provider="python")


def test_latency_and_exclusion_keep_the_text_as_written():
    assert parse("latency:uprobe:libc:malloc") == ProbeSpec(
        "latency:uprobe:libc:malloc", "uprobe", "libc", "malloc", latency=True
    )
    assert parse("latency:intel_vpu:ivpu_*").kind == "kprobe"
    assert parse("latency:t:syscalls:sys_enter_*").latency
    assert parse("!intel_vpu:ivpu_dbg*") == ProbeSpec(
        "!intel_vpu:ivpu_dbg*", "kprobe", "intel_vpu", "ivpu_dbg*", exclude=True
    )


OTHER_REASONS = {
    "uprbe:libc:malloc": "probe.unknown-kind",
    "latency:kretprobe:vfs_read": "probe.no-duration",
    "latency:ur:libc:malloc": "probe.no-duration",
    "latency:usdt:libc:libc:setjmp": "probe.no-duration",
    "latency:tracepoint:sched:sched_switch": "probe.no-duration",
    "latency:tracepoint:syscalls:*": "probe.no-duration",
    "latency:profile:hz:99": "probe.no-duration",
    "latency:offcpu": "probe.no-duration",
}
"""Codes of texts that have the form of a probe but are invalid."""


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("", "kprobe:"),
        ("malloc", "uprobe:LIBRARY:malloc"),
        ("uprobe:malloc", "uprobe:LIBRARY:FUNCTION"),
        ("uprobe:/opt/a:b/lib.so:malloc", "uprobe:LIBRARY:FUNCTION"),
        ("uprobe::malloc", "uprobe:LIBRARY:FUNCTION"),
        ("tracepoint:sched", "tracepoint:CATEGORY:EVENT"),
        ("kprobe:a:b:c", "kprobe:[MODULE:]FUNCTION"),
        ("kprobe:", "kprobe:[MODULE:]FUNCTION"),
        ("kprobe:vfs read", "kprobe:[MODULE:]FUNCTION"),
        ("usdt:python3:gc", "usdt:LIBRARY:PROVIDER:NAME"),
        ("uprbe:libc:malloc", "did you mean uprobe"),
        ("latency:kretprobe:vfs_read", "latency:kprobe:vfs_read"),
        ("latency:ur:libc:malloc", "latency:uprobe:libc:malloc"),
        ("latency:usdt:libc:libc:setjmp", "latency:uprobe"),
        ("latency:tracepoint:sched:sched_switch", "latency:tracepoint:syscalls:sys_enter_"),
        ("latency:tracepoint:syscalls:*", "latency:tracepoint:syscalls:sys_enter_"),
        ("!latency:uprobe:libc:malloc", "write !uprobe:libc:malloc"),
        ("latency:latency:kprobe:x", "e.g."),
        ("profile", "profile:hz:RATE"),
        ("profile:hz:0", "profile:hz:RATE"),
        ("profile:hz:10000", "profile:hz:RATE"),
        ("profile:hz:-1", "profile:hz:RATE"),
        ("profile:s:1", "profile:hz:RATE"),
        ("latency:profile:hz:99", "write profile:hz:99"),
        ("!profile:hz:99", "remove it"),
        ("offcpu:100", "offcpu[:us:SHORTEST]"),
        ("offcpu:ms:1", "offcpu[:us:SHORTEST]"),
        ("offcpu:us:1_000", "offcpu[:us:SHORTEST]"),
        ("latency:offcpu", "write offcpu"),
        ("!offcpu", "remove it"),
        ("!!kprobe:x", "e.g."),
        ('kprobe:x";system("', "kprobe:[MODULE:]FUNCTION"),
    ],
)
def test_invalid_probes_are_rejected_with_the_correct_form(text, fix):
    with raises(OTHER_REASONS.get(text, "probe.bad-syntax"), ProbeError) as caught:
        parse(text)
    assert fix in caught.value.fix
    assert caught.value.why


def test_several_probes_are_parsed_in_order():
    assert [spec.name for spec in parse_all(["kprobe:a", "!kprobe:b"])] == ["a", "b"]


@pytest.mark.parametrize(("words", "code"), [([], "probe.none-given"), (["!kprobe:a"], "probe.only-exclusions")])
def test_having_nothing_to_trace_is_an_error(words, code):
    with raises(code, ProbeError):
        parse_all(words)


pieces = st.sampled_from(
    ["kprobe", "k", "tracepoint", "uprobe", "ur", "usdt", "latency", "!", ":", "libc", "*", "/a/b", "[", " ", '"', "ü"]
)


@given(st.one_of(st.text(), st.lists(pieces, max_size=9).map("".join)))
def test_any_text_gives_a_spec_or_a_probe_error(text):
    try:
        spec = parse(text)
    except ProbeError:
        return
    assert spec.text == text
    assert spec.name
    assert not set("\"'`; \n\0") & set(spec.name + spec.provider)
    assert parse(spec.text) == spec


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("openvino,npu", "write openvino npu"),
        ("npu:jobs,tracepoint:sched:sched_switch,", "write npu:jobs tracepoint:sched:sched_switch"),
        ("latency:kprobe:vfs_read,!k:vfs_write", "write latency:kprobe:vfs_read !k:vfs_write"),
        ("intel_vpu", "write npu, or kprobe:intel_vpu for a kernel function"),
        ("gpu_sched", "write drm, or kprobe:gpu_sched for a kernel function"),
        ("amdgpuu", "write amdgpu, or kprobe:amdgpuu for a kernel function"),
        ("#comment", "put comments into the code"),
    ],
)
def test_a_line_that_means_presets_is_answered_with_them(word, fix):
    with raises("probe.bad-syntax", ProbeError) as caught:
        parse_all([word])
    assert caught.value.fix == fix


def test_commas_of_cpp_parameters_do_not_separate_probes():
    (spec,) = parse_all(["uprobe:libx:add(std::vector,std::map)"])
    assert spec.name == "add(std::vector,std::map)"
