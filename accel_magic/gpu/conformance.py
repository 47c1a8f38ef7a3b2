"""`python -m accel_magic.gpu.conformance`: runs the bpf_conformance plug-in from tests/support of a checkout."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

_CHECKOUT = Path(__file__).parents[2]


def main() -> int:
    """Run the plug-in; returns the exit status."""
    if not (_CHECKOUT / "tests" / "support" / "conformance.py").exists():
        print("the conformance plug-in is part of the tests: run it from a checkout of accel_magic", file=sys.stderr)
        return 1
    sys.path.insert(0, str(_CHECKOUT))
    return int(import_module("tests.support.conformance").main())


if __name__ == "__main__":
    raise SystemExit(main())
