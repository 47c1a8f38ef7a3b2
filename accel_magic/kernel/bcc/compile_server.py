"""The compiler process: runs BCC in its own process, under the Python that BCC was packaged for.

Run as a script (`python3 -I compile_server.py FD PACKAGE PARENT TEXTS [SLOTS]`), with only the standard library and
BCC. So BCC's LLVM never meets the LLVM of the user's libraries, its output never reaches the notebook, and a crash ends
only one compilation. It compiles; it does not load or attach anything. The process ends with the process PARENT, or,
if PARENT is 0, with the stream, which may then be the standard input and output. TEXTS is "own" for a process that
accepts only texts of `kernel/attach/plan_source.py`, "users" for one that accepts programs of the user who started it.
Processes with the same folder SLOTS are limited in number, and compile one at a time.

Messages on the socket FD: a 4-byte little-endian length, then JSON. Request `{"text"}`, for users' programs also
`{"kernel_source"}`; answer `{"functions": {name: base64 of the bytecode}, "maps": [...], "output": what clang printed}`
or `{"error": message, "output"}`, with a `"code"` if the cause is not the C text. The descriptors of the
program's maps are sent with the answer, in the order of `maps`.

Clients of a process for our own texts are untrusted; the lab's guest is one. No part of a request
becomes an option of clang. Before the first request the process confines itself (sandbox.py); each text is compiled in
a child process that is confined further and has resource limits.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
import importlib.util
import json
import os
import re
import select
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).resolve().parent
HEADERS = _HERE / "headers"
TEMPLATES = next(
    folder for folder in (_HERE.parents[1] / "bpf" / "kernel", _HERE.parents[2] / "bpf" / "kernel") if folder.is_dir()
)

LARGEST_REQUEST = 10 << 20
CPU_S = 45
"""Less than the time that clients wait for an answer."""
MEMORY = 2 << 30
"""Address space; BCC's libraries take 0.3 GB."""
SLOTS = 8
_PRINTED = 1 << 20
_OUT_OF_MEMORY = re.compile("out of memory|bad_alloc|allocation failed", re.IGNORECASE)


def beside(name: str) -> Any:
    """Import a module next to this script, whose folder is not on the search path."""
    return _loaded(f"accel_magic_{name}", _HERE / f"{name}.py")


