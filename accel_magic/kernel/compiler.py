"""Compiles BPF C in the compiler process, once for each text."""

from __future__ import annotations

import atexit
import base64
import os
import platform
import re
import socket
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic import channel
from accel_magic.errors import MachineError, ProgramError

if TYPE_CHECKING:
    import subprocess

_SERVER = Path(__file__).with_name("bcc_server.py")
_STUB_HEADERS = Path(__file__).with_name("headers")
_START_TIMEOUT_S = 20.0
_COMPILE_TIMEOUT_S = 60.0
_TRACEPOINT_PROBE = re.compile(r"\bTRACEPOINT_PROBE\s*\([^()]*\)[^\n]*(?<!\\)\n")


def bpf_folder() -> Path:
    """Where the BPF C sources lie: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "bpf"
    return installed if installed.is_dir() else package.parent / "bpf"


@dataclass(frozen=True)
class ProgramMap:
    """A map that a user's program declares, as BCC describes it; `fd` is open in this process."""

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
class Compiled:
    """Bytecode by function name, and the maps it refers to: `map_fds` turns the descriptor in the code into ours."""

    functions: dict[str, bytes]
    maps: tuple[ProgramMap, ...] = ()
    map_fds: tuple[tuple[int, int], ...] = ()


ELSEWHERE = "ACCEL_MAGIC_COMPILER"
"""Environment variable with the HOST:PORT of a compiler on another machine with the same files; the lab sets it."""


@dataclass
class _Server:
    """A compiler process and the socket to it; `process` is None for one on another machine."""

    connection: socket.socket
    process: subprocess.Popen[bytes] | None
    where: str
    fix: str
    greeted: bool = False

    def greet(self) -> None:
        """Wait until BCC is imported there. Raises MachineError when it cannot be."""
        if self.greeted:
            return
        hello, _ = channel.receive(self.connection)
        if "error" in hello:
            raise MachineError(
                f"BCC was found in {self.where} but cannot be used",
                why=str(hello["error"]),
                fix="reinstall it: apt install --reinstall python3-bpfcc",
            )
        self.greeted = True
        self.connection.settimeout(_COMPILE_TIMEOUT_S)

    @property
    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        channel.send(self.connection, request)
        return channel.receive(self.connection)

    def stop(self) -> None:
        self.connection.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def _here() -> _Server:
    from accel_magic.kernel.find_bcc import find_bcc

    install = find_bcc()
    command = [str(install.interpreter), "-I", str(_SERVER)]
    process, connection = channel.start_process(command, str(install.package), str(os.getpid()), what="BCC compiler")
    fix = f"try the distribution's BCC by itself: {install.interpreter} -c 'import bcc'"
    return _Server(connection, process, str(install.package), fix)


def _elsewhere(address: str) -> _Server:
    host, _, port = address.rpartition(":")
    try:
        connection = socket.create_connection((host, int(port)), timeout=_START_TIMEOUT_S)
    except (OSError, ValueError) as error:
        raise MachineError(
            f"the BCC compiler at {address} cannot be reached",
            why=str(error),
            fix=f"unset {ELSEWHERE} to compile on this machine",
        ) from None
    return _Server(connection, None, address, f"unset {ELSEWHERE} to compile on this machine")


_lock = threading.Lock()
_servers: dict[str, _Server] = {}


def _server(address: str) -> _Server:
    """The compiler at `address` ('' = a process of ours), started if it is not running."""
    if address in _servers and _servers[address].ended:
        _stop(address)
    if address not in _servers:
        _servers[address] = server = _elsewhere(address) if address else _here()
        server.connection.settimeout(_START_TIMEOUT_S)
    return _servers[address]


def start() -> int | None:
    """Start the compiler if it is not running, without waiting for it; returns its process id if it has one here."""
    process = _server(os.environ.get(ELSEWHERE, "")).process
    return None if process is None else process.pid


def _stop(address: str) -> None:
    _servers.pop(address).stop()


def stop() -> None:
    """End the compiler process; the next compilation starts another."""
    for address in list(_servers):
        _stop(address)


def _forget_in_child() -> None:
    for server in _servers.values():
        server.connection.close()
    _servers.clear()


