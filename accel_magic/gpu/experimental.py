"""Objects for GPUs other than NVIDIA's: experimental, compiled and looked at but never run.

LLVM ends the whole process where it cannot translate something for these targets, so this runs as a process of its own:
`python -m accel_magic.gpu.experimental amdgpu gfx90a < IR > OBJECT`.

The helpers are LLVM IR: who a thread is, votes, barriers and clocks, as far as LLVM's AMDGPU and SPIR-V targets have
names for them, and lookups in arrays. What is left out is named when a program needs it: hashes, rings, per-thread
maps, printing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.errors import AccelMagicError
from accel_magic.gpu import llvm
from accel_magic.gpu.helpers import ARRAYS
from accel_magic.gpu.lowering import Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AXES: Final = ("x", "y", "z")
_ELSEWHERE: Final = "bpf_map_lookup_elem in a map that is no array"


def _helper(number: int, *body: str) -> str:
    parameters = ", ".join(f"i64 %{name}" for name in "abcde")
    lines = "\n".join(f"  {line}" for line in body)
    return f"define i64 @accel_helper_{number}({parameters}) alwaysinline convergent nounwind {{\n{lines}\n}}"


def _three(number: int, body: Sequence[str]) -> str:
    """Build a helper that writes %x, %y and %z (i64) through its arguments."""
    stores = []
    for argument, axis in zip("abc", _AXES, strict=True):
        stores += [f"%to_{axis} = inttoptr i64 %{argument} to ptr", f"store i64 %{axis}, ptr %to_{axis}, align 8"]
    return _helper(number, *body, *stores, "ret i64 0")


def _per_axis(*lines: str) -> list[str]:
    return [line.replace("AXIS", axis).replace("INDEX", str(at)) for at, axis in enumerate(_AXES) for line in lines]


def _widened(call: str) -> list[str]:
    return ["%narrow = " + call, "%wide = zext i32 %narrow to i64", "ret i64 %wide"]


_LOOKUP: Final = f"""
%accel_map = type {{ i32, i32, i32, i32, i64, i64 }}
@accel_maps = external constant [0 x %accel_map], align 8
@accel_pid_tgid = external constant i64, align 8
declare i64 @"{_ELSEWHERE}"()

define i64 @accel_helper_14(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e) alwaysinline nounwind {{
  %id = load i64, ptr @accel_pid_tgid, align 8
  ret i64 %id
}}

