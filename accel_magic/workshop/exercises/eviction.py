"""Exercise 10: write an eviction policy for a loop that is larger than memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from accel_magic.errors import AccelMagicError
from accel_magic.workshop.exercise import BadAnswerError, Exercise, Remark, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from accel_magic.policies.page_trace import PageTrace

MEMORY: Final = 60
"""Size of memory: per cent of the blocks that a program accesses."""
MOST_MISSES: Final = 1.3
"""Times the optimum."""
_HIDDEN: Final = 3
"""Traces that a policy is checked with, in addition to the one of the notebook."""
_PAGES = 512
_LANES = 32
_VERIFIER: Final = "gpu.verifier."
_KERNEL: Final = r"""
extern "C" __global__ void hidden(const float *a, float *sums, int loop, int hot, int scan, int rounds, int every) {
    float sum = 0;
    int turn = 0, once = loop + hot;
    for (int round = 1; round <= rounds; round++) {
        for (int i = 0; i < loop; i++) {
            sum += a[(size_t)i * 524288 + threadIdx.x];
            if (i % 2) sum += a[(size_t)(loop + turn++ % hot) * 524288 + threadIdx.x];
        }
        if (round % every == 0)
            for (int i = 0; i < scan; i++) sum += a[(size_t)once++ * 524288 + threadIdx.x];
    }
    sums[threadIdx.x] = sum;
}
"""


@dataclass(frozen=True)
class Program:
    """What a program does with blocks of 2 MiB.

    Attributes:
        loop: Blocks that it accesses in turn.
        hot: Blocks of which it accesses one after every second one of the loop.
        scan: Blocks that it accesses once, after every `every` rounds of the loop.
        rounds: How often it goes through the loop.
        every: Rounds between two scans.

    """

    loop: int
    hot: int
    scan: int
    rounds: int
    every: int

    @classmethod
    def drawn(cls, random: Random) -> Program:
        """Draw one."""
        loop, hot, scan = random.randint(20, 26), random.randint(2, 3), random.randint(2, 3)
        return cls(loop, hot, scan, rounds=24, every=random.randint(6, 8))

    @property
    def total(self) -> int:
        """Number of blocks that it accesses."""
        return self.loop + self.hot + self.scan * (self.rounds // self.every)

    def accesses(self) -> list[int]:
        """Numbers of the blocks that it accesses, in order."""
        blocks: list[int] = []
        turn, once = 0, self.loop + self.hot
        for round_ in range(1, self.rounds + 1):
            for i in range(self.loop):
                blocks.append(i)
                if i % 2:
                    blocks.append(self.loop + turn % self.hot)
                    turn += 1
            if round_ % self.every == 0:
                blocks += range(once, once + self.scan)
                once += self.scan
        return blocks


@dataclass(frozen=True)
class Misses:
    """Misses of a policy and of the driver's default on a trace, relative to the optimum.

    Attributes:
        heard: Of the policy, if the driver hears of accesses.
        faults: Of the policy, if it hears of faults only.
        default_heard: Of the default, likewise.
        default_faults: Of the default, likewise.

    """

    heard: float
    faults: float
    default_heard: float
    default_faults: float

    @property
    def worst(self) -> float:
        """The larger one of the policy's."""
        return max(self.heard, self.faults)


