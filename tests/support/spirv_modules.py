"""SPIR-V of three producers: LLVM's backend, llvm-spirv, and spirv-as; and programs to insert."""

import subprocess
from functools import cache
from pathlib import Path

import pytest

from accel_magic.gpu import programs
from accel_magic.gpu.codegen import opencl_c
from accel_magic.gpu.codegen.spirv import compile_spirv, emit
from accel_magic.gpu.maps import map_layout
from tests.support import opencl
from tests.support.paths import ROOT

FOLDER = ROOT / "tests/unit/gpu/opencl"
KERNELS = (FOLDER / "kernels.cl").read_text()
COUNT = FOLDER / "count_places.bpf.c"
SHARED = """
               OpCapability Addresses
               OpCapability Kernel
               OpCapability Int64
               OpMemoryModel Physical64 OpenCL
               OpEntryPoint Kernel %first "first"
               OpEntryPoint Kernel %second "second"
               OpName %helper "helper"
       %void = OpTypeVoid
       %uint = OpTypeInt 32 0
      %ulong = OpTypeInt 64 0
    %pointer = OpTypePointer CrossWorkgroup %uint
     %kernel = OpTypeFunction %void %pointer
     %reader = OpTypeFunction %uint %pointer
       %wide = OpConstant %ulong 5
     %helper = OpFunction %uint DontInline %reader
         %at = OpFunctionParameter %pointer
      %begin = OpLabel
     %loaded = OpLoad %uint %at Aligned 4
               OpReturnValue %loaded
               OpFunctionEnd
      %first = OpFunction %void None %kernel
       %into = OpFunctionParameter %pointer
      %start = OpLabel
      %value = OpFunctionCall %uint %helper %into
               OpSelectionMerge %end None
               OpSwitch %wide %end 4294967296 %other 5 %other
      %other = OpLabel
               OpStore %into %value Aligned 4
               OpBranch %end
        %end = OpLabel
               OpReturn
               OpFunctionEnd
     %second = OpFunction %void None %kernel
         %to = OpFunctionParameter %pointer
      %enter = OpLabel
       %same = OpFunctionCall %uint %helper %to
               OpStore %to %same Aligned 4
               OpReturn
               OpFunctionEnd
"""
"""Two kernels that share a function, and a switch on a 64-bit integer."""


@cache
def assembled(text=SHARED):
    """A module from text."""
    path = opencl.validator()
    if path is None:
        pytest.skip("spirv-as is not installed")
    command = [Path(path).with_name("spirv-as"), "--target-env", "spv1.2", "-o", "-", "-"]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout


@cache
def by_llvm(level=2):
    """The kernels, as LLVM's backend writes them."""
    options = ("-x", "cl", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header", f"-O{level}", "-emit-llvm", "-c")
    command = [
        opencl_c.compilers()[-1].clang,
        "--target=spirv64-unknown-unknown",
        *options,
        "-o",
        "-",
        FOLDER / "kernels.cl",
    ]
    code = subprocess.run(command, capture_output=True, check=True).stdout
    return emit(code, "spirv64v1.2-unknown-unknown")


@cache
def by_llvm_spirv(level=2):
    """The same, as llvm-spirv writes them."""
    if not opencl_c.compilers()[0].translator:
        pytest.skip("there is no llvm-spirv of clang's version")
    return opencl_c.compiled(KERNELS, ("-cl-opt-disable",) if not level else (), (1, 2)).code


PRODUCERS = {
    "llvm": by_llvm,
    "llvm-spirv": by_llvm_spirv,
    "llvm-spirv -O0": lambda: by_llvm_spirv(0),
    "spirv-as": assembled,
}


@cache
def probes(*names):
    """Programs, compiled for maps at made-up addresses."""
    sources = programs.load([str(name) for name in names], verify_mode="warn")
    placed = []
    for at, source in enumerate(sources, 1):
        plan = map_layout.plan_memory(source.object.maps, 1 << 16, limit=1 << 40)
        placed.append((source, map_layout.placement(plan, at << 44, (at << 44) + (1 << 43))))
    return compile_spirv(placed)
