"""Whether this is a thorough run (`make test-thorough`)."""

import os

THOROUGH = os.environ.get("ACCEL_MAGIC_THOROUGH") == "1"


def choose(usual, thorough):
    """A number for the usual run, or for a thorough one."""
    return thorough if THOROUGH else usual