class Eviction(Exercise):
    """A loop over more blocks than memory has, with a few that are accessed often, and others only once."""

    number = 10
    name = "eviction"
    title = "Which block should go?"
    minutes = 12
    needs = "nothing"
    answers: ClassVar = {"policy": "your policy: C in the interface of gpu_ext, as a text"}
    traces = ("t",)
    hints = (
        (
            "`pages['block'].value_counts()` shows three kinds of blocks. Of one kind, there are more than fit: when "
            "the program comes back to such a block, LRU has just evicted it."
        ),
        (
            "No policy keeps the whole loop, so keep a part of it. The block at the head of the list goes next. Which "
            "ones should go first: those that have been there for long, or the one that has just come?"
        ),
        (
            "There is another hook, `gpu_block_activate`, with the same arguments: it is called when a block has come "
            "to memory. It may ask for `NV_GPU_PMM_POSITION_HEAD`. Put both hooks into `struct gpu_mem_ops`."
        ),
        "What `gpu_block_access` does is no less important: blocks that are accessed often must not be at the head.",
    )
    takeaway = "LRU is the worst for a loop that does not fit. Keep a part of it, and decide when blocks come."
    wrong: ClassVar = {
        "unchanged": "That misses as often as the driver's default. Which block goes, and when is it needed?",
        "access-only": (
            "If the driver hears of faults only, your policy is the default again: nothing calls `gpu_block_access` "
            "then. Most GPUs do not count accesses. Decide when a block comes."
        ),
        "hot-blocks": (
            "That keeps a part of the loop, but misses more often if the driver hears of accesses than if it does not: "
            "what does your policy do with a block that is accessed again and again?"
        ),
        "tuned": (
            "That is good for the trace that you have seen, but not for all others of its kind. They have other "
            "numbers of blocks, at other addresses: what does your policy know about this one?"
        ),
        "rejected": "The verifier does not let this policy into a kernel.",
    }

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._program = Program.drawn(self.random)
        self._others = [self._elsewhere(Program.drawn(self.random)) for _ in range(_HIDDEN)]

    def ran(self) -> bool:
        """Whether an answer can be judged: always, because it is code."""
        return True

    def run(self) -> None:
        """Run the program as a kernel of one warp."""
        from accel_magic.gpu.adapters import nvrtc

        program = self._program
        kernel = nvrtc.CpuKernel(nvrtc.compile(_KERNEL), "hidden")
        content, sums = np.zeros(program.total * (2 << 20) // 4, np.float32), np.zeros(_LANES, np.float32)
        content.flags.writeable = False
        kernel[1, _LANES](content, sums, program.loop, program.hot, program.scan, program.rounds, program.every)

    def judge(self, answers: Mapping[str, Any]) -> list[Remark]:
        """Compare with Belady's optimum, on the program and on others of its kind."""
        policy = text(answers, "policy")
        if "struct_ops" not in policy or "\n" not in policy:  # neither a name nor a path
            raise BadAnswerError("policy", "`policy` should be the text of a policy in C, with a `struct gpu_mem_ops`.")
        try:
            own = measured(policy, self._program.accesses())
            if own.worst > MOST_MISSES:
                return [self._misses_often(own)]
            others = [measured(policy, blocks).worst for blocks in self._others]
        except (AccelMagicError, UnicodeError) as error:
            return [self._failed(error)]
        misses = f"misses {own.worst:.2f} times as often as the optimum, the default {own.default_heard:.1f} times."
        return [Remark("policy", True, f"The verifier accepts it, and it {misses}"), self._elsewhere_too(max(others))]

    def _elsewhere(self, program: Program) -> list[int]:
        """Return the accesses of a program whose blocks have other numbers."""
        places = list(range(program.total))
        self.random.shuffle(places)
        return [places[block] for block in program.accesses()]

    def _elsewhere_too(self, worst: float) -> Remark:
        if worst > MOST_MISSES:
            return self.mistake("policy", "tuned")
        return Remark("policy", True, f"On {_HIDDEN} other programs, it misses at most {worst:.2f} times as often.")

    def _failed(self, error: Exception) -> Remark:
        if getattr(error, "code", "").startswith(_VERIFIER):
            return Remark("policy", False, f"{self.wrong['rejected']} Its reason: {error}", "rejected")
        return Remark("policy", False, str(error))

    def _misses_often(self, own: Misses) -> Remark:
        if own.faults == own.default_faults:
            return self.mistake("policy", "unchanged" if own.heard == own.default_heard else "access-only")
        if own.faults <= MOST_MISSES:
            return self.mistake("policy", "hot-blocks")
        return Remark(
            "policy", False, f"It misses {own.worst:.2f} times as often as the optimum: more than {MOST_MISSES}."
        )


def room(blocks: Sequence[int]) -> int:
    """Blocks that fit in memory."""
    return len(set(blocks)) * MEMORY // 100


def measured(policy: str, blocks: Sequence[int]) -> Misses:
    """Try a policy on a trace, beside the driver's default.

    Raises:
        AccelMagicError: It does not compile, or the verifier rejects it.

    """
    from accel_magic.api.gpupolicy import gpupolicy

    optimum = fewest_misses(blocks, room(blocks))
    misses = [
        gpupolicy(policy, trace(blocks), memory=room(blocks), faults_only=faults_only).counts["misses"] / optimum
        for faults_only in (False, True)
    ]
    (default_heard, heard), (default_faults, faults) = ((one["default"], one.drop("default").iloc[0]) for one in misses)
    return Misses(heard, faults, default_heard, default_faults)


def trace(blocks: Sequence[int]) -> PageTrace:
    """Return a trace that accesses the first page of each block."""
    from accel_magic.policies.page_trace import PageTrace

    return PageTrace.of(np.array(blocks, np.uint64) * _PAGES, source="a program of the workshop")


def fewest_misses(blocks: Sequence[int], chunks: int) -> int:
    """Count the misses of Belady's optimum: the block that is needed latest goes."""
    needed: dict[int, int] = {}
    following = [0] * len(blocks)
    for at in range(len(blocks) - 1, -1, -1):
        following[at] = needed.get(blocks[at], len(blocks))
        needed[blocks[at]] = at
    memory: dict[int, int] = {}
    misses = 0
    for block, later in zip(blocks, following, strict=True):
        if block not in memory:
            misses += 1
            if len(memory) == chunks:
                del memory[max(memory, key=lambda one: memory[one])]
        memory[block] = later
    return misses


EXERCISE = Eviction
