"""Resolving stacks of addresses to names: for this process's own code, and for a fake kernel."""

import ast
import ctypes
import io
import mmap
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from accel_magic.kernel import scope
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.stack_table import KERNEL, PYTHON, USER, RawStacks
from accel_magic.kernel.symbols import kallsyms, mappings, resolving
from accel_magic.kernel.symbols import mappings as jit
from accel_magic.kernel.symbols.mappings import Processes
from accel_magic.kernel.symbols.resolving import notes, resolve, without_names
from tests.every_step import lines_per_row

pytestmark = pytest.mark.component

KERNEL_FUNCTIONS = """\
ffffffff81000000 T entry_SYSCALL_64_after_hwframe
ffffffff81000100 T do_syscall_64
ffffffff81000200 T __x64_sys_read
ffffffff81000300 T __traceiter_sys_enter
ffffffff81000400 T bpf_trace_run2
ffffffff81000500 T _etext
"""
ENTRY, SYSCALL, READ, ITERATE, RUN, PROGRAM = (
    0xFFFFFFFF81000010,
    0xFFFFFFFF81000110,
    0xFFFFFFFF81000210,
    0xFFFFFFFF81000310,
    0xFFFFFFFF81000410,
    0xFFFFFFFFC0001234,
)


def raw(*stacks, pid=None):
    """RawStacks from (key, kind, words), in the given order."""
    words = [np.array(words, np.uint64) for _, _, words in stacks]
    return RawStacks(
        np.array([key for key, _, _ in stacks], np.uint64),
        np.array([kind for _, kind, _ in stacks], np.uint8),
        np.cumsum([0, *map(len, words)]),
        np.concatenate([np.zeros(0, np.uint64), *words]),
        None if pid is None else np.full(len(stacks), pid, np.int32),
    )


def shown(table, key):
    row = int(table.rows(np.array([key], np.uint64))[0])
    return [frame.name for frame in table.of(row)]


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Use `text` as the list of the kernel's functions."""

    def use(text):
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/kallsyms").write_text(text)
        read = kallsyms.functions
        monkeypatch.setattr(kallsyms, "functions", lambda: read(tmp_path))

    return use


@pytest.fixture
def code(library, nm):
    """Addresses of a library's functions in this process: {name: (address, size)}; and the library's path."""
    loaded = ctypes.CDLL(str(library))
    base = ctypes.cast(loaded.open_one, ctypes.c_void_p).value - nm(library)["open_one"][0]
    return {name: (base + address, size) for name, (address, size) in nm(library).items()}, str(library)


def test_frames_are_reversed_and_found_by_key(code):
    functions, path = code
    one, two = functions["open_one"][0], functions["_open_two"][0]
    table = resolve(raw((9, USER, [one + 4, two + 6]), (5, USER, [two])), None)

    assert table.keys.tolist() == [5, 9]
    assert table.of(1) == (Frame("also_two", FrameKind.NATIVE, path), Frame("open_one", FrameKind.NATIVE, path))
    assert table.of(0) == (Frame("also_two", FrameKind.NATIVE, path),)
    assert len(table.frames) == 2


def test_cpp_names_are_demangled_in_one_batch(compiled, nm, monkeypatch):
    text = """
    __attribute__((noinline)) int one(int a) __asm__("_ZN7resolve5namedEi");
    __attribute__((noinline)) int two(int a) __asm__("_ZN7resolve5namedEl");
    int one(int a) { return a * 3; }
    int two(int a) { return a * 5; }
    """
    library = compiled(text, "mangled")
    found = {name: address for name, (address, _) in nm(library).items()}
    base = ctypes.cast(ctypes.CDLL(str(library))["_ZN7resolve5namedEi"], ctypes.c_void_p).value
    base -= found["_ZN7resolve5namedEi"]
    asked, learn = [], resolving.learn
    monkeypatch.setattr(resolving, "learn", lambda symbols: asked.append(list(symbols)) or learn(asked[-1]))
    table = resolve(
        raw((1, USER, [base + found["_ZN7resolve5namedEi"], base + found["_ZN7resolve5namedEl"] + 1])), None
    )

    assert shown(table, 1) == ["resolve::named", "resolve::named"]
    assert len(table.frames) == 1
    assert len(asked) == 1


def test_return_addresses_belong_to_the_preceding_call_except_the_innermost(code):
    functions, _ = code
    start, size = functions["open_one"]
    end = start + size  # return address of a call that is the function's last instruction
    table = resolve(raw((1, USER, [start, end])), None)

    assert shown(table, 1) == ["open_one", "open_one"]
    assert shown(resolve(raw((1, USER, [end])), None), 1) != ["open_one"]