atexit.register(stop)
os.register_at_fork(after_in_child=_forget_in_child)


def _ask(text: str, kernel_source: Path, address: str = "") -> tuple[dict[str, Any], list[int]]:
    request = {"text": text, "kernel_source": str(kernel_source), "flags": [f"-I{bpf_folder() / 'kernel'}"]}
    with _lock:
        server = _server(address)
        try:
            server.greet()
            return server.ask(request)
        except BaseException as error:
            # An interrupt in the middle of an answer would leave the stream out of step.
            _stop(address)
            if isinstance(error, OSError):
                raise MachineError(
                    "the BCC compiler process ended unexpectedly",
                    why=f"it stopped while compiling ({type(error).__name__}): LLVM may have crashed on the program",
                    fix=server.fix,
                ) from None
            raise


@lru_cache(maxsize=64)
def compile_own(text: str) -> Compiled:
    """Compile one of the engine's own programs; kept for the life of the process.

    Raises:
        ProgramError: The generated C does not compile.
        MachineError: BCC is missing or broken.

    """
    answer, _ = _ask(text, _STUB_HEADERS, os.environ.get(ELSEWHERE, ""))
    if "error" in answer:
        raise ProgramError(
            "a generated program does not compile",
            why=str(answer["output"]).strip() or str(answer["error"]),
            fix="this is a defect of accel_magic: please report it with the output of --dry-run",
        )
    return Compiled({name: base64.b64decode(code) for name, code in answer["functions"].items()})


def kernel_headers() -> Path | None:
    """Headers of the running kernel, where the distribution's package for them is installed."""
    build = Path("/lib/modules") / platform.release() / "build"
    return build if (build / "include" / "linux" / "kconfig.h").exists() else None


def _with_true_lines(text: str) -> str:
    """Number the lines behind each TRACEPOINT_PROBE again: BCC puts the struct of its arguments in front of it."""
    parts, end = [], 0
    for probe in _TRACEPOINT_PROBE.finditer(text):
        parts += [text[end : probe.end()], f"#line {text.count(chr(10), 0, probe.end()) + 1}\n"]
        end = probe.end()
    return "".join([*parts, text[end:]])


def compile_user(text: str, name: str) -> Compiled:
    """Compile a user's BCC program, with the running kernel's headers where there are any, else with the stubs.

    Every call makes new maps; the caller closes their descriptors.

    Raises:
        ProgramError: With clang's message, the lines counted in the user's file.
        MachineError: BCC is missing or broken.

    """
    headers = kernel_headers()
    answer, descriptors = _ask(_with_true_lines(text), headers or _STUB_HEADERS)
    if "error" in answer:
        raise _user_error(answer, name, have_headers=headers is not None)
    maps = tuple(
        ProgramMap(**{**description, "fd": fd, "event": tuple((field, kind) for field, kind in description["event"])})
        for description, fd in zip(answer["maps"], descriptors, strict=True)
    )
    return Compiled(
        {function: base64.b64decode(code) for function, code in answer["functions"].items()},
        maps,
        tuple((description["fd"], map_.fd) for description, map_ in zip(answer["maps"], maps, strict=True)),
    )


def _user_error(answer: dict[str, Any], name: str, *, have_headers: bool) -> ProgramError:
    output = str(answer["output"]).replace("/virtual/main.c", name).strip() or str(answer["error"])
    fix = "correct the line that clang names"
    unknown = re.search(r"fatal error: .* file not found|incomplete definition of type '([^']+)'", output)
    if unknown and unknown[1] == "struct pt_regs":
        fix = "add #include <uapi/linux/ptrace.h> at the top: it has the registers"
    elif unknown and not have_headers:
        fix = (
            f"install this kernel's headers (apt install linux-headers-{platform.release()}): without them only BPF "
            "helpers, registers and tracepoint arguments are known" + (f", not {unknown[1]}" if unknown[1] else "")
        )
    elif "could not open bpf map" in output:
        fix = "the kernel refuses to create this map: correct its type, its sizes or its flags"
    return ProgramError(f"{name} does not compile", why=output, fix=fix, code="program.does-not-compile")
