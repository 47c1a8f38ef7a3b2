"""NVIDIA's own bindings of the driver API, for the scripts of test_driver_images.py: its layouts, not ours."""

import ctypes
from pathlib import Path

import numpy as np
from cuda.bindings import driver as d

KERNELS = Path(__file__).parents[1] / "sim" / "samples" / "images.ptx"
FLOAT = d.CUarray_format.CU_AD_FORMAT_FLOAT
INT = d.CUarray_format.CU_AD_FORMAT_SIGNED_INT32
BYTE = d.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8
MODES = dict(zip(("wrap", "clamp", "mirror", "border"), d.CUaddress_mode, strict=False))
AS_INTEGER, NORMALIZED = 1, 2


def ok(result):
    if int(result[0]):
        raise SystemExit(f"failed: {result[0]}")
    return result[1] if len(result) == 2 else result[1:]


ok(d.cuInit(0))
ok(d.cuCtxSetCurrent(ok(d.cuDevicePrimaryCtxRetain(0))))
MODULE = ok(d.cuModuleLoadData(KERNELS.read_bytes() + b"\0"))
TENSORS = KERNELS.with_name("tensors.ptx")


def on_device(array):
    address = ok(d.cuMemAlloc(array.nbytes))
    ok(d.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))
    return address


def cuda_array(array, kind=FLOAT, channels=1, flags=0):
    """Make a CUDA array, with 3D copies; layers are its depth."""
    what = d.CUDA_ARRAY3D_DESCRIPTOR()
    sizes = array.shape[: array.ndim - (channels > 1)]
    what.Width, what.Height, what.Depth = (*sizes[::-1], 0, 0)[:3]
    what.Format, what.NumChannels, what.Flags = kind, channels, flags
    made = ok(d.cuArray3DCreate(what))
    copy(array, made, sizes, back=False)
    return made


def copy(array, image, sizes, *, back, start=(0, 0, 0)):
    """Copy between a numpy array and a CUDA array, whose part begins at x (bytes), y, z."""
    how = d.CUDA_MEMCPY3D()
    row = array.nbytes // int(np.prod(sizes[:-1], dtype=int))
    host, device = ("dst", "src") if back else ("src", "dst")
    setattr(how, f"{host}MemoryType", d.CUmemorytype.CU_MEMORYTYPE_HOST)
    setattr(how, f"{host}Host", array.ctypes.data)
    setattr(how, f"{host}Pitch", row)
    setattr(how, f"{host}Height", sizes[-2] if len(sizes) > 1 else 1)
    setattr(how, f"{device}MemoryType", d.CUmemorytype.CU_MEMORYTYPE_ARRAY)
    setattr(how, f"{device}Array", image)
    for axis, value in zip(("XInBytes", "Y", "Z"), start, strict=True):
        setattr(how, f"{device}{axis}", value)
    how.WidthInBytes, how.Height, how.Depth = row, *(*sizes[-2::-1], 1, 1)[:2]
    ok(d.cuMemcpy3D(how))


def of_array(image):
    what = d.CUDA_RESOURCE_DESC()
    what.resType, what.res.array.hArray = d.CUresourcetype.CU_RESOURCE_TYPE_ARRAY, image
    return what


def texture(what, *, mode="clamp", linear=False, flags=AS_INTEGER, border=0.0, most=0.0):
    how = d.CUDA_TEXTURE_DESC()
    how.addressMode = [MODES[mode]] * 3
    how.filterMode = how.mipmapFilterMode = d.CUfilter_mode(int(linear))
    how.flags, how.borderColor, how.maxMipmapLevelClamp = flags, [border] * 4, most
    return ok(d.cuTexObjectCreate(what, how, None))


def launch(kernel, *arguments, threads=64):
    kinds = tuple(ctypes.c_int if isinstance(one, int) else ctypes.c_uint64 for one in arguments)
    function = ok(d.cuModuleGetFunction(MODULE, kernel.encode()))
    ok(d.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, 0, (tuple(int(one) for one in arguments), kinds), 0))
    return d.cuCtxSynchronize()[0]


def fetched(kernel, handle, points, dtype=np.float32):
    """Run a kernel for at most 64 points (x, y, z, layer)."""
    given = np.array(points, np.float32)
    out = np.zeros((len(given), 4), dtype)
    addresses = on_device(given), on_device(out)
    ok((launch(kernel, handle, *addresses, len(given)), None))
    ok(d.cuMemcpyDtoH(out.ctypes.data, addresses[1], out.nbytes))
    for address in addresses:
        ok(d.cuMemFree(address))
    return out


def same(found, expected):
    print(np.array_equal(found, np.asarray(expected)), flush=True)


def tensor_map(address, shape, box, *, steps=(1, 1), kind="UINT32", interleave=0, swizzle=0, fill=0):
    """Encode a tensor of rows without padding, of 4 bytes per element; sizes begin with x."""
    numbers = [d.cuuint64_t(size) for size in shape]
    spans, skips = ([d.cuuint32_t(one) for one in given] for given in (box, steps[: len(shape)]))
    strides = [d.cuuint64_t(4 * int(np.prod(shape[: at + 1]))) for at in range(len(shape) - 1)]
    return d.cuTensorMapEncodeTiled(
        getattr(d.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"),
        *(len(shape), int(address), numbers, strides, spans, skips),
        d.CUtensorMapInterleave(interleave),
        d.CUtensorMapSwizzle(swizzle),
        d.CUtensorMapL2promotion(0),
        d.CUtensorMapFloatOOBfill(fill),
    )


def copied_box(kernel, encoded, start, count, given=None):
    """Run a kernel of tensors.cu: load a box and return its bytes, or store `given`."""
    module = ok(d.cuModuleLoadData(TENSORS.read_bytes() + b"\0"))
    function = ok(d.cuModuleGetFunction(module, kernel.encode()))
    out = np.zeros(count, np.uint8) if given is None else given.view(np.uint8)
    addresses = [on_device(np.array(start, np.int32)), on_device(out)]
    kept = [ctypes.c_uint64(int(one)) for one in addresses] + [ctypes.c_int(count)]
    pointers = (ctypes.c_void_p * 4)(int(encoded.getPtr()), *(ctypes.addressof(one) for one in kept))
    ok((*d.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, count, 0, ctypes.addressof(pointers), 0), None))
    ok((*d.cuCtxSynchronize(), None))
    ok(d.cuMemcpyDtoH(out.ctypes.data, addresses[1], out.nbytes))
    return out
