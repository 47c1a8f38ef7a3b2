"""OpenCL devices, through the loader that the process uses (libOpenCL) and ctypes."""