def test_a_native_stack_ends_at_the_first_address_that_is_not_code(code):
    functions, _ = code
    one = functions["open_one"][0]
    nothing = id(object())  # memory of this process, but no code
    table = resolve(raw((1, USER, [one, nothing, one]), (2, USER, [0x10, one]), (3, USER, [one, one, 1])), None)

    assert shown(table, 1) == ["open_one"]
    assert shown(table, 2) == ["[unknown code]"]
    assert len(shown(table, 3)) == 2


def test_a_truncated_native_stack_has_a_marker_as_outermost_frame(code, monkeypatch):
    functions, path = code
    one, two = (functions[name][0] + 4 for name in ("open_one", "_open_two"))
    nothing = id(object())
    stacks = replace(raw((1, USER, [one, two, one]), (2, USER, [one, two]), (3, USER, [one, two, nothing])), limit=3)
    table = resolve(stacks, None)

    assert table.of(0) == (
        Frame("[callers beyond 3 frames]", FrameKind.NATIVE),
        Frame("open_one", FrameKind.NATIVE, path),
        Frame("also_two", FrameKind.NATIVE, path),
        Frame("open_one", FrameKind.NATIVE, path),
    )
    assert [len(table.of(row)) for row in (1, 2)] == [2, 2]
    blame, cut = notes(table)
    assert blame.startswith("2 of 3 native stacks do not reach")
    assert cut.startswith("1 of 3 native stacks are cut at 3 frames")
    assert cut.endswith("(to keep more, run sysctl kernel.perf_event_max_stack=6 before the trace)")
    monkeypatch.setattr(resolving, "most_frames", lambda: 3)
    assert notes(table)[1].endswith("unknown")
    assert resolve(replace(stacks, limit=4), None).starts.tolist() == [0, 3, 5, 7]
    assert shown(without_names(stacks, None), 1)[0] == "[callers beyond 3 frames]"


def test_a_complete_stack_is_not_marked_as_truncated(monkeypatch, kernel):
    start = "entry_SYSCALL_64_after_hwframe"
    kernel(KERNEL_FUNCTIONS)
    stacks = raw(
        (1, KERNEL, [READ, SYSCALL, ENTRY]), (2, KERNEL, [PROGRAM, RUN, READ]), (3, KERNEL, [PROGRAM, RUN, ITERATE])
    )
    table = resolve(replace(stacks, limit=3), None)

    assert shown(table, 1) == [start, "do_syscall_64", "__x64_sys_read"]
    assert shown(table, 2) == ["[callers beyond 3 frames]", "__x64_sys_read"]
    assert shown(table, 3) == ["[callers beyond 3 frames]"]
    assert notes(table)[0].startswith("2 of 3 kernel stacks are cut at 3 frames")


def test_the_tracers_functions_are_removed_from_kernel_stacks(kernel):
    kernel(KERNEL_FUNCTIONS)
    table = resolve(
        raw(
            (1, KERNEL, [PROGRAM, RUN, ITERATE, READ, SYSCALL, ENTRY]),
            (2, KERNEL, [READ, SYSCALL, ENTRY]),
            (3, KERNEL, [RUN, ITERATE]),
            (4, KERNEL, [PROGRAM, SYSCALL]),
        ),
        None,
    )
    inner = ["entry_SYSCALL_64_after_hwframe", "do_syscall_64", "__x64_sys_read"]
    assert shown(table, 1) == shown(table, 2) == inner
    assert shown(table, 3) == []
    assert shown(table, 4) == ["do_syscall_64", f"{PROGRAM:#x}"]
    assert {frame.kind for frame in table.frames} == {FrameKind.KERNEL}


def test_a_kernel_that_hides_addresses_gives_one_frame_and_a_note(kernel):
    kernel("\n".join(f"{0:016x}{line[16:]}" for line in KERNEL_FUNCTIONS.splitlines()))
    table = resolve(raw((1, KERNEL, [READ, SYSCALL])), None)

    assert shown(table, 1) == ["[kernel]", "[kernel]"]
    assert any("kptr_restrict" in note for note in notes(table))


def test_each_python_frame_is_resolved_once():
    class Names:
        def __init__(self):
            self.asked = []

        def frames(self, words):
            self.asked.append(np.asarray(words).tolist())
            pairs = zip(words[::2], words[1::2], strict=True)
            return [Frame(f"f{code}", FrameKind.PYTHON, "m.py", int(line)) for code, line in pairs]

    names = Names()
    table = resolve(raw((1, PYTHON, [7, 1, 8, 2, 9, 3]), (2, PYTHON, [7, 5, 8, 2, 9, 3])), names)

    assert shown(table, 1) == ["f9", "f8", "f7"]
    assert [frame.line for frame in table.of(1)] == [3, 2, 5]
    assert names.asked == [[7, 1, 7, 5, 8, 2, 9, 3]]


