"""Textures and surfaces, against the formulas of the CUDA C++ Programming Guide in fractions, point by point."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from accel_magic.devices.sim import DeviceFault, SimulatedDevice
from accel_magic.devices.sim.images import Sampler, TexelImage, View
from accel_magic.errors import AccelMagicError, ProbeError
from accel_magic.gpu.adapters.nvrtc import CpuKernel, Surface, Texture
from tests.support.errors import raises
from tests.unit.devices.sim.conftest import text

pytestmark = pytest.mark.component

SIDES = {
    # Direction to face, and the coordinates on it: the guide's table of cube maps.
    0: lambda x, y, z: (x, -z, -y),
    1: lambda x, y, z: (-x, z, -y),
    2: lambda x, y, z: (y, x, z),
    3: lambda x, y, z: (-y, x, -z),
    4: lambda x, y, z: (z, x, -y),
    5: lambda x, y, z: (-z, -x, -y),
}


def run(kernel, image, points, dtype=np.float32):
    """Fetch at each point; a row of four channels for each."""
    points = np.asarray(points, np.float32)
    out = np.zeros((len(points), 4), dtype)
    CpuKernel(text("images"), kernel)[-(-len(points) // 64), 64](image, np.ascontiguousarray(points), out, len(points))
    return out


def channels(texture, index):
    """Return the value of one texel as the texture reads it, as exact numbers."""
    array = texture.array.reshape(*texture.array.shape[: len(index)], -1)
    found = [array[index][at].item() if at < array.shape[-1] else 0 for at in range(4)]
    if texture.read_mode == "normalized_float" and array.dtype.itemsize < 4 and array.dtype.kind in "ui":
        most = np.iinfo(array.dtype).max
        found = [float(np.float32(max(one / most, -1.0))) for one in found]
    return [Fraction(one) for one in found]


def neighbors(x, size, mode, texture, linear):
    """Return (index, weight) of the texels along one axis; index None beyond a border."""
    x = np.float32(x)
    if texture.normalized_coords:
        below = np.floor(x)
        if mode == "wrap" or (mode == "mirror" and int(below) % 2 == 0):
            x = x - below
        elif mode == "mirror":
            x = np.float32(1) - (x - below)
        x = x * np.float32(size)
    found = [(floor(x), Fraction(1))]
    if linear:
        number, part = divmod(floor((Fraction(float(x)) - Fraction(1, 2)) * 256 + Fraction(1, 2)), 256)
        found = [(number, 1 - Fraction(part, 256)), (number + 1, Fraction(part, 256))]
    wraps = mode == "wrap" and texture.normalized_coords
    return [
        (
            None
            if mode == "border" and not 0 <= index < size
            else index % size
            if wraps
            else min(max(index, 0), size - 1),
            weight,
        )
        for index, weight in found
    ]


def expected(texture, point):
    """Return four channels at a point (x, y, z, layer)."""
    axes = texture.array.ndim - (texture.channels > 1) - (texture.layered or texture.cube)
    layer = min(int(point[3]), texture.array.shape[0] // (6 if texture.cube else 1) - 1)
    if texture.cube:
        side = max(SIDES, key=lambda face: SIDES[face](*point[:3])[0])
        most, s, t = (np.float32(one) for one in SIDES[side](*point[:3]))
        point = [(s / most + 1) / 2, (t / most + 1) / 2]
        layer = 6 * layer + side
    sizes = texture.array.shape[(texture.layered or texture.cube) :][:axes][::-1]
    modes = (texture.address,) * 3 if isinstance(texture.address, str) else texture.address
    linear = texture.filter == "linear" and (
        texture.array.dtype.kind == "f" or (texture.read_mode != "element" and texture.array.dtype.itemsize < 4)
    )
    spots = [((), Fraction(1))]
    for axis in range(axes):
        along = neighbors(point[axis], sizes[axis], modes[axis], texture, linear)
        spots = [((index, *before), share * weight) for before, share in spots for index, weight in along]
    border = [Fraction(*float(one).as_integer_ratio()) for one in texture.border]
    total = [Fraction(0)] * 4
    for index, weight in spots:
        whole = (layer, *index) if texture.layered or texture.cube else index
        inside = None not in index
        given = texture.array.shape[-1] if texture.channels > 1 else 1
        value = channels(texture, whole) if inside else [border[at] if at < given else Fraction(0) for at in range(4)]
        total = [one + weight * more for one, more in zip(total, value, strict=True)]
    return [float(np.float32(float(one))) for one in total]


def points_of(seed, sizes, normalized, layers=1):
    """Points inside and outside, and the centers and edges of texels."""
    random = np.random.default_rng(seed)
    size = np.array([*sizes, 1, 1][:3], np.float32)
    points = np.concatenate(
        [
            random.uniform(-1.5, 2.5, (60, 3)) * size,
            np.floor(random.uniform(-0.5, 1.5, (20, 3)) * size) + 0.5,
            np.floor(random.uniform(-0.5, 1.5, (20, 3)) * size),
        ]
    ).astype(np.float32)
    layer = random.integers(0, layers + 2, (len(points), 1))
    return np.concatenate([points / size if normalized else points, layer], axis=1).astype(np.float32)


SHAPES = {
    "fetch_1d": ((13,), {}),
    "fetch_2d": ((5, 7), {}),
    "fetch_3d": ((3, 4, 5), {}),
    "fetch_a1d": ((3, 6), {"layered": True}),
    "fetch_a2d": ((3, 4, 5), {"layered": True}),
}


@pytest.mark.parametrize("address", ["clamp", "border", "wrap", "mirror", ("wrap", "border", "mirror")])
@pytest.mark.parametrize("filtered", ["nearest", "linear"])
@pytest.mark.parametrize("kernel", SHAPES)
def test_fetches_follow_the_formulas_of_the_guide(kernel, filtered, address):
    shape, options = SHAPES[kernel]
    array = np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)
    for normalized in (False, True):
        texture = Texture(
            array, filter=filtered, address=address, normalized_coords=normalized, border=(3.5,), **options
        )
        sizes = shape[::-1][: len(shape) - len(options)]
        points = points_of(7, sizes, normalized, layers=3)
        assert run(kernel, texture, points).tolist() == [expected(texture, point) for point in points.tolist()]


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "f2", "f4"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_texels_are_read_as_floats(dtype, count):
    random = np.random.default_rng(count)
    kind = np.dtype(dtype)
    shape = (6, 5, count)[: 2 + (count > 1)]
    if kind.kind == "f":
        array = random.normal(size=shape).astype(kind)
    else:
        array = random.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, endpoint=True, dtype=kind)
    for filtered in ("nearest", "linear"):
        texture = Texture(array, channels=count, filter=filtered, read_mode="normalized_float", address="border")
        points = points_of(3, (5, 6), False)
        found = run("fetch_2d", texture, points)
        assert np.allclose(found, [expected(texture, point) for point in points.tolist()], rtol=2**-22, atol=2**-30)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4"])
def test_integers_are_extended_and_never_interpolated(dtype):
    kind = np.dtype(dtype)
    limits = np.iinfo(kind)
    array = np.array([[limits.min, limits.max], [0, 1]], kind)
    texture = Texture(array, filter="linear")
    points = [(x, y, 0, 0) for y in (0.9, 1.1) for x in (0.9, 1.1)]
    signed = kind.kind == "i"
    out = run(f"fetch_2d_{'int' if signed else 'uint'}", texture, points, np.int32 if signed else np.uint32)
    assert out.tolist() == [[value, 0, 0, 0] for value in array.reshape(-1).tolist()]


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("filtered", ["nearest", "linear"])
def test_cube_maps_choose_the_face_of_the_direction(filtered, layered):
    array = np.random.default_rng(1).normal(size=(12 if layered else 6, 4, 4)).astype(np.float32)
    texture = Texture(array, cube=True, layered=layered, filter=filtered)
    points = np.random.default_rng(2).normal(size=(120, 4)).astype(np.float32)
    points[:, 3] = np.arange(120) % 3
    found = run("fetch_acube" if layered else "fetch_cube", texture, points)
    oracle = Texture(array, cube=True, layered=layered, filter=filtered, normalized_coords=True)
    assert np.allclose(found, [expected(oracle, point) for point in points.tolist()], rtol=0, atol=2e-2)
    assert np.mean(found[:, 0] == [expected(oracle, point)[0] for point in points.tolist()]) > 0.9


def test_whole_numbers_fetch_texels_and_zeros_beyond_linear_memory():
    array = np.arange(1, 51, dtype=np.float32)
    points = [(x, 0, 0, 0) for x in (-1, 0, 7, 49, 50, 1000)]
    assert run("fetch_whole", Texture(array, address="border"), points)[:, 0].tolist() == [0, 1, 8, 50, 0, 0]
    assert run("fetch_whole", Texture(array[10:]), points)[:, 0].tolist() == [11, 11, 18, 50, 50, 50]


def test_lanes_may_use_different_textures():
    a, b, out = np.arange(32, dtype=np.float32), np.arange(100, 132, dtype=np.float32), np.zeros(32, np.float32)
    CpuKernel(text("images"), "either")[1, 32](Texture(a), Texture(b), out)
    assert out.tolist() == [a[at] if at % 3 else b[at] for at in range(32)]


def test_a_gather_returns_the_four_texels_of_a_linear_fetch_counterclockwise():
    array = np.arange(2 * 30, dtype=np.float32).reshape(5, 6, 2)
    (found,) = run("gather", Texture(array, channels=2), [(2.7, 3.2, 0, 0)])
    second = array[..., 1]
    assert found.tolist() == [second[3, 2], second[3, 3], second[2, 3], second[2, 2]]


def levels():
    random = np.random.default_rng(5)
    return [random.normal(size=(size, size)).astype(np.float32) for size in (8, 4, 2)]


def test_levels_of_detail_are_chosen_or_interpolated():
    large, middle, small = levels()
    points = [(0.3, 0.6, 0, lod) for lod in (-1, 0, 0.4, 0.6, 1, 1.75, 2, 9)]
    chosen = Texture(large, mipmap=(middle, small), normalized_coords=True)
    by_level = [float(one[floor(0.6 * len(one)), floor(0.3 * len(one))]) for one in (large, middle, small)]
    assert run("fetch_lod", chosen, points)[:, 0].tolist() == [by_level[at] for at in (0, 0, 0, 1, 1, 2, 2, 2)]
    mixed = Texture(large, mipmap=(middle, small), normalized_coords=True, mipmap_filter="linear")
    weights = [0, 0, 102 / 256, 154 / 256, 1, 1.75, 2, 2]
    between = [np.float32(np.interp(weight, (0, 1, 2), by_level)) for weight in weights]
    assert np.allclose(run("fetch_lod", mixed, points)[:, 0], between, rtol=1e-6)


def test_gradients_give_the_level_at_which_a_texel_covers_them():
    large, middle, small = levels()
    texture = Texture(large, mipmap=(middle, small), normalized_coords=True)
    # One, two and four texels of the largest level from one point to the next, in x or in y.
    points = [(0.3, 0.6, x / 8, y / 8) for x, y in ((1, 0), (2, 0), (0.5, 2), (4, 1), (0, 0))]
    by_level = [float(one[floor(0.6 * len(one)), floor(0.3 * len(one))]) for one in (large, middle, small)]
    assert run("fetch_grad", texture, points)[:, 0].tolist() == [by_level[at] for at in (0, 1, 1, 2, 0)]


SURFACES = {
    "access_1d": ((11,), {}, (0,)),
    "access_2d": ((4, 6), {}, (1, 0)),
    "access_3d": ((3, 4, 5), {}, (2, 1, 0)),
    "access_a1d": ((3, 6), {"layered": True}, (3, 0)),
    "access_a2d": ((3, 4, 5), {"layered": True}, (3, 1, 0)),
    "access_cube": ((6, 4, 4), {"cube": True}, (3, 1, 0)),
}


@pytest.mark.parametrize("kernel", SURFACES)
def test_surfaces_are_read_and_written_in_place(kernel):
    shape, options, axes = SURFACES[kernel]
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    before = array.copy()
    spots = np.random.default_rng(0).permutation(array.size)[: array.size // 2]
    index = np.unravel_index(spots, shape)
    points = np.zeros((len(spots), 4), np.int32)
    for axis, values in zip(axes, index, strict=True):
        points[:, axis] = values
    out = np.zeros(len(points), np.int32)
    CpuKernel(text("images"), kernel)[1, 64](Surface(array, **options), points, out, len(points))
    assert np.array_equal(out, before[index])
    before[index] += 1000
    assert np.array_equal(array, before)


OUTSIDE = [(-1, 0), (6, 1), (2, -3), (5, 4), (3, 2), (100, 100)]


@pytest.mark.parametrize("kernel", ["clamped", "zeroed"])
def test_accesses_beyond_a_surface_are_clamped_or_dropped(kernel):
    array = np.arange(24, dtype=np.int32).reshape(4, 6)
    before, out = array.copy(), np.zeros(len(OUTSIDE), np.int32)
    points = np.array([(x, y, 0, 0) for x, y in OUTSIDE], np.int32)
    CpuKernel(text("images"), kernel)[1, 32](Surface(array), points, out, len(points))
    near = [(min(max(y, 0), 3), min(max(x, 0), 5)) for x, y in OUTSIDE]
    inside = [(y, x) == spot for (x, y), spot in zip(OUTSIDE, near, strict=True)]
    read = [before[spot] if kernel == "clamped" or here else 0 for spot, here in zip(near, inside, strict=True)]
    assert out.tolist() == read
    for spot, value, here in zip(near, read, inside, strict=True):
        if here or kernel == "zeroed":
            before[spot] = value + 1000
    assert np.array_equal(array, before)


def test_an_access_beyond_a_surface_stops_the_kernel_with_its_coordinates():
    points = np.array([(1, 1, 0, 0), (2, 5, 0, 0)], np.int32)
    with raises("gpu.fault.out-of-bounds", DeviceFault, match=r"read of 4 bytes .*surface") as caught:
        CpuKernel(text("images"), "access_2d")[1, 32](Surface(np.zeros((4, 6), np.int32)), points, np.zeros(2, "i4"), 2)
    assert "row 5" in caught.value.why
    assert "thread (1, 0, 0)" in caught.value.why


def test_elements_of_a_surface_may_be_accessed_in_other_units():
    array = np.arange(2 * 32, dtype=np.int32).reshape(2, 32)
    before = array.copy()
    CpuKernel(text("images"), "mirrored")[2, 32](Surface(array), 32)
    assert np.array_equal(array, before[:, ::-1])


def test_reductions_on_surfaces_combine_all_threads():
    threads, width = 64, 10
    for name, function in (("add", np.add), ("least", np.minimum), ("greatest", np.maximum)):
        array = np.full((3, width), 5, np.int32)
        before = array.copy()
        CpuKernel(text("images"), name)[3, threads](Surface(array), width)
        for thread in range(threads):
            before[:, thread % width] = function(before[:, thread % width], thread - 20)
        assert np.array_equal(array, before), name


def test_queries_return_sizes_and_the_numbers_of_opencl_for_of_the_format():
    large, middle, _ = levels()
    texture = Texture(large, mipmap=(middle,), normalized_coords=True)
    out = np.zeros(11, np.int32)
    CpuKernel(text("images"), "sizes")[1, 1](texture, Surface(np.zeros((3, 5), np.uint8)), out)
    assert out.tolist() == [8, 8, 1, 0x10B0, 0x10DE, 1, 2, 4, 5, 3, 0x10DA]


def test_a_texture_and_a_pointer_may_share_an_array():
    array = np.arange(20, dtype=np.float32)
    out = array.reshape(5, 4)
    CpuKernel(text("images"), "fetch_whole")[1, 32](
        Texture(array[16:]), np.array([[3, 0, 0, 0], [2, 0, 0, 0]], np.float32), out, 2
    )
    assert out.tolist() == [[19, 0, 0, 0], [18, 0, 0, 0], [8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19]]


@pytest.mark.parametrize(
    ("kernel", "given", "message"),
    [
        ("fetch_2d", np.uint64(7), "0x7 is not a texture"),
        ("fetch_2d", Surface(np.zeros((4, 4), np.float32)), "is not a texture"),
        ("access_2d", Texture(np.zeros((4, 4), np.float32)), "is not a surface"),
        ("fetch_2d", Texture(np.zeros((4, 4, 4), np.float32)), "shape of a texture"),
        ("fetch_3d", Texture(np.zeros((4, 4, 4), np.float32), layered=True), "shape of a texture"),
        ("fetch_cube", Texture(np.zeros((6, 4, 4), np.float32), layered=True), "shape of a texture"),
        ("access_2d", Surface(np.zeros((4, 4, 4), np.int32)), "shape of a surface"),
    ],
)
def test_wrong_handles_and_shapes_stop_the_kernel(kernel, given, message):
    points = np.zeros((1, 4), np.int32 if kernel.startswith("access") else np.float32)
    with raises("gpu.fault.bad-texture", DeviceFault, match=message):
        CpuKernel(text("images"), kernel)[1, 1](given, points, np.zeros(4, np.int32), 1)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: Texture(np.zeros((4, 4), np.float64)), "gpu.bad-texture"),
        (lambda: Texture(np.zeros((2, 2, 2, 2), np.float32)), "gpu.bad-texture"),
        (lambda: Texture(np.zeros((4, 3), np.float32), channels=3), "gpu.bad-texture"),
        (lambda: Texture(np.zeros((4, 4), np.float32), channels=2), "gpu.bad-texture"),
        (lambda: Surface(np.zeros((4, 4), np.float32).T[::-1]), "gpu.bad-texture"),
        (lambda: Texture(np.zeros((4, 4), np.float32), cube=True), "gpu.bad-texture"),
        (lambda: Texture(np.zeros((), np.float32), channels=2), "gpu.bad-texture"),
        (lambda: Texture([1.0, 2.0]), "gpu.bad-texture"),
        (lambda: Texture(np.zeros((4, 4), np.float32), filter="cubic"), "option.unknown-value"),
        (lambda: Texture(np.zeros((4, 4), np.float32), address=("wrap", "round")), "option.unknown-value"),
    ],
)
def test_arrays_that_cannot_be_textures_are_refused(make, code):
    with raises(code, ProbeError):
        make()


def test_the_device_refuses_images_that_are_not_in_its_memory():
    device = SimulatedDevice(1 << 20)
    address = device.allocate(64)
    good = TexelImage(address, "f32", 1, (16, 1, 1, 1), (4, 64, 64, 64))
    handle = device.images.add(View((good,), Sampler()))
    device.images.remove(handle)
    with raises("gpu.bad-texture", AccelMagicError, match="not the handle"):
        device.images.remove(handle)
    for wrong in (
        TexelImage(address, "f32", 1, (17, 1, 1, 1), (4, 64, 64, 64)),
        TexelImage(address, "f64", 1, (2, 1, 1, 1), (8, 64, 64, 64)),
        TexelImage(address, "u8", 1, (2, 2, 1, 5), (1, 2, 4, 4), cube=True),
    ):
        with raises("gpu.bad-texture", AccelMagicError):
            device.images.add(View((wrong,)))


FORMS = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry forms(.param .u64 image, .param .u64 out)
{
.reg .pred %p<2>;
.reg .b32 %r<24>;
.reg .f32 %f<4>;
.reg .b64 %rd<3>;
ld.param.u64 %rd0, [image];
ld.param.u64 %rd1, [out];
mov.f32 %f0, 0f3FC00000;
mov.f32 %f1, 0f3F000000;
mov.u32 %r0, 2;
mov.u32 %r1, 1;
mov.u32 %r2, 7;
tex.2d.v2.f16x2.f32 {%r4, %r5}|%p0, [%rd0, {%f0, %f1}];
selp.u32 %r6, 1, 0, %p0;
tex.2d.v4.s32.s32 {%r7, %r8, %r9, %r10}, [%rd0, {%r0, %r1}];
tex.base.2d.v4.u32.s32 {%r11, %r12, %r13, %r14}, [%rd0, {%r2, %r1}];
st.global.v4.u32 [%rd1], {%r4, %r5, %r6, %r7};
st.global.v4.u32 [%rd1+16], {%r8, %r11, %r12, %r14};
ret;
}
"""


def test_half_results_whole_coordinates_and_the_predicate_of_residency():
    array = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4) / 4
    out = np.zeros(8, np.uint32)
    CpuKernel(FORMS)[1, 1](Texture(array, channels=4), out)
    assert out[:2].view(np.float16).tolist() == array[0, 1].tolist()
    assert out[2] == 1
    # The last column is the nearest to one beyond the edge.
    assert out[3:].view(np.float32).tolist() == [*array[1, 2, :2], *array[1, 2, [0, 1, 3]]]
