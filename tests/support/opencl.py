"""Intel's OpenCL runtime for processors, which is a package of PyPI, and Khronos' validator of SPIR-V."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

SYSTEM = os.environ.get("ACCEL_MAGIC_OPENCL") == "system"
"""Whether tests run on the first device of the machine's own OpenCL, e.g. a GPU: tools/gpu_check --intel."""


@cache
def library():
    """Intel's runtime; None if it is not installed."""
    try:
        files = importlib.metadata.files("intel-opencl-rt") or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(one.locate()).resolve() for one in files if one.name == "libintelocl.so"), None)


@cache
def loader():
    """Khronos' loader, which comes with Intel's runtime; the machine's own with `SYSTEM`."""
    if SYSTEM:
        return Path("libOpenCL.so.1")
    files = importlib.metadata.files("intel-opencl-rt") or ()
    return next(Path(one.locate()).resolve() for one in files if one.name == "libOpenCL.so.1")


def environment(folder):
    """Environment variables with which the loader finds the runtime. Its own file names a place that is not there."""
    if SYSTEM:
        return {**os.environ, "XDG_CACHE_HOME": str(folder)}
    found = library()
    vendors = Path(folder) / "intel.icd"
    vendors.write_text(f"{found}\n")
    return {
        **os.environ,
        "OCL_ICD_VENDORS": str(vendors),
        "OCL_ICD_FILENAMES": str(found),  # of Khronos' loader
        "XDG_CACHE_HOME": str(folder),  # PyOpenCL keeps compiled programs there
    }


def validator():
    """The path of spirv-val; None if it is not installed."""
    return shutil.which("spirv-val", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))


def assert_valid(code, version="spv1.4"):
    """Check a module with spirv-val."""
    done = subprocess.run([validator(), "--target-env", version, "-"], input=code, capture_output=True, check=False)
    assert not done.returncode, done.stderr.decode()
