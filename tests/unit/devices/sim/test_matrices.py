"""Matrix products of a warp: every form of mma in PTX, and nvcuda::wmma compiled by nvcc, against products in numpy.

The places of elements in registers are written as NVIDIA's CuTe library writes them: shapes and strides of the lanes
(four, then eight) and of a lane's elements, which give `row + rows * column` (`column + columns * row` on the right).
"""

from __future__ import annotations

import shutil
import subprocess
from itertools import product

import numpy as np
import pytest

from accel_magic.devices.sim import SimulatedDevice
from tests.support.errors import raises
from tests.support.one_instruction import run, text

pytestmark = pytest.mark.component

RANDOM = np.random.default_rng(29)
EIGHT = {"e4m3": {0: 0, 0.5: 0x30, 1: 0x38, 2: 0x40}, "e5m2": {0: 0, 0.5: 0x38, 1: 0x3C, 2: 0x40}}
WIDTHS = {"f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "s4": 4, "u4": 4, "b1": 1}
SUMS = ((4, 8), (2, 2), (32, 1), (16, 8))
SMALL_SUMS = ((4, 8), (2,), (16, 1), (8,))
FORMS = [
    ("m8n8k4", "f64 f64 f64 f64", ((4, 8), (), (8, 1), ()), ((4, 8), (), (8, 1), ())),
    ("m16n8k4", "f64 f64 f64 f64", ((4, 8), (2,), (16, 1), (8,)), ((4, 8), (), (8, 1), ())),
    ("m16n8k8", "f64 f64 f64 f64", ((4, 8), (2, 2), (16, 1), (8, 64)), ((4, 8), (2,), (8, 1), (32,))),
    ("m16n8k16", "f64 f64 f64 f64", ((4, 8), (2, 4), (16, 1), (8, 64)), ((4, 8), (4,), (8, 1), (32,))),
    ("m16n8k8", "f16 f16 f16 f16", ((4, 8), (2, 2), (32, 1), (16, 8)), ((4, 8), (2,), (16, 1), (8,))),
    ("m16n8k16", "f32 bf16 bf16 f32", ((4, 8), (2, 2, 2), (32, 1), (16, 8, 128)), ((4, 8), (2, 2), (16, 1), (8, 64))),
    ("m16n8k4", "f32 tf32 tf32 f32", ((4, 8), (2,), (16, 1), (8,)), ((4, 8), (), (8, 1), ())),
    ("m16n8k8", "f32 tf32 tf32 f32", ((4, 8), (2, 2), (16, 1), (8, 64)), ((4, 8), (2,), (8, 1), (32,))),
    ("m8n8k16", "s32 s8 u8 s32", ((4, 8), (4,), (32, 1), (8,)), ((4, 8), (4,), (32, 1), (8,))),
    ("m16n8k16", "s32 u8 s8 s32", ((4, 8), (4, 2), (64, 1), (16, 8)), ((4, 8), (4,), (32, 1), (8,))),
    ("m16n8k32", "s32 s8 s8 s32", ((4, 8), (4, 2, 2), (64, 1), (16, 8, 256)), ((4, 8), (4, 2), (32, 1), (8, 128))),
    ("m8n8k32", "s32 s4 u4 s32", ((4, 8), (8,), (64, 1), (8,)), ((4, 8), (8,), (64, 1), (8,))),
    ("m16n8k32", "s32 u4 s4 s32", ((4, 8), (8, 2), (128, 1), (16, 8)), ((4, 8), (8,), (64, 1), (8,))),
    ("m16n8k64", "s32 s4 s4 s32", ((4, 8), (8, 2, 2), (128, 1), (16, 8, 512)), ((4, 8), (8, 2), (64, 1), (8, 256))),
    ("m8n8k128", "s32 b1 b1 s32", ((4, 8), (32,), (256, 1), (8,)), ((4, 8), (32,), (256, 1), (8,))),
    ("m16n8k128", "s32 b1 b1 s32", ((4, 8), (32, 2), (512, 1), (16, 8)), ((4, 8), (32,), (256, 1), (8,))),
    (
        "m16n8k256",
        "s32 b1 b1 s32",
        ((4, 8), (32, 2, 2), (512, 1), (16, 8, 2048)),
        ((4, 8), (32, 2), (256, 1), (8, 1024)),
    ),
    ("m16n8k32", "f32 e4m3 e5m2 f32", ((4, 8), (4, 2, 2), (64, 1), (16, 8, 256)), ((4, 8), (4, 2), (32, 1), (8, 128))),
    ("m16n8k32", "f16 e5m2 e4m3 f16", ((4, 8), (4, 2, 2), (64, 1), (16, 8, 256)), ((4, 8), (4, 2), (32, 1), (8, 128))),
]


def places(layout):
    """Return the place in the matrix of each lane's elements, shape (32, elements)."""
    (low, high), shape, (by_low, by_high), strides = layout
    values = [
        sum(at * stride for at, stride in zip(reversed(each), strides, strict=True))
        for each in product(*(range(size) for size in reversed(shape)))
    ]
    lanes = [g * by_high + t * by_low for g in range(high) for t in range(low)]
    return np.array(lanes)[:, None] + np.array(values)[None, :]


def encoded(kind, numbers):
    """Return the bits of numbers, as unsigned integers of the element's own width or wider."""
    if kind in EIGHT:
        return np.array([EIGHT[kind][abs(x)] | 0x80 * (x < 0) for x in numbers.reshape(-1)]).reshape(numbers.shape)
    if kind == "f16":
        return numbers.astype(np.float16).view(np.uint16)
    if kind == "bf16":
        return numbers.astype(np.float32).view(np.uint32) >> 16
    if kind in ("f32", "tf32"):
        return numbers.astype(np.float32).view(np.uint32)
    if kind == "f64":
        return numbers.astype(np.float64).view(np.uint64)
    return numbers.astype(np.int64) & 2 ** WIDTHS.get(kind, 8) - 1


def decoded(kind, bits):
    return bits.view({"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}[kind])


def words(kind, lanes):
    """Pack each lane's elements, shape (32, elements), into registers: a list of (32,) arrays."""
    width = WIDTHS.get(kind, 8)
    if width == 64:
        return list(encoded(kind, lanes).T)
    bits, per = encoded(kind, lanes).astype(np.uint64), 32 // width
    packed = [
        np.bitwise_or.reduce([bits[:, at + e] << np.uint64(width * e) for e in range(per)])
        for at in range(0, bits.shape[1], per)
    ]
    return [word.astype(np.uint32) for word in packed]


def randoms(kind, shape):
    if kind in EIGHT:
        return RANDOM.choice([-2, -1, -0.5, 0, 0.5, 1, 2], shape)
    if kind == "f64":
        return RANDOM.integers(-9, 10, shape) / 8
    low, high = {"s8": (-128, 128), "u8": (0, 256), "s4": (-8, 8), "u4": (0, 16), "b1": (0, 2)}.get(kind, (-8, 9))
    return RANDOM.integers(low, high, shape)


def form(opcode, registers):
    """Return an instruction with registers in braces: destination, then operands."""
    number, operands = 0, []
    for role, count in registers:
        start = number if role == "s" else 0
        operands.append("{{" + ",".join(f"{{{role}{start + i}}}" for i in range(count)) + "}}")
        number += count if role == "s" else 0
    return f"{opcode} " + ", ".join(operands)


def execute(opcode, target, kinds, sources):
    """Run a product of registers; return the destination's elements, shape (32, elements)."""
    packed = [words(kind, lanes) for kind, lanes in zip(kinds, sources, strict=True)]
    count = len(words(target, np.zeros_like(sources[-1])))
    template = form(opcode, [("d", count), *(("s", len(one)) for one in packed)])
    types = ["b64" if kind == "f64" else "b32" for kind, one in zip(kinds, packed, strict=True) for _ in one]
    whole = [np.tile(word, 8) for one in packed for word in one]
    results = ["b64" if target == "f64" else "b32"] * count
    got = run(template, results, types, *whole)
    assembled(text(template, tuple(results), tuple(types)))
    return decoded(target, np.ascontiguousarray(np.stack([one[:32] for one in got], axis=1)))


def assembled(ptx):
    """Check with NVIDIA's assembler, if it is here, that a form exists."""
    if shutil.which("ptxas") is not None:
        source = ptx.replace(".version 8.6", ".version 8.7").replace("sm_80", "sm_90a")
        done = subprocess.run(
            ["ptxas", "-arch=sm_90a", "-", "-o", "/dev/null"], input=source, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def scattered(layout, lanes, rows, columns):
    matrix = np.zeros(rows * columns, lanes.dtype)
    matrix[places(layout)] = lanes
    return matrix.reshape(columns, rows).T


@pytest.mark.parametrize(("shape", "types", "left", "right"), FORMS, ids=[f"{form[0]} {form[1]}" for form in FORMS])
def test_a_product_of_registers_is_that_of_their_matrices(shape, types, left, right):
    target, a_kind, b_kind, c_kind = types.split()
    m, n, k = (int(size) for size in shape[1:].replace("n", " ").replace("k", " ").split())
    a, b, c = randoms(a_kind, (m, k)), randoms(b_kind, (k, n)), randoms(c_kind, (m, n))
    into = SUMS if m == 16 else SMALL_SUMS
    sources = [a.T.reshape(-1)[places(left)], b.reshape(-1)[places(right)], c.T.reshape(-1)[places(into)]]
    operations = (
        {"and": lambda: a @ b, "xor": lambda: (a[:, :, None] ^ b[None]).sum(1)} if a_kind == "b1" else {"": None}
    )
    for operation, logic in operations.items():
        expected = (a @ b if logic is None else logic()) + c
        opcode = f"mma.sync.aligned.{shape}.row.col.{'.'.join(types.split())}" + f".{operation}.popc" * bool(operation)
        got = execute(opcode, target, types.split()[1:], sources)
        assert np.array_equal(scattered(into, got, m, n), expected.astype(got.dtype))


LANES_ALONG = np.array([[8 * v + t + 4 * h for v in range(4)] for h in range(2) for t in range(4)])
ELEMENTS_ALONG = np.array([[8 * t + v + 4 * h for v in range(4)] for h in range(2) for t in range(4)])
RIGHT = {"row": ELEMENTS_ALONG, "col": LANES_ALONG}
"""Places `column + 8 * row` of a right matrix in eight lanes, four elements each."""
LEFT = {"row": LANES_ALONG, "col": ELEMENTS_ALONG}
"""Places `row + 8 * column` of a left matrix."""
FOUR_SUMS = {
    "f16": np.array([[t + 4 * h + 8 * v for v in range(8)] for h in range(2) for t in range(4)]),
    "f32": np.array(
        [
            [(t & 1) + 16 * (t >> 1) + 4 * h + 8 * (v & 1) + (v & 2) + 32 * (v >> 2) for v in range(8)]
            for h in range(2)
            for t in range(4)
        ]
    ),
}
MEMBERS = np.array([[4 * q + t + 16 * h for h in range(2) for t in range(4)] for q in range(4)])
"""Lanes of each of four products."""


def of_four(matrices, where):
    """Give each lane its elements of four matrices, each as one row."""
    lanes = np.zeros((32, where.shape[1]), matrices.dtype)
    for members, matrix in zip(MEMBERS, matrices, strict=True):
        lanes[members] = matrix.reshape(-1)[where]
    return lanes


@pytest.mark.parametrize(("source", "into"), [("f16", "f16"), ("f16", "f32"), ("f32", "f32")])
@pytest.mark.parametrize("layouts", [(a, b) for a in ("row", "col") for b in ("row", "col")])
def test_groups_of_eight_lanes_multiply_four_matrices_at_once(layouts, source, into):
    a, b, c = randoms("f16", (4, 8, 4)), randoms("f16", (4, 4, 8)), randoms("f16", (4, 8, 8))
    sources = [
        of_four(a.swapaxes(1, 2), LEFT[layouts[0]]),
        of_four(b, RIGHT[layouts[1]]),
        of_four(c.swapaxes(1, 2), FOUR_SUMS[source]),
    ]
    opcode = f"mma.sync.aligned.m8n8k4.{'.'.join(layouts)}.{into}.f16.f16.{source}"
    got = execute(opcode, into, ("f16", "f16", source), sources)
    for members, expected in zip(MEMBERS, a @ b + c, strict=True):
        matrix = np.zeros(64, got.dtype)
        matrix[FOUR_SUMS[into]] = got[members]
        assert np.array_equal(matrix.reshape(8, 8).T, expected)


SPARSE = [
    ("m16n8k16", "f32 f16 f16 f32", 1),
    ("m16n8k32", "f16 f16 f16 f16", 2),
    ("m16n8k16", "f32 bf16 bf16 f32", 1),
    ("m16n8k8", "f32 tf32 tf32 f32", 1),
    ("m16n8k16", "f32 tf32 tf32 f32", 2),
    ("m16n8k32", "s32 s8 u8 s32", 2),
    ("m16n8k64", "s32 u8 s8 s32", 4),
    ("m16n8k64", "s32 s4 s4 s32", 2),
    ("m16n8k128", "s32 u4 s4 s32", 4),
    ("m16n8k64", "f32 e4m3 e5m2 f32", 4),
]
CHUNKS = {"tf32": (2, 1, 1), "s4": (8, 4, 2), "u4": (8, 4, 2)}
"""Columns of a chunk, how many of them are stored, and how many columns a 2-bit index names; four, two and one else."""


def simple_fragment(kind, matrix, *, left):
    """Give each lane its elements: 8 rows (left) or columns (right) by 4 registers at a time."""
    per = max(32 // WIDTHS.get(kind, 8), 1)
    matrix = matrix if left else matrix.T
    tall, deep = matrix.shape[0] // 8, matrix.shape[1] // (4 * per)
    order = (
        [(i, j) for j in range(deep) for i in range(tall)]
        if left
        else [(i, j) for i in range(tall) for j in range(deep)]
    )
    return np.array(
        [
            [matrix[8 * i + lane // 4, 4 * per * j + lane % 4 * per + e] for i, j in order for e in range(per)]
            for lane in range(32)
        ]
    )


def metadata_words(kind, rows):
    """Lay out the metadata of 16 rows of bits for the lanes, as the reordering of NVIDIA's CUTLASS implies.

    With 16-bit and wider elements, a word holds 16 bits of a row below 8 and of the row 8 further down; lanes of a four
    go along the row. With smaller ones it holds 32 bits of one row, and the next lane those of the row 8 further down.
    """
    small = WIDTHS.get(kind, 8) <= 8
    unit = 32 if small else 16
    count = len(rows[0]) // unit
    found = np.zeros((8, 2 * count if small else count), np.uint64)
    for row, bits in enumerate(rows):
        for part in range(count):
            value = sum(int(bit) << at for at, bit in enumerate(bits[unit * part : unit * (part + 1)]))
            if small:
                found[row % 8, 2 * part + row // 8] = value
            else:
                found[row % 8, part] |= np.uint64(value << 16 * (row // 8))
    return found


@pytest.mark.parametrize(("shape", "types", "lanes"), SPARSE, ids=[f"{form[0]} {form[1]}" for form in SPARSE])
@pytest.mark.parametrize("variant", ["sp", "sp::ordered_metadata"])
def test_a_sparse_left_matrix_is_expanded_by_its_metadata(shape, types, lanes, variant):
    target, a_kind, b_kind, c_kind = types.split()
    m, n, k = (int(size) for size in shape[1:].replace("n", " ").replace("k", " ").split())
    width, stored, named = CHUNKS.get(a_kind, (4, 2, 1))
    dense, packed, bits = np.zeros((m, k)), [], []
    for row in range(m):
        packed.append([])
        bits.append([])
        for chunk in range(k // width):
            groups = sorted(RANDOM.choice(width // named, stored // named, replace=False))
            for column in (chunk * width + group * named + e for group in groups for e in range(named)):
                dense[row, column] = randoms(a_kind, ())
                packed[-1].append(dense[row, column])
            indices = [2 * groups[0], 2 * groups[0] + 1] if a_kind == "tf32" else groups
            bits[-1] += [index >> at & 1 for index in indices for at in range(2)]
    b, c = randoms(b_kind, (k, n)), randoms(c_kind, (m, n))
    found = metadata_words(a_kind, bits)
    assert found.shape[1] == lanes
    for selector in range(4 // lanes):
        meta = RANDOM.integers(0, 2**32, (8, 4), np.uint64)
        meta[:, selector * lanes : (selector + 1) * lanes] = found
        sources = [
            simple_fragment(a_kind, np.array(packed), left=True),
            simple_fragment(b_kind, b, left=False),
            c.T.reshape(-1)[places(SUMS)],
        ]
        registers = [words(kind, one) for kind, one in zip(types.split()[1:], sources, strict=True)]
        numbers = sum(len(one) for one in registers)
        count = 2 if target == "f16" else 4
        template = form(
            f"mma.{variant}.sync.aligned.{shape}.row.col.{'.'.join(types.split())}",
            [("d", count), *(("s", len(one)) for one in registers)],
        )
        template += f", {{s{numbers}}}, {selector}"
        kinds = ["b32"] * (numbers + 1)
        whole = [np.tile(word, 8) for one in registers for word in one]
        got = run(template, ["b32"] * count, kinds, *whole, np.tile(meta.reshape(-1).astype(np.uint32), 8))
        assembled(text(template, ("b32",) * count, tuple(kinds)))
        lanes_got = decoded(target, np.ascontiguousarray(np.stack([one[:32] for one in got], axis=1)))
        assert np.array_equal(scattered(SUMS, lanes_got, m, n), (dense @ b + c).astype(lanes_got.dtype))


def test_movmatrix_transposes_halves():
    matrix = RANDOM.integers(0, 2**16, (8, 8), np.uint16)
    given = np.tile(matrix.reshape(-1).view(np.uint32), 8)
    (got,) = run("movmatrix.sync.aligned.m8n8.trans.b16 {d0}, {s0}", ["b32"], ["b32"], given)
    assert np.array_equal(got[:32].view(np.uint16).reshape(8, 8), matrix.T)


WMMA = {
    # Kernel: sizes, type of the elements, layouts, leading dimensions, type of the sums, their layout and dimension.
    "half_float": ((16, 16, 16), "f16", "rc", (24, 24), "f32", "r", 16),
    "half_half": ((16, 16, 16), "f16", "cr", (16, 16), "f16", "c", 24),
    "half_wide": ((8, 32, 16), "f16", "rr", (16, 32), "f32", "r", 32),
    "half_tall": ((32, 8, 16), "f16", "cc", (32, 16), "f32", "r", 8),
    "bfloat": ((16, 16, 16), "bf16", "rc", (16, 16), "f32", "r", 16),
    "bfloat_wide": ((8, 32, 16), "bf16", "cr", (8, 32), "f32", "r", 32),
    "tf32": ((16, 16, 8), "tf32", "rc", (8, 8), "f32", "r", 16),
    "doubles": ((8, 8, 4), "f64", "rc", (4, 4), "f64", "r", 8),
    "doubles_turned": ((8, 8, 4), "f64", "cr", (8, 8), "f64", "c", 8),
    "signed8": ((16, 16, 16), "s8", "rc", (16, 16), "s32", "r", 16),
    "unsigned8_wide": ((8, 32, 16), "u8", "rr", (16, 32), "s32", "r", 32),
    "signed8_tall": ((32, 8, 16), "s8", "cc", (32, 16), "s32", "r", 8),
    "signed4": ((8, 8, 32), "s4", "rc", (32, 32), "s32", "r", 8),
    "unsigned4": ((8, 8, 32), "u4", "rc", (32, 32), "s32", "r", 8),
    "bits_xor": ((8, 8, 128), "b1", "rc", (128, 128), "s32", "r", 8),
    "bits_and": ((8, 8, 128), "b1", "rc", (128, 128), "s32", "r", 8),
}


def stored(kind, matrix, layout, stride):
    """Lay a matrix out in memory, with the leading dimension `stride`; uint8."""
    lines = matrix if layout == "r" else matrix.T
    padded = np.zeros((len(lines), stride), matrix.dtype)
    padded[:, : lines.shape[1]] = lines
    bits, width = encoded(kind, padded), WIDTHS.get(kind, 8)
    if width >= 8:
        return np.ascontiguousarray(bits.astype(f"u{width // 8}")).view(np.uint8).reshape(-1)
    flags = (bits[..., None] >> np.arange(width) & 1).astype(np.uint8)
    return np.packbits(flags.reshape(-1), bitorder="little")


@pytest.mark.parametrize("kernel", WMMA)
def test_nvcudas_wmma_multiplies_every_type_and_shape(bench, kernel):
    (m, n, k), kind, layouts, strides, into, layout, stride = WMMA[kernel]
    a, b, c = randoms(kind, (m, k)), randoms(kind, (k, n)), randoms(into, (m, n))
    expected = ((a[:, :, None] ^ b[None]).sum(1) if kernel == "bits_xor" else a @ b) + c
    given = [stored(kind, a, layouts[0], strides[0]), stored(kind, b, layouts[1], strides[1])]
    _, _, got = bench.run("wmma", kernel, 1, 32, *given, stored(into, c, layout, stride))
    assert got.tobytes() == stored(into, expected, layout, stride).tobytes()


def test_a_product_of_many_warps_with_a_tile_in_shared_memory_equals_numpy(bench):
    m, n, k = 48, 64, 80
    a, b = RANDOM.integers(-8, 9, (m, k)).astype(np.float16), RANDOM.integers(-8, 9, (k, n)).astype(np.float16)
    _, _, c = bench.run("wmma", "tiles", (n // 16, m // 16), 32, a, b, np.zeros((m, n), np.float32), n, k)
    assert np.array_equal(c, 2 * (a.astype(np.float32) @ b.astype(np.float32)))


def test_integer_sums_wrap_around_or_saturate():
    ones = [np.full(256, 0x7F7F7F7F, np.uint32)] * 6
    sums = [np.full(256, 2**31 - 1, np.uint32)] * 4
    registers = [("d", 4), ("s", 4), ("s", 2), ("s", 4)]
    for saturates, expected in (("", (2**31 - 1 + 32 * 127 * 127) - 2**32), (".satfinite", 2**31 - 1)):
        opcode = f"mma.sync.aligned.m16n8k32.row.col{saturates}.s32.s8.s8.s32"
        got = run(form(opcode, registers), ["s32"] * 4, ["b32"] * 10, *ones, *sums)
        assert {int(value) for column in got for value in column} == {expected}


def test_a_load_of_a_matrix_that_ends_outside_its_array_is_a_fault(bench):
    a, b = np.zeros((16, 24), np.float16), np.zeros((16, 24), np.float16)
    with raises("gpu.fault.out-of-bounds"):
        bench.run("wmma", "half_float", 1, 32, a.reshape(-1)[:-24], b, np.zeros((16, 16), np.float32))


@pytest.mark.parametrize(
    ("opcode", "why"),
    [
        ("m16n8k16.row.col.f32.f16.bf16.f32", "cannot be multiplied"),
        ("m16n8k16.row.col.f32.e3m2.e3m2.f32", ".e3m2"),
        ("m16n8k24.row.col.f32.f16.f16.f32", "shape"),
        ("m16n8k16.col.row.f32.f16.f16.f32", ".row.col"),
        ("m16n8k16.row.col.s32.f16.f16.s32", "ums of .f16 products"),
    ],
)
def test_products_that_are_not_supported_name_the_reason(opcode, why):
    template = form(f"mma.sync.aligned.{opcode}", [("d", 4), ("s", 4), ("s", 2), ("s", 4)])
    with raises("gpu.ptx.unsupported") as caught:
        SimulatedDevice(1 << 20).load(text(template, ("b32",) * 4, ("b32",) * 10))
    assert why in caught.value.why
