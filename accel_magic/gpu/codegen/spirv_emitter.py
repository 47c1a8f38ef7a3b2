"""A process of its own that translates one LLVM module: bitcode on standard input, SPIR-V on standard output.

LLVM's SPIR-V backend (20 to 22) keeps state between modules: of the second module of a process, ids may be defined
twice, or the process is aborted (llvm-project issue 160613).
"""

from __future__ import annotations

import sys

from accel_magic.gpu.codegen import bitcode
from accel_magic.ptx import llvm


def main(triple: str) -> None:
    """Translate for a target triple, without optimizing: the module is optimized, and LLVM 20 fails otherwise."""
    machine = llvm.binding().Target.from_triple(triple).create_target_machine(opt=0)
    module = llvm.binding().parse_bitcode(sys.stdin.buffer.read())
    bitcode.adopt(module, machine)
    sys.stdout.buffer.write(machine.emit_object(module))


if __name__ == "__main__":
    main(*sys.argv[1:])
