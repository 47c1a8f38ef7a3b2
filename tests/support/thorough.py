"""Whether this is a thorough run (`make test-thorough`)."""

import os

THOROUGH = os.environ.get("ACCEL_MAGIC_THOROUGH") == "1"
