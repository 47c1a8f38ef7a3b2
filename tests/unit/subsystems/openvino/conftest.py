"""Traces of real OpenVINO inferences."""

import pytest

from tests.support import openvino


@pytest.fixture(scope="session")
def traced(tmp_path_factory):
    """Run a script after `openvino.HEAD`, and return its trace and what it told."""
    return lambda script: openvino.run(tmp_path_factory.mktemp("openvino"), script)