def test_an_ended_process_is_reported_unless_it_was_read_before(monkeypatch):
    monkeypatch.setattr(scope, "in_initial_namespace", lambda: True)  # a container may have its own ids
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    while (found := mappings.read(child.pid)) is None or not any("libc" in name for name in found.names):
        time.sleep(0.01)
    address = int(found.starts[next(at for at, name in enumerate(found.names) if "libc" in name)])
    stack = raw((1, USER, [address, address + 64]), pid=child.pid)
    seen = Processes()
    seen.learn([child.pid])
    child.communicate(b"\n")

    assert shown(resolve(stack, None), 1) == [resolving.GONE.name]
    assert notes(resolve(stack, None))[-1].startswith("1 native stack is from processes that ended")
    assert all(frame.module.endswith(".so.6") for frame in resolve(stack, None, seen).frames)


def test_jit_compiled_code_has_names_from_the_perf_map(tmp_path, monkeypatch):
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    (tmp_path / f"perf-{os.getpid()}.map").write_text(
        f"{start:x} 20 old_name\n{start:x} 20 py::work:/a b.py\ndamaged\n{start + 64:x} 10 other\n"
    )
    read = jit.functions
    monkeypatch.setattr(jit, "functions", lambda pid, owner: read(pid, owner, tmp_path))
    table = resolve(raw((1, USER, [start + 4]), (2, USER, [start + 40])), None)

    assert shown(table, 1) == ["py::work:/a b.py"]
    assert shown(table, 2) == ["[compiled code]"]


def test_vdso_functions_have_names():
    vdso = next(line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("[vdso]"))
    start, end = (int(text, 16) for text in vdso.split()[0].split("-"))
    image = ctypes.string_at(start, end - start)
    symbols = ELFFile(io.BytesIO(image)).get_section_by_name(".dynsym")
    wanted = next(symbol for symbol in symbols.iter_symbols() if symbol.name == "__vdso_clock_gettime")
    name = shown(resolve(raw((1, USER, [start + wanted["st_value"] + 1])), None), 1)
    assert name in (["clock_gettime"], ["__vdso_clock_gettime"])


def test_a_table_without_stacks_is_resolved():
    table = resolve(raw(), None)
    assert (len(table.keys), table.frames, table.starts.tolist()) == (0, (), [0])
    assert notes(table) == ()


def test_resolving_does_not_run_python_code_per_address():
    own = mappings.read(os.getpid())
    sizes = (own.ends - own.starts).astype(np.int64)
    largest = int(np.argmax(sizes))
    words = np.linspace(0, int(sizes[largest]) - 1, 1000).astype(np.uint64) + own.starts[largest]

    def resolved(stacks):
        """This many stacks of 100 addresses each, from the same thousand addresses."""
        raw_stacks = RawStacks(
            np.arange(1, 2 * stacks + 1, 2, dtype=np.uint64),
            np.full(stacks, USER, np.uint8),
            np.arange(0, 100 * stacks + 1, 100),
            np.tile(words, stacks // 10),
        )
        assert int(resolve(raw_stacks, None).starts[-1]) == 100 * stacks

    assert lines_per_row(resolved, 100, 1000) < 1  # for a hundred addresses


IN_UNREADABLE = """
import ctypes, sys
import numpy as np
from accel_magic.kernel.symbols.resolving import resolve
from accel_magic.kernel.stacks.stack_table import USER, RawStacks
address = ctypes.cast(ctypes.CDLL(sys.argv[1]).open_one, ctypes.c_void_p).value
one = np.ones(1, np.uint64)
table = resolve(RawStacks(one, np.array([USER], np.uint8), np.array([0, 1]), one * address), None)
(frame,) = table.of(0)
print(ascii((frame.name, frame.module.encode())))
"""


def test_a_file_with_a_non_utf8_name_is_read_and_shown(library, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/named\xff.so")
    shutil.copy(library, path)
    # In a separate process, because the library stays mapped.
    done = subprocess.run([sys.executable, "-c", IN_UNREADABLE, path], capture_output=True, text=True, check=True)
    name, module = ast.literal_eval(done.stdout)
    assert name == "open_one"
    assert module.endswith("/named\ufffd.so".encode())
