"""The compiler process with untrusted clients, such as the lab's guest."""

import errno
import json
import os
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from accel_magic import cache
from accel_magic.errors import MachineError, ProgramError
from accel_magic.kernel.attach.plan_source import generate
from accel_magic.kernel.bcc import bcc_location, compiler, kept_code
from accel_magic.lab.vm import qemu_command
from accel_magic.lab.vm.lab_settings import Settings
from accel_magic.probes.plan import ProbePoint
from tests.support.errors import raises
from tests.support.plans import plan_of

pytestmark = pytest.mark.component

SERVER = Path(compiler.__file__).with_name("compile_server.py")
WITH_LIMITS = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("bcc_server", {server!r})
server = importlib.util.module_from_spec(spec)
sys.modules["bcc_server"] = server
spec.loader.exec_module(server)
server.CPU_S, server.MEMORY = {cpu_s}, {memory}
sys.argv = ["bcc_server.py", "0", {package!r}, "0", "own"]
server.main()
"""


@pytest.fixture(scope="module", autouse=True)
def install():
    try:
        return bcc_location.find_bcc()
    except MachineError as error:
        pytest.skip(str(error))


def text(**defines):
    """One of our texts: a program on a uprobe, optionally with other constants."""
    plan = plan_of(
        (ProbePoint(id=0, probe="uprobe:a:f", kind="uprobe", target="/bin/true", function="f"),), mode="count"
    )
    made = generate(plan).text
    for name, value in defines.items():
        made = made.replace('#include "probe.bpf.c"', f'#define {name} {value}\n#include "probe.bpf.c"')
    return made


class Guest:
    """A client that has only the stream, and the server started by a connection from the guest."""

    def __init__(self, command, **options):
        self.stream, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, **options)
        self.stream.settimeout(60)
        self.hello = self.receive()

    def send(self, body, size=None):
        self.stream.sendall(struct.pack("<I", len(body) if size is None else size) + body)

    def receive(self):
        """The next message; None if the server closed the stream."""
        head = self.stream.recv(4, socket.MSG_WAITALL)
        if not head:
            return None
        (size,) = struct.unpack("<I", head)
        return json.loads(self.stream.recv(size, socket.MSG_WAITALL))

    def ask(self, request):
        self.send(json.dumps(request).encode())
        return self.receive()

    def close(self):
        self.stream.close()
        return self.process.wait(20)


@pytest.fixture
def start(install, tmp_path_factory):
    """Start servers as QEMU does for a connection from the guest; `cpu_s` and `memory` replace its limits."""
    guests, slots = [], tmp_path_factory.mktemp("slots") / "slots"

    def start_(*, cpu_s=None, memory=2 << 30, **options):
        network = qemu_command._network(Settings(), slots)
        command = shlex.split(re.search(r"-cmd:(.*)", network)[1].replace(",,", ","))
        if cpu_s is not None:
            program = WITH_LIMITS.format(server=str(SERVER), cpu_s=cpu_s, memory=memory, package=str(install.package))
            command = [command[0], "-I", "-c", program]
        guests.append(Guest(command, **options))
        return guests[-1]

    yield start_
    for guest in guests:
        guest.close()


@pytest.fixture(scope="module")
def guest(install, tmp_path_factory):
    """One server for all rejected requests."""
    guest = Guest(compiler.command_for_others(tmp_path_factory.mktemp("slots") / "slots"))
    yield guest
    guest.close()


def test_our_texts_are_compiled_and_the_server_ends_with_the_stream(start):
    guest = start()

    answer = guest.ask({"text": text()})

    assert guest.hello == {"ready": True}
    assert set(answer["functions"]) == {"am_plain_0"}
    assert answer["maps"] == []
    assert guest.close() == 0


@pytest.mark.parametrize(
    "flags",
    [
        ["-MD", "-MF", "{file}", "-MT", "text of the guest's choice"],
        ["-Xclang", "-serialize-diagnostic-file", "-Xclang", "{file}"],
        ["-Xclang", "-header-include-file", "-Xclang", "{file}", "-H"],
        ["-Xclang", "-diagnostic-log-file", "-Xclang", "{file}"],
    ],
)
def test_a_guest_cannot_write_host_files_with_clang_options(guest, tmp_path, flags):
    file = tmp_path / "written"
    request = {"text": text(), "kernel_source": str(SERVER.with_name("headers"))}

    answer = guest.ask({**request, "flags": [flag.format(file=file) for flag in flags]})

    assert not file.exists()
    assert answer["code"] == "compiler.bad-request"


SECRET = "secret_of_the_host"


@pytest.mark.parametrize(
    "line",
    [
        '#include "{file}"',
        '#include "../../../../../../../../../..{file}"',
        "#include <{file}>",
        '# include "{file}"',
        '#include AM_FILE\n#define AM_FILE "{file}"',
        '#import "{file}"',
        '#include_next "{file}"',
        '#embed "{file}"',
        '%:include "{file}"',
        '??=include "{file}"',
        '#def\\\nine AM_X 1\n#include "{file}"',
        '_Pragma("GCC dependency \\"{file}\\"")',
        '#pragma GCC dependency "{file}"',
        '#define AM_X __has_include("{file}")',
        '__asm__(".incbin \\"{file}\\"");',
        '#define AM_X asm(".incbin \\"{file}\\"")',
        '#line 1 "{file}"\nan error here',
        "BPF_HASH(seen);",
        "#define AM_X BPF_TABLE_PINNED",
        "struct bpf_map_def __attribute__((section(AM_STRING(maps/hash)))) seen;",
        "TRACEPOINT_PROBE(syscalls, sys_enter_openat) {{ return 0; }}",
        "#define AM_X __attribute__",
        "#define AM_PROGRAM(name) name",
        "#define u64 AM_X",
        "#define AM_X a ## b",
        "#define AM_X \x0b#include",
        "#define AM_X \r#include",
        "#define AM_X \u00e4",
        "int main() {{ return 0; }}",
    ],
)
def test_other_texts_are_rejected_and_reveal_no_file(guest, tmp_path, line):
    file = tmp_path / "secret.h"
    file.write_text(f"{SECRET}\n")

    for made in (line.format(file=file), f"{text()}{line.format(file=file)}\n", f"{line.format(file=file)}\n{text()}"):
        answer = guest.ask({"text": made})

        assert answer["code"] == "compiler.foreign-text", made
        assert SECRET not in json.dumps(answer)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"text": ' + b"9" * 100_000 + b"}",
        b"[]",
        b'{"text": 1}',
        b'{"text": null}',
        b'{"text": "", "text2": ""}',
        b'{"text": "a\\u0000b"}',
        b'{"text": "\\ud800"}',
    ],
)
def test_an_invalid_request_is_rejected_and_the_next_one_is_answered(guest, body):
    guest.send(body)
    answer = guest.receive()

    assert answer["code"] in ("compiler.bad-request", "compiler.foreign-text")
    assert set(guest.ask({"text": text()})["functions"]) == {"am_plain_0"}


@pytest.mark.parametrize("size", [(10 << 20) + 1, 0xFFFFFFFF])
def test_a_request_that_is_too_large_is_rejected_before_it_is_read(start, size):
    guest = start()

    guest.send(b"", size)

    assert guest.receive()["code"] == "compiler.too-large"
    assert guest.receive() is None


BOMB = "AM_BOMB_0 (AM_ROUND + 1)\n" + "\n".join(
    f"#define AM_BOMB_{n} AM_BOMB_{n - 1} + AM_BOMB_{n - 1}" for n in range(1, 40)
)
"""Doubles with every line: 2 to the 39th tokens."""


def test_an_endless_compilation_is_ended_and_the_next_request_is_answered(start):
    guest = start(cpu_s=1, memory=1 << 40)

    answer = guest.ask({"text": text(AM_FILTER=f"AM_BOMB_39\n#define {BOMB}")})

    assert answer["code"] == "compiler.cpu-limit"
    assert set(guest.ask({"text": text()})["functions"]) == {"am_plain_0"}


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_a_compilation_without_enough_memory_is_ended_and_the_next_request_is_answered(start):
    guest = start(cpu_s=60, memory=500 << 20)

    answer = guest.ask({"text": text(AM_FILTER=f"AM_BOMB_39\n#define {BOMB}")})

    assert answer["code"] == "compiler.memory-limit"
    assert set(guest.ask({"text": text()})["functions"]) == {"am_plain_0"}


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(condition):
    until = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


def test_a_crashed_compilation_is_reported_and_the_next_request_is_answered(start):
    guest = start(cpu_s=60, memory=1 << 40)

    guest.send(json.dumps({"text": text(AM_FILTER=f"AM_BOMB_39\n#define {BOMB}")}).encode())
    os.kill(wait_for(lambda: children(guest.process.pid))[0], 11)

    assert guest.receive()["code"] == "compiler.crashed"
    assert set(guest.ask({"text": text()})["functions"]) == {"am_plain_0"}


def test_a_compilation_ends_with_its_server(start):
    guest = start(cpu_s=60, memory=1 << 40)
    guest.send(json.dumps({"text": text(AM_FILTER=f"AM_BOMB_39\n#define {BOMB}")}).encode())
    (child,) = wait_for(lambda: children(guest.process.pid))

    guest.process.kill()
    guest.process.wait()

    wait_for(lambda: not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text())


def test_the_number_of_compilers_per_lab_is_limited_and_slots_are_reused(start):
    first, *others = [start() for _ in range(8)]
    assert [guest.hello for guest in others] == [{"ready": True}] * 7

    one_more = start()
    assert one_more.hello["code"] == "compiler.busy"
    assert one_more.receive() is None

    first.close()
    last = start()
    for guest in (*others, last):
        guest.send(json.dumps({"text": text()}).encode())
    assert [set(guest.receive()["functions"]) for guest in (*others, last)] == [{"am_plain_0"}] * 8


def test_compilations_of_one_lab_run_one_at_a_time(start):
    busy, waiting = start(), start()
    bomb = json.dumps({"text": text(AM_FILTER=f"AM_BOMB_39\n#define {BOMB}")}).encode()
    busy.send(bomb)
    wait_for(lambda: children(busy.process.pid))

    waiting.send(json.dumps({"text": text()}).encode())
    time.sleep(0.5)
    assert children(waiting.process.pid) == []

    busy.process.kill()
    assert set(waiting.receive()["functions"]) == {"am_plain_0"}


def test_inherited_descriptors_are_closed(start):
    """QEMU has descriptors of the guest's memory and of its other devices' sockets."""
    reading, writing = os.pipe()
    guest = start(pass_fds=(writing,))
    os.close(writing)

    assert guest.hello == {"ready": True}
    with os.fdopen(reading, "rb") as pipe:
        os.set_blocking(reading, False)
        assert pipe.read() == b""  # end of file: nobody has the other end open


def test_the_parents_headers_and_variables_do_not_affect_our_texts(start, tmp_path):
    (tmp_path / "common.h").write_text("#error the header of the working folder\n")
    (tmp_path / "linux").mkdir()
    (tmp_path / "linux" / "types.h").write_text("#error the header of the working folder\n")

    answer = start(cwd=tmp_path, env={**os.environ, "CPATH": str(tmp_path), "C_INCLUDE_PATH": str(tmp_path)}).ask(
        {"text": text()}
    )

    assert set(answer["functions"]) == {"am_plain_0"}


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Nothing has been compiled yet."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    compiler.stop()
    compiler.compile_own.cache_clear()
    yield
    compiler.stop()
    compiler.compile_own.cache_clear()


def test_a_header_next_to_the_notebook_does_not_affect_our_texts(fresh, tmp_path, monkeypatch):
    (tmp_path / "common.h").write_text("#error the header of the working folder\n")
    monkeypatch.chdir(tmp_path)

    assert set(compiler.compile_own(text()).functions) == {"am_plain_0"}


def another_process():
    """What a new process starts with."""
    compiler.stop()
    compiler.compile_own.cache_clear()


def compilations():
    """Number of texts that were compiled since `another_process`, 0 or more: the compiler is started by the first."""
    return len(compiler._servers)


def test_a_text_is_compiled_once_for_all_processes(fresh, tmp_path):
    compiled = compiler.compile_own(text()).functions
    assert compilations() == 1

    another_process()
    assert compiler.compile_own(text()).functions == compiled
    assert compilations() == 0
    other = compiler.compile_own(text(AM_DOES_NOT_MATTER=1)).functions
    assert compilations() == 1

    assert other.keys() == compiled.keys()
    assert len(list((tmp_path / "cache" / "programs").iterdir())) == 2


def test_changed_templates_are_compiled_again(fresh, tmp_path, monkeypatch):
    compiler.compile_own(text())
    sources = tmp_path / "bpf"
    shutil.copytree(kept_code.bpf_folder(), sources)
    monkeypatch.setattr(kept_code, "bpf_folder", lambda: sources)

    another_process()
    compiler.compile_own(text())
    assert compilations() == 0
    (sources / "kernel" / "common.h").write_text("/* changed */" + (sources / "kernel" / "common.h").read_text())
    another_process()
    compiler.compile_own(text())
    assert compilations() == 1


@pytest.mark.parametrize("harm", ["damaged", "truncated", "empty", "writable by others", "a folder"])
def test_bytecode_that_others_may_have_written_is_not_used(fresh, tmp_path, harm):
    compiled = compiler.compile_own(text()).functions
    (kept,) = (tmp_path / "cache" / "programs").iterdir()
    data = kept.read_bytes()
    match harm:
        case "damaged":
            kept.write_bytes(data.replace(b"A", b"B"))
        case "truncated" | "empty":
            kept.write_bytes(data[: len(data) // 2] if harm == "truncated" else b"")
        case "writable by others":
            kept.chmod(0o666)
        case _:
            kept.unlink()
            kept.mkdir()

    another_process()
    assert compiler.compile_own(text()).functions == compiled
    assert compilations() == 1


def test_the_oldest_bytecode_is_removed(fresh, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_code, "_MOST", 2)
    for number in range(4):
        compiler.compile_own(text(AM_DOES_NOT_MATTER=number))
    another_process()

    assert len(list((tmp_path / "cache" / "programs").iterdir())) == 2
    for number in (3, 2):
        compiler.compile_own(text(AM_DOES_NOT_MATTER=number))
    assert compilations() == 0
    compiler.compile_own(text(AM_DOES_NOT_MATTER=1))
    assert compilations() == 1


def test_bytecode_that_is_used_again_is_not_the_oldest(fresh, monkeypatch):
    monkeypatch.setattr(kept_code, "_MOST", 2)
    for number in (0, 1, 0, 2):
        another_process()
        compiler.compile_own(text(AM_DOES_NOT_MATTER=number))
    another_process()
    compiler.compile_own(text(AM_DOES_NOT_MATTER=0))
    assert compilations() == 0


def test_a_text_is_compiled_without_a_folder_to_keep_it_in(fresh, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache.scratch, "make", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))

    assert set(compiler.compile_own(text()).functions) == {"am_plain_0"}


def test_a_rejected_request_is_a_typed_error(fresh):
    with raises("compiler.foreign-text", ProgramError):
        compiler.compile_own("BPF_HASH(seen);")

    with raises("compiler.own-program", ProgramError) as caught:
        compiler.compile_own(text(AM_FILTER="am_nothing"))
    assert "am_nothing" in caught.value.why


NO_FILTERS = """
import ctypes, importlib.util, os, struct, sys
spec = importlib.util.spec_from_file_location("sandbox", sys.argv[1])
sandbox = sys.modules["sandbox"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sandbox)
refused = [sandbox._on(number, sandbox._result(sandbox._REFUSE | 22)) for number in (317, 157)]
code = ctypes.create_string_buffer(b"".join([sandbox._load(0), *refused, sandbox._result(sandbox._ALLOW)]))
program = struct.pack("<HxxxxxxQ", (len(code) - 1) // 8, ctypes.addressof(code))
sandbox._libc.prctl(38, 1, 0, 0, 0)
sandbox._call(317, 1, 0, program)
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_a_kernel_that_cannot_confine_the_compiler_is_a_typed_error(fresh, monkeypatch):
    start = compiler.channel.start_process
    before = [sys.executable, "-I", "-c", NO_FILTERS, str(SERVER.with_name("sandbox.py"))]
    monkeypatch.setattr(
        compiler.channel, "start_process", lambda command, *rest, what: start([*before, *command], *rest, what=what)
    )

    with raises("compiler.no-sandbox", MachineError) as caught:
        compiler.compile_own(text())

    assert "Invalid argument" in caught.value.why


def test_an_unresponsive_compiler_is_a_typed_error(fresh, monkeypatch):
    monkeypatch.setattr(compiler, "_START_TIMEOUT_S", 0.05)
    monkeypatch.setattr(compiler, "find_bcc", lambda: SimpleNamespace(interpreter="python3", package="nowhere"))
    start = compiler.channel.start_process
    silent = ["/bin/sh", "-c", "exec sleep 60"]
    monkeypatch.setattr(compiler.channel, "start_process", lambda *_, what: start(silent, what=what))

    with raises("compiler.no-answer", MachineError):
        compiler.compile_own(text())


def test_a_compiler_that_dies_is_a_typed_error_with_its_last_output(fresh, monkeypatch):
    words = "import sys; sys.exit('the words before its end')"
    monkeypatch.setattr(compiler, "find_bcc", lambda: SimpleNamespace(interpreter=sys.executable, package="nowhere"))
    start = compiler.channel.start_process
    monkeypatch.setattr(
        compiler.channel, "start_process", lambda command, *_, what: start([command[0], "-c", words], what=what)
    )

    with raises("compiler.ended", MachineError) as caught:
        compiler.compile_own(text())

    assert "the words before its end" in caught.value.why
