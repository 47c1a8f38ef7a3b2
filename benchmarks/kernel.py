"""A Jupyter kernel of this Python, driven as a front end does, with the time at which every message comes."""

from __future__ import annotations

import ast
import contextlib
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TIMEOUT_S = 120


class CellError(Exception):
    """A cell of the benchmark raised."""


@dataclass(frozen=True)
class Reply:
    """One execution. Times are those of `time.time()`.

    Attributes:
        sent: When the request was sent.
        result: When the execute_result came; NaN when none did.
        idle: When the kernel was done.
        values: Of the expressions asked for.
        html_bytes: Size of the HTML of the result.

    """

    sent: float
    result: float
    idle: float
    values: Mapping[str, Any]
    html_bytes: int


class Kernel:
    """A running kernel."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, code: str, *names: str) -> Reply:
        """Execute a cell; `names` are variables whose values (numbers) are wanted. Raises CellError when it raises."""
        sent = time.time()
        request = self._client.execute(code, user_expressions={name: name for name in names})
        result, html, error = float("nan"), "", ""
        while True:
            message = self._client.get_iopub_msg(timeout=TIMEOUT_S)
            come = time.time()
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "error":
                error = f"{content['ename']}: {content['evalue']}"
            elif message["msg_type"] == "execute_result":
                result, html = come, content["data"].get("text/html", "")
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                break
        reply = self._reply_to(request)
        if error:  # not before the reply: the kernel aborts what is sent until then
            raise CellError(error)
        found = reply["user_expressions"]
        values = {name: ast.literal_eval(found[name]["data"]["text/plain"]) for name in names}
        return Reply(sent, result, come, values, len(html))

    def _reply_to(self, request: str) -> dict[str, Any]:
        """Content of the reply to a request; late replies to the requests of the start may come first."""
        while True:
            reply = self._client.get_shell_msg(timeout=TIMEOUT_S)
            if reply["parent_header"].get("msg_id") == request:
                return dict(reply["content"])


@contextlib.contextmanager
def new_kernel() -> Iterator[Kernel]:
    """Start a kernel; it ends with the block."""
    from jupyter_client.manager import start_new_kernel

    # What the kernel prints on stderr (a warning about unencrypted TCP) is not part of any cell's output.
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=TIMEOUT_S, stderr=subprocess.DEVNULL)
    try:
        yield Kernel(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
