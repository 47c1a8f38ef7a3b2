"""Run one instruction on many values, with a kernel that loads its sources, executes it, and stores its results."""

from __future__ import annotations

from functools import cache

import numpy as np

from accel_magic.devices.sim import SimulatedDevice

HEAD = ".version 8.6\n.target sm_80\n.address_size 64\n"
DTYPES = {
    "pred": np.uint32,
    "f32": np.float32,
    "f64": np.float64,
    **{
        f"{kind}{bits}": np.dtype(f"{'u' if kind != 's' else 'i'}{bits // 8}").type
        for kind in "sub"
        for bits in (8, 16, 32, 64)
    },
}


def _bits(kind):
    return 32 if kind == "pred" else np.dtype(DTYPES[kind]).itemsize * 8


@cache
def text(template, results, sources):
    """Generate the kernel. `{d0}` etc. are results, `{s0}` etc. sources; instructions are separated by `;`."""
    names = {f"d{i}": f"%d{i}" for i in range(len(results))} | {f"s{i}": f"%s{i}" for i in range(len(sources))}
    lines = [".reg .b64 %a<4>;", ".reg .b32 %t<4>;", ".reg .pred %q<4>;"]
    for prefix, kinds in (("d", results), ("s", sources)):
        for i, kind in enumerate(kinds):
            declared = kind if kind in ("pred", "f32", "f64") else f"b{max(_bits(kind), 16)}"
            lines.append(f".reg .{declared} %{prefix}{i};")
    lines += ["mov.u32 %t0, %ctaid.x;", "mov.u32 %t1, %tid.x;", "mad.lo.u32 %t0, %t0, 256, %t1;"]
    for i, kind in enumerate(sources):
        lines.append(f"ld.param.u64 %a0, [p{i}];")
        lines.append(f"mad.wide.u32 %a0, %t0, {_bits(kind) // 8}, %a0;")
        if kind == "pred":
            lines += ["ld.global.u32 %t2, [%a0];", f"setp.ne.u32 %s{i}, %t2, 0;"]
        else:
            lines.append(
                f"ld.global.b{_bits(kind)} %s{i}, [%a0];" if kind[0] != "s" else f"ld.global.{kind} %s{i}, [%a0];"
            )
    lines += [line + ";" for line in template.format(**names).split(";") if line.strip()]
    for i, kind in enumerate(results):
        lines.append(f"ld.param.u64 %a0, [p{len(sources) + i}];")
        lines.append(f"mad.wide.u32 %a0, %t0, {_bits(kind) // 8}, %a0;")
        if kind == "pred":
            lines += [f"selp.u32 %t2, 1, 0, %d{i};", "st.global.u32 [%a0], %t2;"]
        else:
            lines.append(f"st.global.b{_bits(kind)} [%a0], %d{i};")
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(sources) + len(results)))
    return f"{HEAD}.visible .entry k({parameters})\n{{\n" + "\n".join(lines) + "\nret;\n}\n"


_DEVICE = SimulatedDevice(1 << 26)
_MODULES = {}


def run(template, results, sources, *values):
    """Return one array for each result; values are padded to whole blocks of 256 threads."""
    code = text(template, tuple(results), tuple(sources))
    module = _MODULES.get(code) or _MODULES.setdefault(code, _DEVICE.load(code))
    count = len(values[0])
    blocks = -(-count // 256)
    addresses = []
    for kind, column in zip((*sources, *results), (*values, *[None] * len(results)), strict=True):
        dtype = DTYPES[kind]
        padded = np.zeros(blocks * 256, dtype)
        if column is not None:
            padded[:count] = column if isinstance(column, np.ndarray) else to(column, dtype)
        address = _DEVICE.allocate(padded.nbytes)
        _DEVICE.copy_in(address, padded)
        addresses.append(address)
    try:
        _DEVICE.launch(module, "k", blocks, 256, addresses)
        return [
            _DEVICE.copy_out(address, blocks * 256 * np.dtype(DTYPES[kind]).itemsize).view(DTYPES[kind])[:count]
            for kind, address in zip(results, addresses[len(sources) :], strict=True)
        ]
    finally:
        for address in addresses:
            _DEVICE.free(address)


def to(column, dtype):
    """Convert Python integers to a dtype, modulo its width."""
    bits = np.dtype(dtype).itemsize * 8
    unsigned = np.array([int(value) & 2**bits - 1 for value in column], np.dtype(f"u{bits // 8}"))
    return unsigned.view(dtype)
