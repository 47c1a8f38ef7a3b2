"""Exercise 9: give the elements that a branch treats alike to the same warp, without changing any result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from accel_magic.errors import AccelMagicError
from accel_magic.workshop.exercise import Exercise, Remark, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from accel_magic.devices.sim.executable import Segment
    from accel_magic.devices.sim.lane_state import ExecutionState

    Numbers = NDArray[np.uint32]
    Side = Callable[[Numbers], Numbers]
    Condition = Callable[[NDArray[np.int64]], NDArray[np.bool_]]

THREADS: Final = 384
"""Threads of a block; all periods of conditions divide it into whole warps."""
SAME_CODE: Final = 60
"""Seeds that differ by a multiple of this have the same definitions, so that the same answer is right."""
_WARP: Final = 32
_MOST_SPLIT: Final = 0.05
"""Share of the warps that reach a branch."""
_LEAST_SAVED: Final = 0.9
"""Instructions of warps, as a share of the starting kernel's: a kernel with more computes both sides."""
_CONDITIONS: Final[tuple[tuple[str, Condition], ...]] = (
    ("(i) % 2 == 1", lambda i: i % 2 == 1),
    ("(i) % 3 == 1", lambda i: i % 3 == 1),
    ("(i) / 2 % 2 == 0", lambda i: i // 2 % 2 == 0),
    ("(i) % 4 == 3", lambda i: i % 4 == 3),
    ("(i) % 6 > 2", lambda i: i % 6 > 2),
)
"""Those that split warps: in C and in Python."""
_BLOCKWISE: Final[tuple[str, Condition]] = (f"(i) / {THREADS} % 2 == 0", lambda i: i // THREADS % 2 == 0)
KERNEL: Final = """
extern "C" __global__ void work(unsigned *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned v = x[i];
    if (FIRST(i))
        for (int k = 0; k < ROUNDS; k++) v = (v ^ v >> 15) * 0x2c1b3c6du;
    else
        for (int k = 0; k < ROUNDS; k++) v ^= v << 13, v ^= v >> 17, v ^= v << 5;
    if (SECOND(i))
        for (int k = 0; k < ROUNDS; k++) v = (v ^ v >> 16) * 0x45d9f3bu;
    else
        for (int k = 0; k < ROUNDS; k++) v ^= v << 7, v ^= v >> 9, v ^= v << 8;
    x[i] = v;
}
"""
"""The starting kernel, without the definitions of `FIRST`, `SECOND` and `ROUNDS`."""


def _multiplied(shift: int, factor: int) -> Side:
    return lambda v: (v ^ v >> np.uint32(shift)) * np.uint32(factor)


def _shifted(first: int, second: int, third: int) -> Side:
    def side(v: Numbers) -> Numbers:
        v = v ^ v << np.uint32(first)
        v = v ^ v >> np.uint32(second)
        return v ^ v << np.uint32(third)

    return side


_SIDES: Final = (
    (_multiplied(15, 0x2C1B3C6D), _shifted(13, 17, 5)),
    (_multiplied(16, 0x45D9F3B), _shifted(7, 9, 8)),
)
"""A round of each side of the two branches of `KERNEL`."""


@dataclass(frozen=True)
class Launch:
    """What one launch of a kernel did.

    Attributes:
        result: The numbers that it left.
        split: Largest share of the warps that reached a branch and went both ways there.
        instructions: Instructions of warps.

    """

    result: Numbers
    split: float
    instructions: int


class Divergence(Exercise):
    """Two branches: one goes the same way for all elements of a block, the other alternates within each warp."""

    number = 9
    name = "divergence"
    title = "Which branch splits the warps?"
    minutes = 8
    needs = "nothing"
    answers: ClassVar = {"whole": "CUDA C of a kernel `work` with the same arguments, as a text"}
    traces = ("t", "t2")
    hints = (
        (
            "`t.tools['branchdiv']` has a row for each branch: `split` of `warps` went both ways. `line` counts the "
            "lines of the program, whose first three lines are definitions."
        ),
        (
            "Leave the conditions and their sides as they are. What can change is which thread works on which element: "
            "only the line `int i = ...`."
        ),
        (
            "Sort the work within a block of 384 elements. If the condition repeats after m elements, let the first "
            "384 / m threads take the elements 0, m, 2m, ..., the next ones 1, m + 1, 2m + 1, ..., and so on."
        ),
    )
    takeaway = "Threads are cheap to rename. Sort the work so that a warp goes one way, and leave the results alone."
    wrong: ClassVar = {
        "still-split": "A branch still splits its warps: do the 32 lanes of a warp have elements of one kind?",
        "both-sides": (
            "No branch splits a warp any more, but every warp computes both sides, and that is what a split costs. "
            "Each element needs one side only."
        ),
        "permuted": "All results are there, but not in their places: element i of the result belongs to element i.",
        "other-condition": "Each element went through one of the sides, but some through the wrong one.",
        "not-computed": "Some elements are as they were: no thread has worked on them.",
        "one-size": "That is right for as many elements as in the notebook only. What assumes their number?",
    }

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        kind = seed % SAME_CODE
        both = [_CONDITIONS[kind % len(_CONDITIONS)], _BLOCKWISE]
        self._conditions = both if kind % 2 else both[::-1]
        self._rounds = 9 + kind % 12
        self._blocks = self.random.randint(4, 7)
        self._numbers = np.random.default_rng(self.random.getrandbits(64))

    @property
    def conditions(self) -> str:
        """Definitions of the conditions, and of the number of rounds."""
        first, second = (condition for condition, _ in self._conditions)
        return f"#define FIRST(i) ({first})\n#define SECOND(i) ({second})\n#define ROUNDS {self._rounds}\n"

    def ran(self) -> bool:
        """Whether an answer can be judged: always, because it is code."""
        return True

    def numbers(self, blocks: int = 0) -> Numbers:
        """Return random numbers for so many blocks; uint32, shape (384 * blocks,)."""
        return self._numbers.integers(0, 1 << 32, THREADS * (blocks or self._blocks), np.uint32)

    def judge(self, answers: Mapping[str, Any]) -> list[Remark]:
        """Compare with numpy, and count split warps and instructions while the simulated device runs the kernel."""
        source = text(answers, "whole")
        for blocks in (self._blocks, self._blocks + 4):
            numbers = self.numbers(blocks)
            try:
                launch = run(source, numbers)
            except (AccelMagicError, UnicodeError) as error:
                return [self._failed(blocks, str(error))]
            if not np.array_equal(launch.result, self.right(numbers)):
                return [self._differs(numbers, launch.result)]
        return [
            Remark("whole", True, "The results equal numpy's, and are in their places."),
            self._speed(launch, run(self.conditions + KERNEL, numbers)),
        ]

    def _failed(self, blocks: int, error: str) -> Remark:
        if blocks == self._blocks:
            return Remark("whole", False, error)
        return Remark("whole", False, f"{self.wrong['one-size']} With {THREADS * blocks:,}: {error}", "one-size")

    def right(self, numbers: Numbers) -> Numbers:
        """Compute with numpy what the kernel computes."""
        i = np.arange(len(numbers))
        for sides, (_, condition) in zip(_SIDES, self._conditions, strict=True):
            numbers = self._either(numbers, sides, condition(i))
        return numbers

    def _either(self, numbers: Numbers, sides: tuple[Side, Side], chosen: NDArray[np.bool_]) -> Numbers:
        yes, no = (self._repeated(side, numbers) for side in sides)
        return np.where(chosen, yes, no)

    def _repeated(self, side: Side, numbers: Numbers) -> Numbers:
        for _ in range(self._rounds):
            numbers = side(numbers)
        return numbers

    def _differs(self, numbers: Numbers, result: Numbers) -> Remark:
        right = self.right(numbers)
        if len(numbers) != THREADS * self._blocks:
            return self.mistake("whole", "one-size")
        if np.array_equal(np.sort(result), np.sort(right)):
            return self.mistake("whole", "permuted")
        if (result == numbers).any():
            return self.mistake("whole", "not-computed")
        if (self._possible(numbers) == result).any(0).all():
            return self.mistake("whole", "other-condition")
        return Remark(
            "whole", False, f"{int((result != right).sum()):,} of {len(right):,} numbers differ from numpy's."
        )

    def _possible(self, numbers: Numbers) -> NDArray[np.uint32]:
        """Return what each element can become, over all ways through the two branches; shape (4, numbers)."""
        after = [self._repeated(side, numbers) for side in _SIDES[0]]
        return np.array([self._repeated(side, one) for side in _SIDES[1] for one in after])

    def _speed(self, launch: Launch, start: Launch) -> Remark:
        if launch.split > _MOST_SPLIT:
            return self.mistake("whole", "still-split")
        share = launch.instructions / start.instructions
        if share > _LEAST_SAVED:
            return self.mistake("whole", "both-sides")
        split = f"No branch splits more than {100 * launch.split:.0f} % of its warps"
        return Remark("whole", True, f"{split}, and {100 * share:.0f} % of the instructions are left.")


def run(source: str, numbers: Numbers) -> Launch:
    """Run a kernel `work` on a simulated device that counts the warps that split.

    Raises:
        AccelMagicError: The kernel does not compile, or stopped with a fault.

    """
    from accel_magic.devices.sim import SimulatedDevice
    from accel_magic.gpu.adapters import nvrtc

    device = SimulatedDevice()
    module = device.load(nvrtc.compile(source))
    counts = [_Counted(segment) for segment in module.program.segments]
    address = device.allocate(numbers.nbytes)
    device.copy_in(address, numbers)
    launch = device.launch(module, "work", len(numbers) // THREADS, THREADS, [address, len(numbers)])
    result = device.copy_out(address, numbers.nbytes).view(np.uint32)
    return Launch(result, max(one.split / max(one.warps, 1) for one in counts), launch.warp_instructions)


class _Counted:
    """Counts the warps that execute a segment's end, and those whose lanes continue at different places.

    Args:
        segment: Its end is replaced.

    """

    def __init__(self, segment: Segment) -> None:
        self.warps = self.split = 0
        self._end = segment.end
        segment.end = self

    def __call__(self, state: ExecutionState, key: int) -> int:
        lanes = state.lanes()
        following = self._end(state, key)
        warps = lanes // _WARP
        self.warps += len(np.unique(warps))
        if following < 0:  # each lane has a place of its own
            self.split += len(np.unique(np.stack([warps, state.key[lanes]]), axis=1).T) - len(np.unique(warps))
        return following


EXERCISE = Divergence
