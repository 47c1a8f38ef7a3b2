"""Level Zero programs, on a mock that runs their kernels on Intel's OpenCL runtime."""

from tests.unit.gpu.opencl.conftest import native, run, runtime  # noqa: F401 - fixtures
