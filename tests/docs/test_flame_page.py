"""docs/flame.md says what the code says."""

from pathlib import Path

from accel_magic.magics.flame_options import OPTION_NAMES
from accel_magic.profiles.iaprof.model import REASONS

PAGE = (Path(__file__).parents[2] / "docs/flame.md").read_text()


def test_every_option_is_described():
    for name in OPTION_NAMES:
        if name not in ("--help", "--no-live", "--no-off-cpu", "--no-threads", "--output"):
            assert f"`{name}" in PAGE, name


def test_every_stall_reason_is_described():
    for name in REASONS:
        assert f"| `{name}` | " in PAGE, name