def _loaded(name: str, file: Path, folders: list[str] | None = None) -> Any:
    """Import a module from its file, a package with its folders."""
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise ImportError(file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_bcc(package: str) -> Any:
    """Import BCC from its folder, without making other packages of the distribution importable."""
    if importlib.util.find_spec("bcc") is None:
        _loaded("bcc", Path(package, "__init__.py"), [package])
    import bcc

    return bcc


def declare(library: Any) -> Any:
    """Declare types of library functions that the bcc module does not declare."""
    for name, result in (
        ("bpf_num_tables", ctypes.c_size_t),
        ("bpf_table_name", ctypes.c_char_p),
        ("bpf_table_fd_id", ctypes.c_int),
        ("bpf_table_key_size_id", ctypes.c_size_t),
        ("bpf_table_leaf_size_id", ctypes.c_size_t),
        ("bpf_table_key_desc_id", ctypes.c_char_p),
        ("bpf_table_leaf_desc_id", ctypes.c_char_p),
    ):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = [ctypes.c_void_p] if name == "bpf_num_tables" else [ctypes.c_void_p, ctypes.c_size_t]
    return library


def ring_fields(library: Any, module: int, name: bytes) -> list[list[str]]:
    """Fields of the struct given to `ringbuf_output`, as [name, C type] pairs; empty if BCC does not know them."""
    count = library.bpf_perf_event_fields(module, name)
    return [library.bpf_perf_event_field(module, name, index).decode().split("#") for index in range(count)]


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """A rejected request: the code and message of its answer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Compiler:
    """Compiles one program at a time and captures clang's output."""

    def __init__(self, package: str, *, own: bool) -> None:
        self.own = own
        self.package = package
        self.sandbox = beside("sandbox")
        self.own_text = beside("own_text")
        # Captures what the C++ side prints on stderr.
        self.output = os.memfd_create("output")
        os.dup2(self.output, 2)
        bcc = load_bcc(package)
        self.library = declare(bcc.lib)

        class Program(bcc.BPF):  # type: ignore[misc, name-defined]
            def _trace_autoload(self) -> None:
                """Attach nothing; the notebook's process does that."""

        self.program_class = Program

    def confine(self, *, locks: bool) -> None:
        """Drop everything that serving does not need. Raises OSError if the kernel cannot confine a process."""
        if self.own:
            # BCC searches headers in the working folder first, and clang in folders given by environment variables.
            os.chdir(TEMPLATES)
            os.environ.clear()
            readable = [str(HEADERS), str(TEMPLATES), self.package, str(Path(os.__file__).parent)]
            self.sandbox.drop_capabilities(readable)
            self.sandbox.restrict_files(readable)
        self.sandbox.restrict_calls(self.sandbox.Needs(forks=True, maps=not self.own, locks=locks))

    def confine_child(self) -> None:
        """Limit one compilation's resources, and drop permissions that only the parent needs."""
        self.sandbox.end_with_parent()
        self.sandbox.limit(cpu_s=CPU_S, memory=MEMORY, written=_PRINTED)
        self.sandbox.restrict_calls(self.sandbox.Needs(maps=not self.own))

    def printed(self) -> str:
        """Return and clear the output since the last call."""
        os.lseek(self.output, 0, os.SEEK_SET)
        text = os.read(self.output, _PRINTED).decode("utf-8", "replace")
        os.ftruncate(self.output, 0)
        os.lseek(self.output, 0, os.SEEK_SET)
        return text

    def compile(self, request: Any) -> tuple[dict[str, Any], list[int]]:
        """Answer one request: the message and its descriptors. Raises Refused."""
        text, os.environ["BCC_KERNEL_SOURCE"] = self._accepted(request)
        try:
            program = self.program_class(text=text.encode(), cflags=[f"-I{TEMPLATES}"])
        except Exception as error:  # BCC raises Exception itself for all errors
            if isinstance(error, MemoryError):
                raise
            return {"error": str(error), "output": self.printed()}, []
        library, module = self.library, program.module
        functions = {}
        for index in range(library.bpf_num_functions(module)):
            name = library.bpf_function_name(module, index)
            functions[name.decode()] = base64.b64encode(program.dump_func(name)).decode()
        maps, descriptors = [], []
        for index in range(library.bpf_num_tables(module)):
            name = library.bpf_table_name(module, index)
            descriptors.append(library.bpf_table_fd_id(module, index))
            maps.append(
                {
                    "name": name.decode(),
                    "type": library.bpf_table_type_id(module, index),
                    "fd": descriptors[-1],
                    "entries": library.bpf_table_max_entries_id(module, index),
                    "key_size": library.bpf_table_key_size_id(module, index),
                    "value_size": library.bpf_table_leaf_size_id(module, index),
                    "key": json.loads(library.bpf_table_key_desc_id(module, index) or b"null"),
                    "value": json.loads(library.bpf_table_leaf_desc_id(module, index) or b"null"),
                    "event": ring_fields(library, module, name),
                }
            )
        self.kept = program  # garbage collection would close its maps
        return {"functions": functions, "maps": maps, "output": self.printed()}, descriptors

    def _accepted(self, request: Any) -> tuple[str, str]:
        """Return the text and the folder of the kernel's headers."""
        fields = {"text"} if self.own else {"text", "kernel_source"}
        known = isinstance(request, dict) and request.keys() == fields
        if not known or not all(isinstance(value, str) and "\0" not in value for value in request.values()):
            raise Refused("compiler.bad-request", f"a request needs the text fields {', '.join(sorted(fields))}")
        text = request["text"]
        if not self.own:
            return text, request["kernel_source"]
        templates = {file.name for file in TEMPLATES.iterdir()}
        if len(text) > self.own_text.LONGEST:
            raise Refused(
                "compiler.too-large", f"a text can have at most {self.own_text.LONGEST >> 20} million characters"
            )
        line = self.own_text.foreign_line(text, templates)
        if line is not None:
            raise Refused("compiler.foreign-text", f"this line is not from accel_magic: {line[:80]!r}")
        return text, str(HEADERS)


class Slots:
    """Limits the processes that share a folder, with file locks that are released on exit; no folder means no limit."""

    def __init__(self, folder: str) -> None:
        self.files: list[int] = []
        if folder:
            os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self.files = [os.open(f"{folder}/{place}", flags, 0o600) for place in range(SLOTS + 1)]

    def take(self) -> bool:
        """Take a slot; False if all are taken."""
        return not self.files or any(map(_locked, self.files[1:]))

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other process is compiling."""
        for file in self.files[:1]:
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            for file in self.files[:1]:
                fcntl.flock(file, fcntl.LOCK_UN)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def compile_in_child(compiler: Compiler, connection: socket.socket, body: bytes) -> None:
    """Compile in a child process, which sends the answer; if it ends without one, the parent answers."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            send(connection, ended(status, compiler.printed()), [])
        return
    descriptors: list[int] = []
    try:
        compiler.confine_child()
        answer, descriptors = compiler.compile(json.loads(body))
    except Refused as refused:
        answer = {"error": str(refused), "code": refused.code, "output": ""}
    except MemoryError:
        answer = {"error": _TOO_MUCH_MEMORY, "code": "compiler.memory-limit", "output": ""}
    except (ValueError, RecursionError) as error:
        answer = {"error": f"the request cannot be read: {error}", "code": "compiler.bad-request", "output": ""}
    except BaseException:  # noqa: BLE001 - the parent answers
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXCPU})  # do not interrupt sending
    try:
        send(connection, answer, descriptors)
    finally:
        os._exit(0)


