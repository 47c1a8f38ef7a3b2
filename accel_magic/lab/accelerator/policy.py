"""Attach a policy to a driver: its object is loaded by libbpf and checked by the kernel's verifier."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from accel_magic import forks
from accel_magic.closing import Closing
from accel_magic.errors import MachineError, ProgramError
from accel_magic.lab.accelerator.accelerator_programs import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT_S: Final = 60.0
_MOST_BYTES: Final = 256
_LAST_LINES: Final = 20


class PolicyRefusedError(ProgramError):
    """The kernel refused to load or to attach a policy; `log` is what libbpf and the verifier said."""

    def __init__(self, name: str, log: str) -> None:
        lines = [line for line in log.splitlines() if line and not line.startswith("processed ")]
        super().__init__(
            f"the kernel refused the policy {name}",
            why="\n       ".join(lines[-_LAST_LINES:]),
            fix="see the verifier's last lines; the engine `model` names the line of the source",
            code="policy.refused-by-kernel",
        )
        self.log = log


class AttachedPolicy(Closing):
    """A policy that is loaded; it acts between `attach` and `detach`. A context manager.

    A forked child has no part in it: its copies of the descriptors are closed at once.

    Args:
        content: The object.
        name: Its name, for messages.
        program: The loader; by default that of the lab.

    Attributes:
        maps: Descriptors of its maps by name.

    Raises:
        PolicyRefusedError: The verifier refused it.
        MachineError: The loader is not installed.

    """

    _open: ClassVar[weakref.WeakSet[AttachedPolicy]] = weakref.WeakSet()

    def __init__(self, content: bytes, name: str = "policy", program: str | Path | None = None) -> None:
        program = program or shutil.which(NAME)
        if program is None:
            raise MachineError(
                f"there is no {NAME}",
                why="policies are attached in the lab only",
                fix="python -m accel_magic lab run --accelerator -- COMMAND",
                code="accelerator.missing",
            )
        self.name = name
        self.maps: dict[str, int] = {}
        self._files, self._loaded = contextlib.ExitStack(), contextlib.ExitStack()
        folder = Path(tempfile.mkdtemp(prefix="accel_policy-"))
        self._files.callback(shutil.rmtree, folder, ignore_errors=True)
        self._log = folder / "log"
        self._peer, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._loaded.callback(self._peer.close)
        self._open.add(self)
        try:
            self._start(str(program), folder / "policy.bpf.o", content, other)
        except BaseException:
            self.close()
            raise

    def _start(self, program: str, file: Path, content: bytes, other: socket.socket) -> None:
        self._peer.settimeout(_TIMEOUT_S)
        with other, self._log.open("wb") as log:
            file.write_bytes(content)
            self._process = subprocess.Popen(
                [program, str(file), str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(other.fileno(),),
                start_new_session=True,  # an interrupt of the notebook must not detach it halfway
            )
        self._loaded.callback(self._end)
        while (reported := self._told()) != "!loaded":
            if not reported:
                raise self._refused()

    def attach(self) -> None:
        """Attach it.

        Raises:
            PolicyRefusedError: The kernel refused, for instance because another policy is attached.

        """
        self._peer.send(b"attach")
        if self._told() != "!attached":
            raise self._refused()

    def close(self) -> None:
        """Detach it and free its maps; a second call does nothing."""
        self.detach()
        self._close_maps()
        self._files.close()

    def _close_maps(self) -> None:
        maps, self.maps = self.maps, {}
        for descriptor in maps.values():
            os.close(descriptor)

    def detach(self) -> None:
        """Detach it; its maps can be read until `close`."""
        self._loaded.close()

    def _end(self) -> None:
        self._peer.close()
        try:
            self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def abandon(self) -> None:
        """Close this process's descriptors, and leave the rest to its parent."""
        self._files.pop_all()
        self._loaded.pop_all()
        self._close_maps()
        self._peer.close()

    @classmethod
    def close_in_child(cls) -> None:
        """Close the copies of a forked child, which would keep the policy attached."""
        for policy in list(cls._open):
            policy.abandon()

    def _told(self) -> str:
        """Return the next message; "" if the loader has ended. The descriptor of a map is kept."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self._peer, _MOST_BYTES, 1)
        except (TimeoutError, ConnectionError):
            return ""
        text = message.decode(errors="replace")
        for descriptor in descriptors:
            self.maps[text] = descriptor
        return text

    def _refused(self) -> PolicyRefusedError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TIMEOUT_S)
        return PolicyRefusedError(self.name, self._log.read_text(errors="replace"))


forks.in_child(AttachedPolicy.close_in_child)


def attached(
    content: bytes, name: str = "policy", *, values: Mapping[str, Mapping[bytes, bytes]] | None = None
) -> AttachedPolicy:
    """Load a policy, set values in its maps, and attach it; errors as of `AttachedPolicy`.

    Args:
        content: The object.
        name: Its name, for messages.
        values: By map: key -> value, set before it is attached.

    """
    from accel_magic.kernel import bpf_syscalls

    policy = AttachedPolicy(content, name)
    try:
        for table, entries in (values or {}).items():
            for key, value in entries.items():
                bpf_syscalls.map_update(policy.maps[table], key, value)
        policy.attach()
    except BaseException:
        policy.close()
        raise
    return policy
