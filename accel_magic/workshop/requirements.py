"""Packages that exercises need beside accel_magic's own."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from accel_magic.errors import MachineError


def openvino() -> tuple[Any, Any]:
    """Return OpenVINO and its operations.

    Raises:
        MachineError: It is not installed.

    """
    try:
        return import_module("openvino"), import_module("openvino.opset13")
    except ImportError as error:
        raise MachineError(
            "this exercise needs OpenVINO",
            why=str(error),
            fix=f"{sys.executable} -m pip install openvino, then restart the Jupyter kernel",
            code="workshop.no-openvino",
        ) from None
