"""SPIR-V for what LLVM has no name for: functions that the helpers import, and what replaces their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.spirv.spirv_module import SpirvInstruction, SpirvModule, made

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.spirv.merging import Intrinsic

_SUB_GROUP: Final = 3
_DEVICE: Final = 1
_GROUP_NON_UNIFORM: Final = 61
_BALLOT: Final = 64
_SHUFFLE: Final = 65
_SUB_GROUP_NUMBER: Final = 40
_LANE: Final = 41
_SHADER_CLOCK: Final = 5055
_VERSION_1_3: Final = 0x00010300
"""The first with operations of sub-groups that need not be uniform."""


def _clock(module: SpirvModule, result: int, _arguments: list[int]) -> list[SpirvInstruction]:
    module.require(_SHADER_CLOCK)
    module.require_extension("SPV_KHR_shader_clock")
    return [made("ReadClockKHR", module.integer(64), result, module.constant(32, _DEVICE))]


def _ballot(module: SpirvModule, result: int, arguments: list[int]) -> list[SpirvInstruction]:
    _need_sub_groups(module, _BALLOT)
    word, yes, lanes = module.integer(32), module.new_id(), module.new_id()
    scope = module.constant(32, _SUB_GROUP)
    return [
        made("INotEqual", module.type("TypeBool"), yes, arguments[0], module.constant(32, 0)),
        made("GroupNonUniformBallot", module.type("TypeVector", word, 4), lanes, scope, yes),
        made("CompositeExtract", word, result, lanes, 0),
    ]


def _shuffle(module: SpirvModule, result: int, arguments: list[int]) -> list[SpirvInstruction]:
    _need_sub_groups(module, _SHUFFLE)
    return [made("GroupNonUniformShuffle", module.integer(32), result, module.constant(32, _SUB_GROUP), *arguments)]


def _lane(module: SpirvModule, result: int, _arguments: list[int]) -> list[SpirvInstruction]:
    return [made("Load", module.integer(32), result, module.built_in(_LANE, 32))]


def _sub_group(module: SpirvModule, result: int, _arguments: list[int]) -> list[SpirvInstruction]:
    return [made("Load", module.integer(32), result, module.built_in(_SUB_GROUP_NUMBER, 32))]


def _need_sub_groups(module: SpirvModule, capability: int) -> None:
    module.require(_GROUP_NON_UNIFORM)
    module.require(capability)
    module.version = max(module.version, _VERSION_1_3)


INTRINSICS: Final[Mapping[str, Intrinsic]] = {
    "accel_spirv_clock": _clock,
    "accel_spirv_ballot": _ballot,
    "accel_spirv_shuffle": _shuffle,
    # LLVM 20 leaves these as functions.
    "_Z22get_sub_group_local_idv": _lane,
    "_Z16get_sub_group_idv": _sub_group,
}
