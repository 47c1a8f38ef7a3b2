"""A small profile with known values and its expected folded stacks, both written by hand."""

from __future__ import annotations

import pytest

SAMPLE = """\
string\t1\tpython3
string\t2\t_start;main;py::run;torch::mm;zeCommandListAppendLaunchKernel
string\t3\tgemm.cpp
string\t4\tgemm_kernel<float, 16>
string\t5\tsoftmax.cpp
string\t6\tsoftmax_kernel
string\t7\t_start;main;py::run;torch::softmax;0x7f12ab34cd56
interval\t0\t1000.010123
kernel\t0xffff800000100000\t1\t4242\t2\t3\t4
string\t8\tdpas
eustall\t0x40\t8\t5\t1\t2\t30\t4\t50\t6\t7\t8\t0
string\t9\tsend
eustall\t0x80\t9\t0\t0\t0\t120\t0\t10\t0\t0\t0\t0
metric\tfrequency-MHz\t2400
metric\tbusy-percent\t87
interval\t1\t1000.020150
metric\tfrequency-MHz\t600
metric\tbusy-percent\t0
interval\t2\t1000.030177
kernel\t0xffff800000100000\t1\t4242\t2\t3\t4
eustall\t0x80\t9\t3\t0\t0\t77\t0\t0\t0\t0\t0\t0
kernel\t0xffff800000200000\t1\t4242\t7\t0\t0
string\t10\t[failed decode]
eustall\t0x10\t10\t0\t0\t0\t0\t0\t9\t0\t0\t0\t0
metric\tfrequency-MHz\t2350
metric\tbusy-percent\t64
"""
_CALLS = "python3;4242;_start;main;py::run"
_GEMM = f"{_CALLS};torch::mm;zeCommandListAppendLaunchKernel;-;gemm.cpp_[G];gemm_kernel<float, 16>_[G]"
FOLDED = {
    f"{_GEMM};dpas_[g];active_[g];0x40_[g]": 5,
    f"{_GEMM};dpas_[g];control_[g];0x40_[g]": 1,
    f"{_GEMM};dpas_[g];pipestall_[g];0x40_[g]": 2,
    f"{_GEMM};dpas_[g];send_[g];0x40_[g]": 30,
    f"{_GEMM};dpas_[g];dist_acc_[g];0x40_[g]": 4,
    f"{_GEMM};dpas_[g];sbid_[g];0x40_[g]": 50,
    f"{_GEMM};dpas_[g];sync_[g];0x40_[g]": 6,
    f"{_GEMM};dpas_[g];inst_fetch_[g];0x40_[g]": 7,
    f"{_GEMM};dpas_[g];other_[g];0x40_[g]": 8,
    f"{_GEMM};send_[g];send_[g];0x80_[g]": 197,
    f"{_GEMM};send_[g];sbid_[g];0x80_[g]": 10,
    f"{_GEMM};send_[g];active_[g];0x80_[g]": 3,
    f"{_CALLS};torch::softmax;0x7f12ab34cd56;-;_[G];_[G];[failed decode]_[g];sbid_[g];0x10_[g]": 9,
}


@pytest.fixture
def iaprof_sample():
    """The text of the profile: three intervals, two kernels, 332 samples."""
    return SAMPLE


@pytest.fixture
def folded_sample():
    """Its 13 stacks with their samples."""
    return dict(FOLDED)