define i64 @accel_helper_1(i64 %map, i64 %key, i64 %c, i64 %d, i64 %e) alwaysinline nounwind {{
  %one = getelementptr [0 x %accel_map], ptr @accel_maps, i64 0, i64 %map
  %type = load i32, ptr %one, align 8
  switch i32 %type, label %other [ {" ".join(f"i32 {int(kind)}, label %array" for kind in sorted(ARRAYS))} ]
other:
  %unknown = call i64 @"{_ELSEWHERE}"()
  ret i64 %unknown
array:
  %at_key = inttoptr i64 %key to ptr
  %index = load i32, ptr %at_key, align 1
  %at_size = getelementptr i8, ptr %one, i64 8
  %size = load i32, ptr %at_size, align 8
  %at_entries = getelementptr i8, ptr %one, i64 12
  %entries = load i32, ptr %at_entries, align 4
  %at_base = getelementptr i8, ptr %one, i64 16
  %base = load i64, ptr %at_base, align 8
  %inside = icmp ult i32 %index, %entries
  %wide_index = zext i32 %index to i64
  %wide_size = zext i32 %size to i64
  %at_padding = getelementptr i8, ptr %one, i64 24
  %padding = load i64, ptr %at_padding, align 8
  %stride = add i64 %wide_size, %padding
  %distance = mul i64 %wide_index, %stride
  %address = add i64 %base, %distance
  %found = select i1 %inside, i64 %address, i64 0
  ret i64 %found
}}
"""

_AMDGPU: Final = "\n".join(
    [
        *(f"declare i32 @llvm.amdgcn.{what}.id.{axis}()" for what in ("workgroup", "workitem") for axis in _AXES),
        "declare i64 @llvm.amdgcn.ballot.i64(i1)",
        "declare i32 @llvm.amdgcn.mbcnt.lo(i32, i32)",
        "declare i32 @llvm.amdgcn.mbcnt.hi(i32, i32)",
        "declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()",
        "declare void @llvm.amdgcn.s.barrier()",
        "declare void @llvm.amdgcn.endpgm()",
        "declare i64 @llvm.readcyclecounter()",
        "declare i64 @llvm.readsteadycounter()",
        "declare i64 @llvm.cttz.i64(i64, i1)",
        _three(
            503, _per_axis("%n_AXIS = call i32 @llvm.amdgcn.workgroup.id.AXIS()", "%AXIS = zext i32 %n_AXIS to i64")
        ),
        _three(505, _per_axis("%n_AXIS = call i32 @llvm.amdgcn.workitem.id.AXIS()", "%AXIS = zext i32 %n_AXIS to i64")),
        # The hidden arguments of code object version 5: block counts (u32) at byte 0, block sizes (u16) at byte 12.
        _three(
            504,
            [
                "%hidden = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()",
                "%sizes = getelementptr i8, ptr addrspace(4) %hidden, i64 12",
                *_per_axis(
                    "%at_AXIS = getelementptr i16, ptr addrspace(4) %sizes, i64 INDEX",
                    "%n_AXIS = load i16, ptr addrspace(4) %at_AXIS, align 2",
                    "%AXIS = zext i16 %n_AXIS to i64",
                ),
            ],
        ),
        _three(
            508,
            [
                "%hidden = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()",
                *_per_axis(
                    "%at_AXIS = getelementptr i32, ptr addrspace(4) %hidden, i64 INDEX",
                    "%n_AXIS = load i32, ptr addrspace(4) %at_AXIS, align 4",
                    "%AXIS = zext i32 %n_AXIS to i64",
                ),
            ],
        ),
        _helper(5, "%time = call i64 @llvm.readsteadycounter()", "ret i64 %time"),
        _helper(502, "%time = call i64 @llvm.readsteadycounter()", "ret i64 %time"),
        _helper(606, "%time = call i64 @llvm.readcyclecounter()", "ret i64 %time"),
        _helper(506, "fence seq_cst", "ret i64 0"),
        _helper(507, "call void @llvm.amdgcn.endpgm()", "unreachable"),
        _helper(
            511,
            "%low = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0)",
            *_widened("call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %low)"),
        ),
        _helper(600, "%lanes = call i64 @llvm.amdgcn.ballot.i64(i1 true)", "ret i64 %lanes"),
        _helper(
            601,
            "%lanes = call i64 @llvm.amdgcn.ballot.i64(i1 true)",
            "%first = call i64 @llvm.cttz.i64(i64 %lanes, i1 true)",
            "%lane = call i64 @accel_helper_511(i64 0, i64 0, i64 0, i64 0, i64 0)",
            "%is = icmp eq i64 %lane, %first",
            "%wide = zext i1 %is to i64",
            "ret i64 %wide",
        ),
        _helper(
            602,
            "%yes = icmp ne i64 %a, 0",
            "%lanes = call i64 @llvm.amdgcn.ballot.i64(i1 %yes)",
            "ret i64 %lanes",
        ),
        _helper(609, "call void @llvm.amdgcn.s.barrier()", "ret i64 0"),
        _LOOKUP,
    ]
)


def _opencl(number: int, function: str) -> str:
    """Build a helper from OpenCL's built-in function of an axis, which LLVM turns into SPIR-V's variables."""
    return _three(number, _per_axis(f"%AXIS = call spir_func i64 @{function}(i32 INDEX)"))


_SPIRV: Final = "\n".join(
    [
        *(
            f"declare spir_func i64 @{name}(i32)"
            for name in ("_Z12get_group_idj", "_Z14get_local_sizej", "_Z12get_local_idj", "_Z14get_num_groupsj")
        ),
        "declare spir_func i32 @_Z22get_sub_group_local_idv()",
        "declare spir_func i32 @_Z16get_sub_group_idv()",
        "declare spir_func void @_Z7barrierj(i32)",
        _opencl(503, "_Z12get_group_idj"),
        _opencl(504, "_Z14get_local_sizej"),
        _opencl(505, "_Z12get_local_idj"),
        _opencl(508, "_Z14get_num_groupsj"),
        _helper(506, "fence seq_cst", "ret i64 0"),
        _helper(510, *_widened("call spir_func i32 @_Z16get_sub_group_idv()")),
        _helper(511, *_widened("call spir_func i32 @_Z22get_sub_group_local_idv()")),
        _helper(609, "call spir_func void @_Z7barrierj(i32 1)", "ret i64 0"),
        _LOOKUP,
    ]
)

_BUILT_IN: Final = ("_Z12get_", "_Z14get_", "_Z16get_", "_Z22get_", "_Z7barrier")


@dataclass(frozen=True, slots=True)
class Machine:
    """One of these targets.

    Attributes:
        target: What programs are lowered for.
        name: In words, for errors.
        helpers: LLVM IR (text).
        built_in: How the names of functions begin that LLVM replaces by instructions of the target.

    """

    target: Target
    name: str
    helpers: str
    built_in: tuple[str, ...] = ()


MACHINES: Final[Mapping[str, Machine]] = {
    "amdgpu": Machine(Target.AMDGPU, "an AMD GPU", _AMDGPU),
    "spirv": Machine(Target.SPIRV, "a SPIR-V device", _SPIRV, _BUILT_IN),
}


def compile_object(ir: str, machine: Machine, processor: str, probe: str) -> bytes:
    """Compile a program; ends the process where LLVM cannot.

    Args:
        ir: LLVM IR for the machine's target.
        machine: The machine.
        processor: LLVM's name of the processor, '' for none.
        probe: The function that stays visible.

    Returns:
        The object.

    Raises:
        ProgramError: The program uses helpers that there are not.

    """
    code = llvm.binding().Target.from_triple(machine.target.value.triple)
    made = code.create_target_machine(cpu=processor, opt=3)
    module = llvm.parse(ir)
    llvm.link(module, llvm.bitcode(machine.helpers), made, keep={probe})
    llvm.optimise(module, made, 3)
    llvm.require_complete(module, machine.name, built_in=machine.built_in)
    return bytes(made.emit_object(module))


def main(arguments: Sequence[str]) -> int:
    """Compile standard input: machine, processor, name of the probe."""
    name, processor, probe = arguments
    try:
        made = compile_object(sys.stdin.read(), MACHINES[name], processor, probe)
    except AccelMagicError as error:
        print(error.what, file=sys.stderr)
        return 1
    sys.stdout.buffer.write(made)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
