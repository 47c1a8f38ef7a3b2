"""Compiles BPF C in the compiler process, once for each text."""

from __future__ import annotations

import atexit
import base64
import os
import platform
import re
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from accel_magic import channel
from accel_magic.errors import MachineError, ProgramError
from accel_magic.kernel.find_bcc import find_bcc

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


class _Server:
    """The compiler process and the socket to it."""

    def __init__(self) -> None:
        install = find_bcc()
        self.process, self.connection = channel.start_process(
            [str(install.interpreter), "-I", str(_SERVER)], str(install.package), str(os.getpid()), what="BCC compiler"
        )
        self.connection.settimeout(_START_TIMEOUT_S)
        self.install = install
        self.greeted = False

    def greet(self) -> None:
        """Wait until BCC is imported there. Raises MachineError when it cannot be."""
        if self.greeted:
            return
        hello, _ = channel.receive(self.connection)
        if "error" in hello:
            raise MachineError(
                f"BCC was found in {self.install.package} but cannot be used",
                why=str(hello["error"]),
                fix="reinstall it: apt install --reinstall python3-bpfcc",
            )
        self.greeted = True
        self.connection.settimeout(_COMPILE_TIMEOUT_S)

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        channel.send(self.connection, request)
        return channel.receive(self.connection)

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.wait()


_lock = threading.Lock()
_server: _Server | None = None


def start() -> int:
    """Start the compiler process if it is not running, without waiting for it; returns its process id."""
    global _server  # noqa: PLW0603 - one for the life of the process
    if _server is not None and _server.process.poll() is not None:
        stop()
    if _server is None:
        _server = _Server()
    return _server.process.pid


def stop() -> None:
    """End the compiler process; the next compilation starts another."""
    global _server  # noqa: PLW0603
    if _server is not None:
        _server.stop()
        _server = None


def _forget_in_child() -> None:
    global _server  # noqa: PLW0603
    if _server is not None:
        _server.connection.close()
        _server = None


atexit.register(stop)
os.register_at_fork(after_in_child=_forget_in_child)


def _ask(text: str, kernel_source: Path) -> tuple[dict[str, Any], list[int]]:
    request = {"text": text, "kernel_source": str(kernel_source), "flags": [f"-I{bpf_folder() / 'kernel'}"]}
    with _lock:
        start()
        server = _server
        assert server is not None  # noqa: S101 - just started
        try:
            server.greet()
            return server.ask(request)
        except BaseException as error:
            # An interrupt in the middle of an answer would leave the stream out of step.
            stop()
            if isinstance(error, OSError):
                raise MachineError(
                    "the BCC compiler process ended unexpectedly",
                    why=f"it stopped while compiling ({type(error).__name__}): LLVM may have crashed on the program",
                    fix=f"try the distribution's BCC by itself: {server.install.interpreter} -c 'import bcc'",
                ) from None
            raise


@lru_cache(maxsize=64)
def compile_own(text: str) -> Compiled:
    """Compile one of the engine's own programs; kept for the life of the process.

    Raises:
        ProgramError: The generated C does not compile.
        MachineError: BCC is missing or broken.

    """
    answer, _ = _ask(text, _STUB_HEADERS)
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
    output = re.sub(r"/virtual/main\.c", name, str(answer["output"])).strip() or str(answer["error"])
    fix = "mend the line that clang names"
    unknown = re.search(r"fatal error: .* file not found|incomplete definition of type '([^']+)'", output)
    if unknown and unknown[1] == "struct pt_regs":
        fix = "add #include <uapi/linux/ptrace.h> at the top: it has the registers"
    elif unknown and not have_headers:
        fix = (
            f"install this kernel's headers (apt install linux-headers-{platform.release()}): without them only BPF "
            "helpers, registers and tracepoint arguments are known" + (f", not {unknown[1]}" if unknown[1] else "")
        )
    elif "could not open bpf map" in output:
        fix = "the kernel refuses to make this map: mend its type, its sizes or its flags"
    return ProgramError(f"{name} does not compile", why=output, fix=fix)
