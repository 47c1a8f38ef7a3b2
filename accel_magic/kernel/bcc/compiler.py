"""Compile BPF C in compiler processes. Each text of our own programs is compiled once.

Our own programs and users' programs have separate processes. The one for our own creates no maps, accepts no other
texts, and is confined accordingly (compile_server.py). Most notebooks never start the other one.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import re
import socket
import threading
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from accel_magic import channel, codec, forks
from accel_magic.errors import MachineError, ProgramError
from accel_magic.kernel.bcc import kept_code
from accel_magic.kernel.bcc.bcc_location import find_bcc

_SERVER = Path(__file__).with_name("compile_server.py")
_STUB_HEADERS = Path(__file__).with_name("headers")
_OWN, _USERS = "own", "users"
"""Whose texts a compiler accepts."""
_CONNECT_TIMEOUT_S = 20.0
_START_TIMEOUT_S = 60.0  # importing BCC takes half a minute under emulation
_COMPILE_TIMEOUT_S = 60.0
_TRACEPOINT_PROBE = re.compile(r"\bTRACEPOINT_PROBE\s*\([^()]*\)[^\n]*(?<!\\)\n")


@dataclass(frozen=True)
class ProgramMap:
    """A map declared by a user's program, as described by BCC; `fd` is open in this process."""

    name: str
    type: int
    fd: int
    entries: int
    key_size: int
    value_size: int
    key: Any
    value: Any
    event: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class CompiledPrograms:
    """Bytecode by function name, and its maps; `map_fds` translates descriptors in the code to this process's."""

    functions: dict[str, bytes]
    maps: tuple[ProgramMap, ...] = ()
    map_fds: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class _Answer:
    """What the compiler's process sends, without the descriptors of the maps.

    Attributes:
        functions: Bytecode by function name.
        maps: Maps, with their descriptors in that process.
        error: Why there is no bytecode; None if there is.
        code: Code of that error, if its cause is not the C text.
        output: What clang printed.

    """

    functions: dict[str, bytes] = field(default_factory=dict)
    maps: tuple[ProgramMap, ...] = ()
    error: str | None = None
    code: str = ""
    output: str = ""

    @property
    def reason(self) -> str:
        """Clang's output, or why clang did not run or finish."""
        error = self.error or ""
        return error if self.code else self.output.strip() or error


ELSEWHERE = "ACCEL_MAGIC_COMPILER"
"""Environment variable: HOST:PORT of a compiler on another machine with the same files. The lab sets it."""


@dataclass
class _Server:
    """A compiler process and the socket to it; `process` is None for one on another machine."""

    connection: socket.socket
    process: channel.HelperProcess | None
    where: str
    fix: str
    greeted: bool = False

    def greet(self) -> None:
        """Wait until the process has imported BCC. Raises MachineError if it cannot."""
        if self.greeted:
            return
        hello, _ = self.receive()
        if hello.error is not None:
            raise self._unusable(hello.error, hello.code)
        self.greeted = True
        self.connection.settimeout(_COMPILE_TIMEOUT_S)

    def _unusable(self, why: str, code: str) -> MachineError:
        if code == "compiler.no-sandbox":
            return MachineError(
                "the BCC compiler cannot be confined on this machine",
                why=f"{why}: for security, it runs only in a sandbox",
                fix="use a kernel with CONFIG_SECCOMP_FILTER; in a container, allow the system call seccomp",
                code=code,
            )
        if code == "compiler.busy":
            return MachineError("this lab cannot start more compilers", why=why, fix=_FIXES[code], code=code)
        return MachineError(
            f"BCC was found in {self.where} but cannot be used",
            why=why,
            fix="reinstall it: apt install --reinstall python3-bpfcc",
            code="bcc.broken",
        )

    @property
    def ended(self) -> bool:
        return self.process is not None and not self.process.alive

    def ask(self, request: dict[str, str]) -> tuple[_Answer, list[int]]:
        channel.send_bytes(self.connection, json.dumps(request).encode())
        return self.receive()

    def receive(self) -> tuple[_Answer, list[int]]:
        data, descriptors = channel.receive_bytes(self.connection)
        return codec.from_json(data, _Answer), descriptors

    def stop(self) -> None:
        if self.process is None:
            self.connection.close()
        else:
            self.process.end()

    def forget(self) -> None:
        if self.process is None:
            self.connection.close()
        else:
            self.process.forget()

    def failure(self, error: OSError) -> MachineError:
        """Translate an error on the stream."""
        if isinstance(error, TimeoutError):
            why = f"it sent nothing for {self.connection.gettimeout():g} s: this machine may be very busy"
            return MachineError("the BCC compiler does not answer", why=why, fix="try again", code="compiler.no-answer")
        why = f"{self.where} closed the connection" if self.process is None else self.process.last_words()
        return MachineError("the BCC compiler process ended unexpectedly", why=why, fix=self.fix, code="compiler.ended")


