from __future__ import annotations

from pathlib import Path

import pytest

from accel_magic.probes import file_functions, libraries
from accel_magic.probes.completion import MOST_ANSWERS, complete


@pytest.fixture
def root(kernel_root):
    root = kernel_root()
    for event in ("sched_switch", "sched_wakeup"):
        (root / "sys/kernel/tracing/events/sched" / event).mkdir(parents=True)
    (root / "sys/kernel/tracing/events/skb/kfree_skb").mkdir(parents=True)
    return root


@pytest.mark.parametrize(
    ("word", "answers"),
    [
        ("tr", ["tracepoint:"]),
        ("lat", ["latency:"]),
        ("!lat", []),
        ("prof", ["profile:hz:99", "profile:hz:999"]),
        ("p:", ["p:hz:99", "p:hz:999"]),
        ("offc", ["offcpu", "offcpu:us:100"]),
        ("latency:offc", []),
        ("!p:", []),
        ("latency:k", ["latency:kprobe:", "latency:kretprobe:"]),
        ("!intel", ["!intel_vpu:"]),
        ("intel_vpu:ivpu_o", ["intel_vpu:ivpu_open"]),
        ("kprobe:intel_vpu:ivpu_i", ["kprobe:intel_vpu:ivpu_ioctl"]),
        ("k:vfs_", ["k:vfs_read", "k:vfs_write"]),
        ("kretprobe:in", ["kretprobe:intel_vpu:"]),
        ("tracepoint:s", ["tracepoint:sched:", "tracepoint:skb:"]),
        ("t:sched:sched_", ["t:sched:sched_switch", "t:sched:sched_wakeup"]),
        ("t:nosuch:", []),
        ("uprobe:libc:mallo", ["uprobe:libc:malloc", "uprobe:libc:malloc_info"]),
        ("uprobe:nosuch:", []),
        ("", None),
    ],
)
def test_completions_are_whole_words(root, word, answers):
    found = complete(word, root=root)
    if answers is None:
        assert {"kprobe:", "uprobe:", "tracepoint:", "usdt:", "latency:", "intel_vpu:"} <= set(found)
    elif word.startswith("uprobe:libc"):
        assert set(answers) <= set(found)
    else:
        assert found == answers


def test_mapped_libraries_of_this_process_are_offered(root):
    assert "uprobe:libc:" in complete("uprobe:", root=root)


def test_libraries_are_offered_even_if_the_process_has_hundreds_of_extension_modules(root, monkeypatch):
    files = [Path(f"/python/_extension{number}.cpython-311-x86_64-linux-gnu.so") for number in range(MOST_ANSWERS + 1)]
    monkeypatch.setattr(libraries, "mapped_files", lambda _: [*files, Path("/lib/libc.so.6")])

    found = complete("uprobe:", root=root)

    assert len(found) == MOST_ANSWERS
    assert "uprobe:libc:" in found


def test_paths_are_completed_by_folder(root, tmp_path):
    (tmp_path / "lib.so").touch()
    (tmp_path / "libs").mkdir()
    assert complete(f"uprobe:{tmp_path}/li", root=root) == [f"uprobe:{tmp_path}/lib.so:", f"uprobe:{tmp_path}/libs/"]
    assert complete("uprobe:/nosuch/li", root=root) == []


def test_the_number_of_completions_is_limited(kernel_root):
    root = kernel_root(kallsyms="".join(f"{n:016x} t f{n}\n" for n in range(1, 1000)))
    assert len(complete("k:f", root=root)) == MOST_ANSWERS


def test_unreadable_lists_give_no_completions(tmp_path):
    assert complete("t:", root=tmp_path) == []
    assert complete("k:a", root=tmp_path) == []


def test_symbols_are_read_once_for_many_completions(monkeypatch):
    first = complete("uprobe:libc:")
    monkeypatch.setattr(file_functions, "functions", lambda path: pytest.fail(f"{path} was read again"))
    assert len(first) == MOST_ANSWERS
    assert complete("uprobe:libc:") == first
