"""`python -m accel_magic.lab.models SOCKET MEMORY LIMIT`: execute models for the emulated NPU, confined.

The arguments are the descriptors of a socket and of shared memory, and a limit on this process's memory in MiB. It can
neither write files, nor create sockets, nor start programs, and read only OpenVINO's files (on kernels without Landlock
also others). It ends with the device.
"""

from __future__ import annotations

import contextlib
import mmap
import resource
import socket
import sys
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from accel_magic.kernel.bcc import sandbox
from accel_magic.lab.models import protocol
from accel_magic.lab.models.graph import Graph, supported_layers
from accel_magic.lab.models.unsupported import UnsupportedError

_MESSAGE_SIZE = 4000
_PORT = '<port id="0" precision="FP32"><dim>1</dim></port>'
_SMALLEST_MODEL = f"""<net name="smallest" version="11"><layers>
<layer id="0" name="a" type="Parameter" version="opset1">
<data shape="1" element_type="f32"/><output>{_PORT}</output></layer>
<layer id="1" name="b" type="Result" version="opset1"><input>{_PORT}</input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>""".encode()


class Server:
    """Answers the device's requests, one by one.

    Args:
        connection: Socket to the device.
        memory: Descriptor of the shared memory.

    """

    def __init__(self, connection: socket.socket, memory: int) -> None:
        self._connection = connection
        self._fd = memory
        self._core = ov.Core()
        self._graphs: dict[int, Graph] = {}

    def warm_up(self) -> None:
        """Load the libraries that read and execute models, which opens files."""
        self._core.read_model(_SMALLEST_MODEL, ov.Tensor(ov.Type.u8, ov.Shape([0])))
        value, weights = ops.parameter([1, 8], np.float32), ops.constant(np.ones((8, 8), np.float32))
        model = ov.Model([ops.relu(ops.matmul(value, weights, False, False))], [value])
        self._core.compile_model(model, "CPU")(np.ones((1, 8), np.float32))

    def serve(self) -> None:
        """Answer until the device closes the connection."""
        while request := self._connection.recv(protocol.REQUEST.size):
            kind, _, key, size, given = protocol.REQUEST.unpack(request)
            with contextlib.closing(mmap.mmap(self._fd, size)) as memory:
                view = memoryview(memory)
                status, answered = self._answer(kind, key, view, given)
                view.release()
            self._connection.sendall(protocol.ANSWER.pack(kind, status, key, answered))

    def _answer(self, kind: int, key: int, memory: memoryview, given: int) -> tuple[int, int]:
        try:
            if kind == protocol.EXECUTE:
                return protocol.DONE, self._graphs[key].execute(memory[:given], memory[given:])
            return protocol.DONE, _write(memory, self._content(kind, key, memory[:given]))
        except UnsupportedError as error:
            text = str(error)
        except Exception as error:  # noqa: BLE001 -- anything that OpenVINO raises is the answer
            text = f"{type(error).__name__}: {error}"
        return protocol.FAILED, _write(memory, text.encode()[:_MESSAGE_SIZE])

    def _content(self, kind: int, key: int, given: memoryview) -> bytes:
        if kind == protocol.LOAD:
            graph = self._graphs[key] = Graph(self._core, given)
            return graph.described
        if kind == protocol.QUERY:
            return supported_layers(self._core, given)
        self._graphs.pop(key, None)
        return b""


def _write(memory: memoryview, content: bytes) -> int:
    if len(content) > len(memory):
        raise UnsupportedError(f"the model's description has {len(content)} bytes: at most {len(memory)} are possible")
    memory[: len(content)] = content
    return len(content)


def main() -> None:
    """Serve until the device ends."""
    connection, memory, limit = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]) << 20
    sandbox.end_with_parent()
    Path("/proc/self/oom_score_adj").write_text("1000")  # if memory is short, the kernel ends this process first
    server = Server(connection, memory)
    server.warm_up()
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libraries = [str(Path(ov.__file__).parent)]  # models are read by libraries that are found by looking
    sandbox.drop_capabilities(libraries)
    sandbox.restrict_files(libraries)
    sandbox.restrict_calls(sandbox.Needs(computes=True))
    connection.sendall(protocol.READY)
    server.serve()


if __name__ == "__main__":
    main()
