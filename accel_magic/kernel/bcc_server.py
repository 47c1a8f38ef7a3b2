"""The compiler process: BCC, alone in a process of its own, run by the Python it was packaged for.

Run as a script (`python3 -I bcc_server.py FD PACKAGE PARENT`), with the standard library and BCC only. BCC's LLVM thus
never meets the LLVM of the user's own libraries, its prints never reach the notebook, and its crashes end this process
alone. It compiles; it loads and attaches nothing. PARENT is the process it ends with; 0 for one that ends with the
stream, which may then be the standard input and output.

Messages on the socket FD: a 4-byte little-endian length, then JSON. Request `{"text", "kernel_source", "flags"}`;
answer `{"functions": {name: base64 of the bytecode}, "maps": [...], "output": what clang printed}` or
`{"error": message, "output"}`. The descriptors of the program's maps travel with the answer, in the order of `maps`.
"""

from __future__ import annotations

import base64
import ctypes
import importlib.util
import json
import os
import select
import signal
import socket
import struct
import sys
from typing import Any


def load_bcc(package: str) -> Any:
    """Import BCC from its folder alone: nothing else of the distribution's packages comes within reach."""
    if importlib.util.find_spec("bcc") is None:
        location = f"{package}/__init__.py"
        spec = importlib.util.spec_from_file_location("bcc", location, submodule_search_locations=[package])
        assert spec is not None  # noqa: S101 - it names a file
        assert spec.loader is not None  # noqa: S101
        module = importlib.util.module_from_spec(spec)
        sys.modules["bcc"] = module
        spec.loader.exec_module(module)
    import bcc

    return bcc


def declare(library: Any) -> Any:
    """Give types to the calls that bcc's own module leaves without."""
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
    """Fields of the struct given to `ringbuf_output`, as [name, C type] pairs; empty where BCC cannot tell."""
    count = library.bpf_perf_event_fields(module, name)
    return [library.bpf_perf_event_field(module, name, index).decode().split("#") for index in range(count)]


class Compiler:
    """Compiles one program at a time and tells what clang printed."""

    def __init__(self, package: str) -> None:
        # Whatever the C++ side prints on stderr lands in this file, to be handed on as text.
        self.output = os.memfd_create("output")
        os.dup2(self.output, 2)
        bcc = load_bcc(package)
        self.library = declare(bcc.lib)

        class Program(bcc.BPF):  # type: ignore[misc, name-defined]
            def _trace_autoload(self) -> None:
                """Attach nothing: the notebook's process does that."""

        self.program_class = Program

    def printed(self) -> str:
        """Return and forget what was printed since the last call."""
        os.lseek(self.output, 0, os.SEEK_SET)
        text = os.read(self.output, 1 << 20).decode("utf-8", "replace")
        os.ftruncate(self.output, 0)
        os.lseek(self.output, 0, os.SEEK_SET)
        return text

    def compile(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[int], Any]:
        """Answer one request: (message, descriptors, the compiled program or None)."""
        os.environ["BCC_KERNEL_SOURCE"] = request["kernel_source"]
        try:
            program = self.program_class(text=request["text"].encode(), cflags=request["flags"])
        except Exception as error:  # noqa: BLE001 - BCC raises it bare, for everything
            return {"error": str(error), "output": self.printed()}, [], None
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
        return {"functions": functions, "maps": maps, "output": self.printed()}, descriptors, program


def receive(connection: socket.socket, size: int) -> bytes | None:
    """Read exactly `size` bytes, or None at the end of the stream."""
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            return None
        data += part
    return data


def serve(connection: socket.socket, package: str, parent: int) -> None:
    """Answer requests until the notebook's process is gone."""
    try:
        compiler = Compiler(package)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other side tells the user
        send(connection, {"error": f"{type(error).__name__}: {error}"}, [])
        return
    send(connection, {"ready": True}, [])
    while parent in (0, os.getppid()):
        if not select.select([connection], [], [], 1.0)[0]:
            continue
        head = receive(connection, 4)
        if head is None:
            return
        body = receive(connection, struct.unpack("<I", head)[0])
        if body is None:
            return
        answer, descriptors, program = compiler.compile(json.loads(body))
        send(connection, answer, descriptors)
        if program is not None:
            program.cleanup()


def send(connection: socket.socket, message: dict[str, Any], descriptors: list[int]) -> None:
    """Send one message with its descriptors."""
    data = json.dumps(message).encode()
    head = struct.pack("<I", len(data))
    if descriptors:
        socket.send_fds(connection, [head], descriptors)
    else:
        connection.sendall(head)
    connection.sendall(data)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(15, b"accel_magic_bcc", 0, 0, 0)  # PR_SET_NAME, for whoever looks at ps
    stream = socket.socket(fileno=os.dup(int(sys.argv[1])))
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):  # what is printed by mistake must not land in the stream
        os.dup2(nothing, standard)
    serve(stream, sys.argv[2], int(sys.argv[3]))
