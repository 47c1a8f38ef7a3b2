"""Names of oneDNN's primitives: those in its tasks are those of other primitives.

oneDNN's table of names for tasks lacks three kinds (lrn, batch normalization, inner product), so that every kind after
them has the name of the third one after it. Seen with oneDNN 3.8, 3.10 and 3.13 in the wheels of OpenVINO 2025.4,
2026.0, 2026.1, 2026.2, 2026.3 and 2026.4, compared with ONEDNN_VERBOSE.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from accel_magic.subsystems.openvino import versions

RIGHT: Final = MappingProxyType(
    {
        "rnn": "lrn",
        "gemm": "batch_normalization",
        "binary": "inner_product",
        "matmul": "rnn",
        "resampling": "gemm",
        "pooling": "binary",
        "reduction": "matmul",
        "prelu": "resampling",
        "softmax": "pooling",
        "layer_normalization": "reduction",
        "group_normalization": "prelu",
        "sdpa": "softmax",
    }
)
"""What a primitive is, by the name of its tasks."""


def right(name: str, version: str) -> str:
    """What a primitive is, given the name of its task and OpenVINO's version, '' if that is unknown."""
    return RIGHT.get(name, name) if versions.mixes_up_primitives(version) else name
