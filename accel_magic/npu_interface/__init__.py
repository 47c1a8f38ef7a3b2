"""The interfaces around Intel's NPU driver, as data: what traces of it and the lab's emulated NPU share."""
