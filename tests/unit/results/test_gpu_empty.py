"""GPU results of blocks that launched no kernel: they say so, with every tool."""

import pytest

import accel_magic
from accel_magic.gpu_tools import TOOLS

pytestmark = pytest.mark.component


@pytest.mark.parametrize("tool", TOOLS)
def test_a_block_without_kernels_is_said_to_have_none(tool):
    with accel_magic.gputrace(tool) as trace:
        pass

    result = trace.result
    shown = result._repr_mimebundle_()
    assert "0 launches" in shown["text/plain"]
    assert all("no kernel was launched" in text for text in shown.values())
    assert len(result.events) == len(result.counts) == 0
