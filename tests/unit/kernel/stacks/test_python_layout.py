import re
import sys
import sysconfig
import threading
from types import CodeType, SimpleNamespace

import pytest

from accel_magic.errors import MachineError
from accel_magic.kernel import btf, own_memory, scope
from accel_magic.kernel.stacks import python_layout
from accel_magic.kernel.stacks import python_layout as python_calibration
from accel_magic.kernel.stacks import python_layout as python_subjects
from accel_magic.kernel.stacks.python_layout import layout, thread_state
from tests.support.errors import raises
from tests.support.paths import ROOT

HEADERS = [ROOT / "bpf" / "kernel" / name for name in ("python_walk.h", "python.h")]
# From offsetof() in C with CPython's internal headers: hops to the newest frame and the offset of the outer run; fields
# of a frame (code, previous, instruction); of a code object (flags, first line, file, qualified name, line table,
# bytecode).
OFFSETS = {
    (3, 11): ((56, 8), 16, (32, 48, 56), (48, 72, 112, 128, 136, 184)),
    (3, 12): ((56, 0), 8, (0, 8, 56), (48, 68, 112, 128, 136, 192)),
    (3, 13): ((72,), None, (0, 8, 56), (48, 68, 112, 128, 136, 200)),
    (3, 14): ((72,), None, (0, 8, 56), (48, 68, 112, 128, 136, 208)),
    (3, 15): ((72,), None, (0, 8, 56), (48, 68, 112, 128, 136, 208)),
}


def test_the_layout_agrees_with_the_interpreters_headers():
    if sys.version_info[:2] not in OFFSETS:
        pytest.skip("its headers have not been looked at")
    found, fields = layout(), layout().frame
    code = found.code
    assert (
        found.hops,
        found.outer,
        (fields.code, fields.previous, fields.instruction),
        (code.flags, code.first_line, code.filename, code.qualname, code.linetable, code.bytecode),
    ) == OFFSETS[sys.version_info[:2]]


def test_a_thread_not_used_for_calibration_is_walked_correctly():
    ready, gate, states = threading.Semaphore(0), threading.Lock(), []

    class Deep:
        def __getattr__(self, name):
            return self.descend(int(name[1:]))

        def descend(self, depth):
            if depth:
                return max(map(self.descend, [depth - 1]))
            states.append(thread_state())
            ready.release()
            with gate:
                return 0

    with gate:
        thread = threading.Thread(target=lambda: Deep().n30)
        thread.start()
        ready.acquire()
        while True:  # until it blocks
            frame, known = sys._current_frames()[thread.ident], []
            while frame is not None:
                known.append((id(frame.f_code), frame.f_lasti))
                frame = frame.f_back
            walked = list(layout().walk(states[0]))
            if len(known) > 30 and walked == known:
                break
            assert threading.main_thread().is_alive()
    thread.join()


def test_thread_states_are_found_from_control_blocks():
    found = []
    threads = [threading.Thread(target=lambda: found.append((threading.get_ident(), thread_state()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [(threading.get_ident(), thread_state())]
    assert [own_memory.words(ident + layout().thread_state, 1) for ident, _ in found] == [(s,) for _, s in found]


def test_every_constant_used_by_the_header_is_defined(monkeypatch):
    monkeypatch.setattr(btf, "member_offset", lambda structure, member: {"thread": 3000, "fsbase": 128}[member])
    monkeypatch.setattr(scope, "kernel_pid", lambda pid: 4711)
    text = "".join(header.read_text(encoding="utf-8") for header in HEADERS)
    used = set(re.findall(r"\bAM_PY_\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)))
    own = set(re.findall(r"#define (AM_PY_\w+)", text))
    lines = layout().defines()
    assert used - own == {line.split()[1] for line in lines}
    assert "#define AM_PY_PID 4711" in lines
    assert "#define AM_PY_FS_BASE 3128" in lines


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((sys, "implementation", SimpleNamespace(name="pypy")), "this is not CPython"),
        ((sysconfig, "get_config_var", lambda name: 1), "free-threaded"),
        ((python_layout.platform, "machine", lambda: "aarch64"), "this is aarch64"),
        ((own_memory, "refusal", lambda: "Operation not permitted"), "Operation not permitted"),
        ((python_subjects, "thread_state", lambda: id(HEADERS)), "no pointers lead from a thread's state"),
        (
            (python_calibration, "threading", SimpleNamespace(**{**vars(threading), "get_ident": lambda: id(HEADERS)})),
            "control block",
        ),
    ],
)
def test_the_error_explains_why_frames_cannot_be_found(monkeypatch, change, why):
    monkeypatch.setattr(*change)
    with raises("stacks.unknown-python", MachineError, match=why):
        layout.__wrapped__()


def test_flags_in_the_low_bits_of_code_pointers_are_ignored(monkeypatch):
    # CPython 3.14 marks borrowed references this way.
    words = own_memory.words

    def marked(address, count):
        return tuple(word | 1 if words(word, 2)[1:] == (id(CodeType),) else word for word in words(address, count))

    found = layout()
    monkeypatch.setattr(own_memory, "words", marked)
    assert layout.__wrapped__() == found


def test_reading_invalid_memory_returns_nothing():
    assert own_memory.read(8, 8) == b""
    assert own_memory.words(1 << 46, 2) == ()
    assert own_memory.read(id(b"abcdefgh") + bytes.__basicsize__ - 1, 8) == b"abcdefgh"
