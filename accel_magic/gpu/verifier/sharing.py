"""Who runs an instruction, and whether what it touches is theirs alone."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.verifier.algebra import LEADER
from accel_magic.gpu.verifier.lanes import Own
from accel_magic.gpu.verifier.world import VALUES

if TYPE_CHECKING:
    from accel_magic.gpu.verifier.facts import RegisterFact
    from accel_magic.gpu.verifier.world import World


class Runners(IntEnum):
    """Who comes to an instruction."""

    ALL = 0
    ONE_OF_WARP = 1
    ONE_OF_BLOCK = 2
    ONE = 3


_THREAD: Final = frozenset({"thread_x", "thread_y", "thread_z"})
_BLOCK: Final = frozenset({"block_x", "block_y", "block_z"})


def runners(pins: frozenset[str]) -> Runners:
    """Tell who can be where these indices are one constant."""
    one_thread = pins >= _THREAD
    if "thread" in pins or (one_thread and ("block" in pins or pins >= _BLOCK)):
        return Runners.ONE
    if one_thread:
        return Runners.ONE_OF_BLOCK
    return Runners.ONE_OF_WARP if pins & {LEADER, "lane"} else Runners.ALL


def alone(pins: frozenset[str], own: Own) -> bool:
    """Whether no other thread of the launch touches the same value with this instruction."""
    who = runners(pins)
    return who is Runners.ONE or own is Own.THREAD or (own is Own.BLOCK and who is Runners.ONE_OF_BLOCK)


def shared(world: World, fact: RegisterFact) -> bool:
    """Whether a pointer leads to memory that all threads share."""
    return fact.kind in VALUES and not world.is_per_thread(fact.map)
