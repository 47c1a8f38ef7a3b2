"""CUDA arrays, textures and surfaces of the mock CUDA driver, used through NVIDIA's own Python bindings."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.component

pytest.importorskip("cuda.bindings")


@pytest.fixture
def ran(machine):
    """Run a script; each line that it prints must be True, and nothing may be left afterwards."""

    def run(script, lines):
        one = machine()
        out = one.run(f"from images_client import *\n{script}")
        assert out.split() == ["True"] * lines, out + one.err
        assert one.left() == 0
        assert not one.device.images._views
        return one

    return run


CENTERS = "points = [(x + 0.5, y + 0.5, 0, 0) for y in range(5) for x in range(7)]\n"
IMAGE = "image = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)\n"


def test_textures_over_arrays_are_sampled_as_described(ran):
    ran(
        f"""{IMAGE}{CENTERS}
what = of_array(cuda_array(image))
same(fetched("fetch_2d", texture(what), points)[:, 0], image.reshape(-1))
linear = texture(what, linear=True)
same(fetched("fetch_2d", linear, [(2.0, 1.5, 0, 0)])[0, 0], np.float32((image[1, 1] + np.float64(image[1, 2])) / 2))
wrapped = texture(what, mode="wrap", flags=NORMALIZED)
same(fetched("fetch_2d", wrapped, [(1 + 0.5 / 7, -1 + 1.5 / 5, 0, 0)])[0, 0], image[1, 0])
bordered = texture(what, mode="border", border=2.5)
same(fetched("fetch_2d", bordered, [(7.5, 1, 0, 0), (-0.5, 2, 0, 0), (1, 2, 0, 0)])[:, 0], [2.5, 2.5, image[2, 1]])
for handle in (linear, wrapped, bordered):
    ok(d.cuTexObjectDestroy(handle))
""",
        4,
    )


def test_integers_are_promoted_unless_they_are_read_as_such(ran):
    ran(
        """
image = np.arange(4 * 6, dtype=np.uint8).reshape(2, 3, 4) * 10
points = [(x + 0.5, y + 0.5, 0, 0) for y in range(2) for x in range(3)]
what = of_array(cuda_array(image, BYTE, 4))
same(fetched("fetch_2d_uint", texture(what), points, np.uint32), image.reshape(6, 4))
same(fetched("fetch_2d", texture(what, flags=0), points), np.float32(image.reshape(6, 4) / 255))
""",
        2,
    )


def test_textures_over_memory_read_it_where_it_is(ran):
    ran(
        f"""{IMAGE}{CENTERS}