def _here(texts: str) -> _Server:
    install = find_bcc()
    helper = channel.start_process(
        [str(install.interpreter), "-I", str(_SERVER)],
        str(install.package),
        str(os.getpid()),
        texts,
        what="BCC compiler",
    )
    fix = f"test the distribution's BCC: {install.interpreter} -c 'import bcc'"
    return _Server(helper.connection, helper, str(install.package), fix)


def command_for_others(slots: Path) -> list[str]:
    """Command of a compiler for our own programs that serves its standard input and output.

    Args:
        slots: A folder, created if missing. It limits the number of compilers that share it.

    Raises:
        MachineError: BCC is missing.

    """
    install = find_bcc()
    return [str(install.interpreter), "-I", str(_SERVER), "0", str(install.package), "0", _OWN, str(slots)]


def _elsewhere(address: str) -> _Server:
    host, _, port = address.rpartition(":")
    try:
        connection = socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S)
    except (OSError, ValueError) as error:
        raise MachineError(
            f"the BCC compiler at {address} cannot be reached",
            why=str(error),
            fix=f"unset {ELSEWHERE} to compile on this machine",
            code="compiler.unreachable",
        ) from None
    return _Server(connection, None, address, f"unset {ELSEWHERE} to compile on this machine")


_lock = threading.Lock()
_servers: dict[str, _Server] = {}


def _server(which: str) -> _Server:
    """The compiler for `own` or `users`, or the one at HOST:PORT; started if it is not running."""
    if which in _servers and _servers[which].ended:
        _stop(which)
    if which not in _servers:
        _servers[which] = server = _here(which) if which in (_OWN, _USERS) else _elsewhere(which)
        server.connection.settimeout(_START_TIMEOUT_S)
    return _servers[which]


def start() -> int | None:
    """Start the compiler for our own programs if it is not running, without waiting for it.

    Returns:
        Its process id if it runs on this machine.

    """
    process = _server(os.environ.get(ELSEWHERE) or _OWN).process
    return None if process is None else process.pid


def helper_pids() -> tuple[int, ...]:
    """Process ids of all compilers on this machine, the one that `start` returns first."""
    running = sorted(_servers.items(), key=lambda server: server[0] != _OWN)
    return tuple(server.process.pid for _, server in running if server.process is not None)


def _stop(which: str) -> None:
    _servers.pop(which).stop()


def stop() -> None:
    """End the compiler processes; the next compilation starts a new one."""
    for which in list(_servers):
        _stop(which)


def _forget_in_child() -> None:
    for server in _servers.values():
        server.forget()
    _servers.clear()


atexit.register(stop)
forks.in_child(_forget_in_child)


def _ask(which: str, request: dict[str, str]) -> tuple[_Answer, list[int]]:
    with _lock:
        server = _server(which)
        try:
            server.greet()
            return server.ask(request)
        except BaseException as error:
            # An interrupt in the middle of an answer would leave the stream out of sync.
            failure = server.failure(error) if isinstance(error, OSError) else None
            _stop(which)
            if failure is not None:
                raise failure from None
            raise


