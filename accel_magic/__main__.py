"""`python -m accel_magic COMMAND`, also installed as `accel-magic`."""

from __future__ import annotations

import sys

from accel_magic.command_line import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