_TOO_MUCH_MEMORY = f"it needs more than {MEMORY >> 30} GiB"


def ended(status: int, printed: str) -> dict[str, Any]:
    """Explain why a compilation ended without an answer, by its exit status or the negated signal number."""
    if status == -signal.SIGXCPU:
        error, code = f"it did not finish in {CPU_S} s of CPU time", "compiler.cpu-limit"
    elif _OUT_OF_MEMORY.search(printed):
        error, code = _TOO_MUCH_MEMORY, "compiler.memory-limit"
    else:
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        error, code = f"LLVM ended with {how}", "compiler.crashed"
    return {"error": error, "code": code, "output": printed}


def receive(connection: socket.socket, size: int) -> bytes | None:
    """Read exactly `size` bytes, or None at the end of the stream."""
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)


def requests(connection: socket.socket, parent: int) -> select.poll | None:
    """Return what to wait with for requests and for the end of `parent`; None if it has ended.

    A forked child of the notebook keeps the connection open, so its end alone would not be seen.
    """
    waiting = select.poll()  # select(2) supports only descriptors up to 1,023
    waiting.register(connection, select.POLLIN)
    if parent:
        try:
            waiting.register(os.pidfd_open(parent), select.POLLIN)
        except ProcessLookupError:
            return None
        if os.getppid() != parent:
            return None
    return waiting


def request(connection: socket.socket) -> bytes | None:
    """Read one request; None at the end of the stream, and for one that is too large, which is answered here."""
    head = receive(connection, 4)
    if head is None:
        return None
    size = struct.unpack("<I", head)[0]
    if size > LARGEST_REQUEST:
        message = f"the maximum size of a request is {LARGEST_REQUEST >> 20} MiB"
        send(connection, {"error": message, "code": "compiler.too-large", "output": ""}, [])
        return None
    return receive(connection, size)


def serve(connection: socket.socket, package: str, parent: int, *, own: bool, slots: str = "") -> None:
    """Answer requests until the connection is closed or the notebook's process, if `parent` is not 0, has ended."""
    waiting = requests(connection, parent)
    if waiting is None:
        return
    places = Slots(slots)
    if not places.take():
        send(connection, {"error": f"{SLOTS} are already running", "code": "compiler.busy"}, [])
        return
    try:
        compiler = Compiler(package, own=own)
    except Exception as error:  # noqa: BLE001 - the client reports every error to the user
        send(connection, {"error": f"{type(error).__name__}: {error}", "code": "bcc.broken"}, [])
        return
    try:
        compiler.confine(locks=bool(slots))
    except OSError as error:
        send(connection, {"error": str(error), "code": "compiler.no-sandbox"}, [])
        return
    send(connection, {"ready": True}, [])
    while all(file == connection.fileno() for file, _ in waiting.poll()):
        body = request(connection)
        if body is None:
            return
        with places.turn():
            compile_in_child(compiler, connection, body)


def send(connection: socket.socket, message: dict[str, Any], descriptors: list[int]) -> None:
    """Send one message with its descriptors."""
    data = json.dumps(message).encode()
    head = struct.pack("<I", len(data))
    if descriptors:
        socket.send_fds(connection, [head], descriptors)
    else:
        connection.sendall(head)
    connection.sendall(data)


def close_all_but(kept: int) -> None:
    """Close all inherited descriptors except the standard streams and one more."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - by name
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):  # the descriptor used for the listing
                os.close(int(name))


def main() -> None:
    """Serve according to the arguments."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(15, b"accel_magic_bcc", 0, 0, 0)  # PR_SET_NAME, shown by ps
    stream = socket.socket(fileno=os.dup(int(sys.argv[1])))
    close_all_but(stream.fileno())
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):  # stray output must not reach the stream
        os.dup2(nothing, standard)
    serve(stream, sys.argv[2], int(sys.argv[3]), own=sys.argv[4] == "own", slots="".join(sys.argv[5:]))


if __name__ == "__main__":
    main()