@lru_cache(maxsize=64)
def compile_own(text: str, *, keep: bool = True) -> CompiledPrograms:
    """Compile one of the engine's own programs; cached for the life of the process.

    Args:
        text: C text.
        keep: Use the bytecode that an earlier process has kept in the cache folder, and keep it there.

    Raises:
        ProgramError: The generated C does not compile.
        MachineError: BCC is missing or broken.

    """
    elsewhere = os.environ.get(ELSEWHERE)
    bcc = find_bcc() if keep and not elsewhere else None
    if bcc is not None and (kept := kept_code.find(text, bcc)) is not None:
        return CompiledPrograms(kept)
    answer, _ = _ask(elsewhere or _OWN, {"text": text})
    if answer.error is not None:
        raise ProgramError(
            "a generated program does not compile",
            why=answer.reason,
            fix=_FIXES.get(answer.code, "this is a bug in accel_magic: please report it with --dry-run"),
            code=answer.code or "compiler.own-program",
        )
    if bcc is not None:
        kept_code.keep(text, bcc, answer.functions)
    return CompiledPrograms(answer.functions)


_FIXES = {
    "compiler.cpu-limit": "trace fewer places, or use simpler filters",
    "compiler.memory-limit": "trace fewer places, or use simpler filters",
    "compiler.too-large": "trace fewer places, or use simpler filters",
    "compiler.busy": "end another process in the guest that has traced, e.g. shut down a notebook's kernel",
}


def kernel_headers() -> Path | None:
    """Headers of the running kernel if the distribution's package is installed, else None."""
    build = Path("/lib/modules") / platform.release() / "build"
    return build if (build / "include" / "linux" / "kconfig.h").exists() else None


def _with_true_lines(text: str) -> str:
    """Renumber the lines after each TRACEPOINT_PROBE: BCC inserts the struct of its arguments before it."""
    parts, end = [], 0
    for probe in _TRACEPOINT_PROBE.finditer(text):
        parts += [text[end : probe.end()], f"#line {text.count(chr(10), 0, probe.end()) + 1}\n"]
        end = probe.end()
    return "".join([*parts, text[end:]])


def compile_user(text: str, name: str) -> CompiledPrograms:
    """Compile a user's BCC program, with the running kernel's headers if installed, else with the stubs.

    Every call creates new maps; the caller closes their descriptors.

    Raises:
        ProgramError: It does not compile; has clang's message, with line numbers of the user's file.
        MachineError: BCC is missing or broken.

    """
    headers = kernel_headers()
    answer, descriptors = _ask(_USERS, {"text": _with_true_lines(text), "kernel_source": str(headers or _STUB_HEADERS)})
    if answer.error is not None:
        raise _user_error(answer, name, have_headers=headers is not None)
    maps = tuple(replace(map_, fd=fd) for map_, fd in zip(answer.maps, descriptors, strict=True))
    map_fds = tuple((theirs.fd, ours.fd) for theirs, ours in zip(answer.maps, maps, strict=True))
    return CompiledPrograms(answer.functions, maps, map_fds)


def _user_error(answer: _Answer, name: str, *, have_headers: bool) -> ProgramError:
    if answer.code:
        fix = "make the program smaller; unrolled loops and large maps are the usual causes"
        return ProgramError(f"{name} does not compile", why=answer.reason, fix=fix, code=answer.code)
    output = answer.reason.replace("/virtual/main.c", name)
    fix = "correct the line reported by clang"
    unknown = re.search(r"fatal error: .* file not found|incomplete definition of type '([^']+)'", output)
    if unknown and unknown[1] == "struct pt_regs":
        fix = "add #include <uapi/linux/ptrace.h> at the top, which defines the registers"
    elif unknown and not have_headers:
        fix = (
            f"install this kernel's headers (apt install linux-headers-{platform.release()}); without them only BPF "
            "helpers, registers and tracepoint arguments are defined" + (f", not {unknown[1]}" if unknown[1] else "")
        )
    elif "could not open bpf map" in output:
        fix = "correct the map's type, sizes or flags: the kernel rejects it"
    return ProgramError(f"{name} does not compile", why=output, fix=fix, code="program.does-not-compile")
