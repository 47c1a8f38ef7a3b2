"""The engine `kernel`: a policy in the kernel, attached to the memory of the lab's accelerator."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from accel_magic.gpu.maps import layout, views
from accel_magic.gpu.maps.content import MapContent
from accel_magic.gpu.program.helpers import HASHES
from accel_magic.kernel import bpf
from accel_magic.lab.accelerator import Accelerator, attached
from accel_magic.policies.engine import Counts, Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from accel_magic.gpu.program.model import MapSpec
    from accel_magic.policies.policy import Policy

_TENANT: Final = (sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()")
_PER_CPU: Final = (5, 6)


class Kernel:
    """The accelerator's memory under a policy; like `accel_magic.policies.engine.Model`. A context manager.

    Each tenant is a process that does nothing. Accesses are made on one processor, so that maps with a value for each
    have all that the policy counted in one place.

    Raises:
        MachineError: There is no accelerator, or a size is out of range.
        PolicyRefusedError: The kernel's verifier refused the policy, or another one is attached.

    """

    def __init__(
        self, policy: Policy | None, *, chunks: int, blocks: int, tenants: int = 1, observe: bool = True
    ) -> None:
        self._policy = policy
        self._processor = min(os.sched_getaffinity(0))
        self._stack = contextlib.ExitStack()
        try:
            self._accelerator = self._stack.enter_context(Accelerator())
            processes = [self._tenant() for _ in range(tenants)] if tenants > 1 else []
            self._accelerator.memory(chunks, blocks, observe=observe, processes=processes)
            self._attached = None
            if policy:
                maps = {spec.name: spec for spec in policy.object.maps}
                values = {
                    name: {key: _repeated(value, maps[name]) for key, value in given.items()}
                    for name, given in policy.values.items()
                }
                self._attached = self._stack.enter_context(attached(policy.object.data, policy.name, values=values))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stack.close()

    def _tenant(self) -> int:
        process = self._stack.enter_context(subprocess.Popen(_TENANT, stdin=subprocess.PIPE))
        return process.pid  # it ends when its standard input is closed, at the latest with this process

    def run(self, pages: NDArray[Any], tenants: NDArray[Any] | None = None) -> NDArray[Any]:
        """Access pages in turn; arguments and result as of `Model.run`."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self._processor})
        try:
            return self._accelerator.replay(pages, tenants)
        finally:
            os.sched_setaffinity(0, before)

    def maps(self) -> tuple[MapContent, ...]:
        """Copy the policy's maps."""
        if self._policy is None or self._attached is None:
            return ()
        plan = layout.plan_memory(self._policy.maps, 1, limit=1 << 33)
        return tuple(
            MapContent(self._policy.name, spec, self._content(spec, kind, region), 0)
            for spec, kind, region in zip(
                self._policy.maps, (one.type for one in self._policy.object.maps), plan.maps, strict=True
            )
        )

    def _content(self, spec: MapSpec, kind: int, region: layout.Region) -> NDArray[np.uint8]:
        """The map's content in the layout of the model's."""
        assert self._attached is not None  # noqa: S101 - the caller has checked
        raw = np.zeros(region.bytes, np.uint8)
        raw[: len(region.initial)] = np.frombuffer(bytes(region.initial), np.uint8)
        step = layout.round_up(spec.value_size, 8) if kind in _PER_CPU else 0
        for key, value in _entries(self._attached.maps[spec.name], spec, step):
            start = step * self._processor
            views.update(
                spec,
                raw,
                key if spec.type in HASHES else int.from_bytes(key, "little"),
                value[start : start + spec.value_size],
            )
        return raw

    @property
    def counts(self) -> Counts:
        """What happened since the beginning, as the module counted it."""
        return Counts(**vars(self._accelerator.counts))


def tasks(policy: Policy | None, names: Sequence[str]) -> tuple[tuple[Task, ...], tuple[MapContent, ...]]:
    """Have the kernel ask a scheduling policy about tasks: each is an open file of a thread with that name.

    Returns:
        What it made of each task, and its maps when all were there.

    Raises:
        MachineError, PolicyRefusedError: As `Kernel`.

    """
    name = Path("/proc/thread-self/comm")
    before = name.read_text().rstrip("\n")
    with contextlib.ExitStack() as stack:
        stack.callback(name.write_text, before)
        kernel = stack.enter_context(Kernel(policy, chunks=1, blocks=1))
        made = []
        for one in names:
            name.write_text(one)
            found = stack.enter_context(Accelerator()).task
            made.append(Task(int(found.timeslice_us), int(found.interleave), not found.rejected))
        return tuple(made), kernel.maps()


def _repeated(value: bytes, spec: MapSpec) -> bytes:
    """A value, for each processor if the map has one for each."""
    if spec.type not in _PER_CPU:
        return value
    return value.ljust(layout.round_up(spec.value_size, 8), b"\0") * _possible_processors()


def _entries(descriptor: int, spec: MapSpec, step: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of a map in the kernel; values of all possible processors where `step` is not 0."""
    size = step * _possible_processors() if step else spec.value_size
    value = ctypes.create_string_buffer(size)
    key, following = None, ctypes.create_string_buffer(spec.key_size)
    while True:
        try:
            bpf.map_next_key(descriptor, key, following)
        except FileNotFoundError:
            return
        bpf.map_lookup(descriptor, following, value)
        yield following.raw, value.raw
        key = ctypes.create_string_buffer(following.raw, spec.key_size)


def _possible_processors() -> int:
    return int(Path("/sys/devices/system/cpu/possible").read_text().strip().rpartition("-")[2]) + 1