pitched, pitch = ok(d.cuMemAllocPitch(28, 5, 4))
rows = np.zeros((5, pitch // 4), np.float32)
rows[:, :7] = image
ok(d.cuMemcpyHtoD(pitched, rows.ctypes.data, rows.nbytes))
what = d.CUDA_RESOURCE_DESC()
what.resType = d.CUresourcetype.CU_RESOURCE_TYPE_PITCH2D
what.res.pitch2D.devPtr, what.res.pitch2D.format, what.res.pitch2D.numChannels = pitched, FLOAT, 1
what.res.pitch2D.width, what.res.pitch2D.height, what.res.pitch2D.pitchInBytes = 7, 5, pitch
same(fetched("fetch_2d", texture(what), points)[:, 0], image.reshape(-1))
flat = d.CUDA_RESOURCE_DESC()
flat.resType = d.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
flat.res.linear.devPtr, flat.res.linear.format, flat.res.linear.numChannels = pitched, FLOAT, 1
flat.res.linear.sizeInBytes = 28
handle = texture(flat, mode="wrap", linear=True, flags=AS_INTEGER | NORMALIZED)
found = fetched("fetch_whole", handle, [(x, 0, 0, 0) for x in (-1, 0, 3, 6, 7, 100)])
same(found[:, 0], [0, image[0, 0], image[0, 3], image[0, 6], 0, 0])
""",
        2,
    )


def test_surfaces_and_textures_share_layers_and_volumes(ran):
    ran(
        """
layers = np.arange(3 * 4 * 5, dtype=np.int32).reshape(3, 4, 5)
image = cuda_array(layers, INT, flags=1 | 2)
surface = ok(d.cuSurfObjectCreate(of_array(image)))
spots = np.array([(2, 1, 0, 2), (4, 3, 0, 0), (0, 0, 0, 1)], np.int32)
points, out = on_device(spots), on_device(np.zeros(3, np.int32))
ok((launch("access_a2d", surface, points, out, 3), None))
back = np.zeros_like(layers)
copy(back, image, back.shape, back=True)
layers[2, 1, 2] += 1000; layers[0, 3, 4] += 1000; layers[1, 0, 0] += 1000
same(back, layers)
part = np.zeros((2, 2, 3), np.int32)
copy(part, image, part.shape, back=True, start=(2 * 4, 1, 1))
same(part, layers[1:3, 1:3, 2:5])
ok(d.cuSurfObjectDestroy(surface))
volume = np.random.default_rng(1).normal(size=(3, 4, 5)).astype(np.float32)
what = of_array(cuda_array(volume))
points = [(x + 0.5, y + 0.5, z + 0.5, 0) for z in range(3) for y in range(4) for x in range(5)]
same(fetched("fetch_3d", texture(what), points)[:, 0], volume.reshape(-1))
cube = np.random.default_rng(2).normal(size=(6, 4, 4)).astype(np.float32)
handle = texture(of_array(cuda_array(cube, flags=4)), flags=NORMALIZED)
same(fetched("fetch_cube", handle, [(0.1, 9, 0.1, 0), (-9, -0.1, 0.1, 0)])[:, 0], [cube[2, 2, 2], cube[1, 2, 2]])
""",
        4,
    )


def test_levels_of_mipmapped_arrays_are_arrays(ran):
    ran(
        """
what = d.CUDA_ARRAY3D_DESCRIPTOR()
what.Width, what.Height, what.Format, what.NumChannels = 8, 4, FLOAT, 1
mipmapped = ok(d.cuMipmappedArrayCreate(what, 3))
levels = [np.full((4 >> at, 8 >> at), at + 1, np.float32) for at in range(3)]
for at, level in enumerate(levels):
    copy(level, ok(d.cuMipmappedArrayGetLevel(mipmapped, at)), level.shape, back=False)
resource = d.CUDA_RESOURCE_DESC()
resource.resType = d.CUresourcetype.CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
resource.res.mipmap.hMipmappedArray = mipmapped
handle = texture(resource, linear=True, flags=NORMALIZED, most=2.0)
found = fetched("fetch_lod", handle, [(0.5, 0.5, 0, lod) for lod in (0, 0.5, 1, 2, 5)])
same(found[:, 0], [1, 1.5, 2, 3, 3])
ok(d.cuTexObjectDestroy(handle))
ok(d.cuMipmappedArrayDestroy(mipmapped))
print(ok(d.cuMemGetInfo())[0] == ok(d.cuMemGetInfo())[1])
""",
        2,
    )


def test_bytes_can_be_copied_to_and_from_arrays_and_descriptions_can_be_read(ran):
    ran(
        """
image = np.arange(12, dtype=np.float32)
what = d.CUDA_ARRAY_DESCRIPTOR()
what.Width, what.Height, what.Format, what.NumChannels = 12, 0, FLOAT, 1
array, other = ok(d.cuArrayCreate(what)), ok(d.cuArrayCreate(what))
ok(d.cuMemcpyHtoA(array, 0, image.ctypes.data, 48))
ok(d.cuMemcpyAtoA(other, 16, array, 0, 32))
address, back = ok(d.cuMemAlloc(32)), np.zeros(8, np.float32)
ok(d.cuMemcpyAtoD(address, other, 16, 32))
ok(d.cuMemcpyDtoA(other, 0, address, 16))
ok(d.cuMemcpyAtoH(back.ctypes.data, other, 0, 32))
same(back, [0, 1, 2, 3, 0, 1, 2, 3])
print(int(d.cuMemcpyHtoA(array, 4, image.ctypes.data, 48)[0]) == 1)
print(ok(d.cuArrayGetDescriptor(array)).Width == 12, ok(d.cuArray3DGetDescriptor(array)).Format == FLOAT)
handle = texture(of_array(array), mode="border")
known = ok(d.cuTexObjectGetResourceDesc(handle))
print(int(known.res.array.hArray) == int(array))
print(ok(d.cuTexObjectGetTextureDesc(handle)).addressMode[0] == MODES["border"])
""",
        6,
    )


def test_what_is_not_supported_or_gone_is_an_error(ran):
    one = ran(
        f"""{IMAGE}
what = of_array(cuda_array(image))
how = d.CUDA_TEXTURE_DESC()
how.flags = 0x10
print(int(d.cuTexObjectCreate(what, how, None)[0]) == 801)
strange = d.CUDA_ARRAY_DESCRIPTOR()
strange.Width, strange.Height, strange.Format, strange.NumChannels = 4, 4, d.CUarray_format.CU_AD_FORMAT_NV12, 1
print(int(d.cuArrayCreate(strange)[0]) == 801)
beyond = d.CUDA_RESOURCE_DESC()
beyond.resType = d.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
beyond.res.linear.devPtr, beyond.res.linear.format, beyond.res.linear.numChannels = on_device(image), FLOAT, 1
beyond.res.linear.sizeInBytes = image.nbytes + 4
how.flags = 0
print(int(d.cuTexObjectCreate(beyond, how, None)[0]) == 1)
handle = texture(what)
ok(d.cuTexObjectDestroy(handle))
print(int(d.cuTexObjectDestroy(handle)[0]) == 1)
points, out = on_device(np.zeros((1, 4), np.float32)), on_device(np.zeros(4, np.float32))
print(int(launch("fetch_2d", handle, points, out, 1)) == 719)
""",
        5,
    )
    assert "sRGB" in one.err
    assert "is not a texture" in one.err


def test_tensor_maps_that_the_driver_encodes_move_boxes(ran):
    ran(
        """
array = np.arange(12 * 16, dtype=np.uint32).reshape(12, 16)
address = on_device(array)
box = copied_box("load2", ok(tensor_map(address, (16, 12), (8, 4))), (12, 10), 128).view(np.uint32).reshape(4, 8)
expected = np.zeros((4, 8), np.uint32)
expected[:2, :4] = array[10:, 12:]
same(box, expected)
box = copied_box("load2", ok(tensor_map(address, (16, 12), (4, 6), steps=(1, 3))), (4, 2), 32).view(np.uint32)
same(box.reshape(2, 4), array[2:8:3, 4:8])
given = np.arange(500, 516, dtype=np.uint32)
copied_box("store1", ok(tensor_map(address, (192,), (16,), steps=(1,))), (20,), 64, given)
array.reshape(-1)[20:36] = given
back = np.zeros_like(array)
ok(d.cuMemcpyDtoH(back.ctypes.data, address, back.nbytes))
same(back, array)
swizzled = copied_box("load2", ok(tensor_map(address, (16, 12), (8, 8), swizzle=1)), (0, 0), 256).reshape(8, 2, 16)
plain = np.ascontiguousarray(array[:8, :8]).view(np.uint8).reshape(8, 2, 16)
same(swizzled, [plain[row, ::-1] if row // 4 else plain[row] for row in range(8)])
""",
        4,
    )


def test_tensor_maps_are_checked_as_cuda_documents(ran):
    one = ran(
        """
address = on_device(np.zeros((16, 16), np.uint32))
for wrong in (
    tensor_map(int(address) + 4, (16, 16), (8, 8)),
    tensor_map(address, (16, 16), (3, 8)),
    tensor_map(address, (16, 16), (8, 257)),
    tensor_map(address, (16, 16), (8, 8), steps=(1, 9)),
    tensor_map(address, (15, 16), (8, 8)),
    tensor_map(address, (16, 16), (16, 8), swizzle=1),
    tensor_map(address, (16, 0), (8, 8)),
):
    print(int(wrong[0]) == 1)
for other in (
    tensor_map(address, (16, 16), (8, 8), kind="TFLOAT32"),
    tensor_map(address, (16, 16), (8, 8), kind="FLOAT32", fill=1),
    tensor_map(address, (16, 16), (8, 8), swizzle=4),
):
    print(int(other[0]) == 801)
""",
        10,
    )
    assert "TF32" in one.err
    assert "no fill with NaN" in one.err
