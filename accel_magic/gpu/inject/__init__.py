"""PTX: reading it, and putting probes into it.

`parse(text)` gives a `model.Module` that knows where everything lies in the text; `write(module)` gives the text back.
Functions have a body of scopes, labels, declarations, directives and instructions; an instruction's operands are read
when they are asked for. Operands are the classes of `model`; `declarations.prototype` reads a call's prototype.
`inject(text, probes)` puts compiled programs into kernels and says where (`report.Injection`).
"""

from accel_magic.gpu.inject.inject import inject
from accel_magic.gpu.inject.report import Injection, KernelReport, Site
from accel_magic.gpu.inject.template import ProbeCode
from accel_magic.ptx.parser import parse, write

__all__ = ["Injection", "KernelReport", "ProbeCode", "Site", "inject", "parse", "write"]
