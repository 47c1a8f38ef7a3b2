"""Models for the emulated NPU: OpenVINO loads and executes them in a confined process on the host.

The device starts this package as a process and talks to it (`device/models.py`) in the messages of `protocol.py`.
"""

from __future__ import annotations
