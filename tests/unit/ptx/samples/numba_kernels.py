"""Generates numba_smooth.ptx with numba-cuda 0.30: `python numba_kernels.py` (no GPU needed)."""

from pathlib import Path

from numba import cuda, float32


def smooth(x, out):
    i = cuda.grid(1)
    tile = cuda.shared.array(128, float32)
    tile[cuda.threadIdx.x] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    if 0 < cuda.threadIdx.x < 127 and i < out.size:
        out[i] = (tile[cuda.threadIdx.x - 1] + tile[cuda.threadIdx.x] + tile[cuda.threadIdx.x + 1]) / 3
    cuda.atomic.add(out, 0, 1.0)


ptx, _ = cuda.compile_ptx(smooth, (float32[:], float32[:]), cc=(8, 0))
Path("numba_smooth.ptx").write_text(ptx)
