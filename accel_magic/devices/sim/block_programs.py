"""Programs that run once for a whole block of a kernel, between the kernel's instructions; they take no virtual time.

Each is a kernel of the same module. It runs as the first thread of the block that it is for, with the same identity
registers and global memory, but with other registers and other local memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.devices.sim import specials
from accel_magic.devices.sim.binding import bind, parameters, reachable
from accel_magic.devices.sim.device_memory import MemoryRegion
from accel_magic.devices.sim.faults import Violation
from accel_magic.devices.sim.lane_state import FIRST_KEY, NOWHERE, ExecutionState
from accel_magic.devices.sim.warps import EndlessLimits, Runner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.devices.sim.executable import BlockProgram, Executable, ExecutableFunction

ENTER: Final = "BLOCK_ENTER"
EXIT: Final = "BLOCK_EXIT"
STEAL: Final = "STEAL"
"""Places of programs: when a block begins, when its last thread has ended, and when a worker has no block left."""
_RESULT_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Moment:
    """What a program is given, besides its place and launch: fields of `struct gpu_block_ctx` in bpf/gpu/accel_gpu.h.

    Attributes:
        block: The block's number.
        time: Virtual time in cycles.
        worker: The slot that runs the block.
        executed: Blocks that the worker has finished.
        stolen: Blocks that it took from other workers.
        left: Blocks of the launch that have not begun.
        victim: The worker to take a block from.
        victim_left: How many of its blocks have not begun.

    """

    block: int
    time: int
    worker: int
    executed: int
    stolen: int
    left: int
    victim: int = 0
    victim_left: int = 0


class BlockPrograms:
    """The programs of one launch. `close` frees their memory.

    Args:
        program: The module.
        kernel: The kernel that is launched.
        state: The state of its lanes.
        multiprocessors: Worker w is on multiprocessor w % multiprocessors.
        limits: When one run is stopped as endless.

    """

    def __init__(
        self,
        program: Executable,
        kernel: ExecutableFunction,
        state: ExecutionState,
        multiprocessors: int,
        limits: EndlessLimits,
    ) -> None:
        self._heap = state.heap
        self._result = self._heap.allocate(_RESULT_BYTES) if kernel.blocks else 0
        self._ready = [
            (one.place, _Ready(one, program, state, multiprocessors, limits, self._result)) for one in kernel.blocks
        ]
        self.places = frozenset(place for place, _ in self._ready)

    def close(self) -> None:
        """Free memory."""
        if self._result:
            self._heap.free(self._result)

    def run(self, place: str, moment: Moment) -> bool:
        """Run the programs of a place. Returns whether all of them returned another number than 0.

        Raises:
            Violation: A program faulted.

        """
        answers = [ready.run(moment) for at, ready in self._ready if at == place]
        return all(answers)


class _Ready:
    """A program with its own lane, which is used again for each block."""

    def __init__(  # noqa: PLR0917 - one call
        self,
        requested: BlockProgram,
        program: Executable,
        kernel: ExecutionState,
        multiprocessors: int,
        limits: EndlessLimits,
        result: int,
    ) -> None:
        self._requested = requested
        self._program = program
        self._function = next(one for one in program.functions if one.name == requested.entry)
        local = sum(one.frame for one in reachable(program, self._function))
        shape = replace(kernel.shape, slots=1, local=local)
        nothing = MemoryRegion(np.zeros(0, np.uint8))
        self._state = ExecutionState(shape, kernel.heap, nothing, self._function.parameter_bytes, kernel.launch)
        bind(program, self._function, self._state, multiprocessors)
        self._state.exists[1:] = False
        self._multiprocessors = multiprocessors
        self._limits = limits
        self._result = result
        self._identity = [(name, self._state.registers[at]) for name, at in program.arrays.specials.items()]

    def run(self, moment: Moment) -> bool:
        """Run it once. Returns whether its return value is not 0."""
        state = self._state
        state.parameters = MemoryRegion(parameters(self._function, self._arguments(moment)))
        state.block_number[0] = moment.block
        state.clock[:] = moment.time
        state.live[0] = 1
        state.ended[0] = False
        state.frame[0] = 0
        state.key[:] = NOWHERE
        state.key[0] = FIRST_KEY | self._function.entry
        for name, register in self._identity:
            if specials.changes(name):
                specials.fill(name, register, state, self._multiprocessors)
            elif name == "%smid":
                register[:] = moment.worker % self._multiprocessors
        result = state.heap.view(self._result, _RESULT_BYTES)
        result[:] = 0
        try:
            Runner(self._program, state, _Begun(), self._limits).run()
        except Violation as violation:
            raise _outside(violation, moment) from None
        return bool(result.any())

    def _arguments(self, moment: Moment) -> Sequence[int]:
        """Values of the parameters, in the order of `gpu.program.context.BLOCK`."""
        return (
            *(moment.block, moment.time, self._state.launch),
            *(moment.worker, self._requested.kernel, self._requested.site),
            *(moment.executed, moment.stolen, moment.left, moment.victim, moment.victim_left),
            self._result,
        )


class _Begun:
    """For a `Runner` whose only block has begun."""

    held = False

    def refill(self, state: ExecutionState) -> None:
        """Do nothing."""


def _outside(violation: Violation, moment: Moment) -> Violation:
    """Describe a fault without its lane, which is not one of the kernel's."""
    where = f"in a program for block {moment.block}"
    return Violation(
        violation.what,
        site=violation.site,
        code=violation.code,
        address=violation.address,
        why=f"{violation.why}; {where}" if violation.why else where,
        fix=violation.fix,
    )
