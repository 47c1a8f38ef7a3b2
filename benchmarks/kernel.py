"""A Jupyter kernel with this Python, driven like by a front end, with the arrival time of every message."""

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
    """One execution. Times are from `time.time()`.

    Attributes:
        sent: When the request was sent.
        result: When the execute_result arrived; NaN if there was none.
        idle: When the kernel was done.
        values: Values of the requested expressions.
        html_bytes: Size of the HTML of the result.
        updates: Number of updates of what was displayed.

    """

    sent: float
    result: float
    idle: float
    values: Mapping[str, Any]
    html_bytes: int
    updates: int


class Kernel:
    """A running kernel."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, code: str, *names: str) -> Reply:
        """Execute a cell; `names` are variables (numbers) to return. Raises CellError if the cell raises."""
        sent = time.time()
        request = self._client.execute(code, user_expressions={name: name for name in names})
        result, html, error, updates = float("nan"), "", "", 0
        while True:
            message = self._client.get_iopub_msg(timeout=TIMEOUT_S)
            come = time.time()
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "error":
                error = f"{content['ename']}: {content['evalue']}"
            elif message["msg_type"] == "update_display_data":
                updates += 1
            elif message["msg_type"] == "execute_result":
                result, html = come, content["data"].get("text/html", "")
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                break
        reply = self._reply_to(request)
        if error:  # raised only after the reply, because the kernel aborts requests that arrive earlier
            raise CellError(error)
        found = reply["user_expressions"]
        values = {name: ast.literal_eval(found[name]["data"]["text/plain"]) for name in names}
        return Reply(sent, result, come, values, len(html), updates)

    def _reply_to(self, request: str) -> dict[str, Any]:
        """Content of the reply to a request; late replies to startup requests may arrive first."""
        while True:
            reply = self._client.get_shell_msg(timeout=TIMEOUT_S)
            if reply["parent_header"].get("msg_id") == request:
                return dict(reply["content"])


@contextlib.contextmanager
def new_kernel() -> Iterator[Kernel]:
    """Start a kernel that ends with the block."""
    from jupyter_client.manager import start_new_kernel

    # The kernel's stderr (a warning about unencrypted TCP) is not part of any cell's output.
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=TIMEOUT_S, stderr=subprocess.DEVNULL)
    try:
        yield Kernel(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
