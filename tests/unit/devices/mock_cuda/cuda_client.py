"""Access to CUDA's driver through ctypes, imported by the scripts of these tests."""

import ctypes
import os
from ctypes import byref, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p  # noqa: F401 - for scripts
from pathlib import Path

PTX = (Path(__file__).parent / "kernels.ptx").read_bytes()
cu = ctypes.CDLL("libcuda.so.1")


def ok(result):
    if result:
        print("failed", result, flush=True)
        os._exit(1)


def begin():
    context = c_void_p()
    ok(cu.cuInit(0))
    ok(cu.cuDevicePrimaryCtxRetain(byref(context), 0))
    ok(cu.cuCtxSetCurrent(context))


def load(image=PTX):
    module = c_void_p()
    ok(cu.cuModuleLoadData(byref(module), image))
    return module


def kernel(name, module=None):
    function = c_void_p()
    ok(cu.cuModuleGetFunction(byref(function), module or load(), name.encode()))
    return function


def alloc(size):
    address = c_uint64()
    ok(cu.cuMemAlloc_v2(byref(address), c_size_t(size)))
    return address.value


def host_alloc(size):
    pointer = c_void_p()
    ok(cu.cuMemHostAlloc(byref(pointer), c_size_t(size), 2))
    return pointer.value


def put(address, values):
    data = (c_uint * len(values))(*values)
    ok(cu.cuMemcpyHtoD_v2(c_uint64(address), data, c_size_t(ctypes.sizeof(data))))


def get(address, count, kind=c_uint):
    data = (kind * count)()
    ok(cu.cuMemcpyDtoH_v2(data, c_uint64(address), c_size_t(ctypes.sizeof(data))))
    return list(data)


def launch(function, *arguments, grid=1, block=1, stream=None):
    places = (c_void_p * len(arguments))(*[ctypes.addressof(one) for one in arguments])
    return cu.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, places, None)


def sync():
    return cu.cuCtxSynchronize()
