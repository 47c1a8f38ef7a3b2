"""docs/flame.md covers the options and stall reasons in the code."""

from accel_magic.magics.flame_magic import parser
from accel_magic.magics.magic_line import option_names
from accel_magic.subsystems.iaprof.profile import REASONS
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/flame.md").read_text()


def test_every_option_is_described():
    for name in option_names(parser()):
        if name not in ("--help", "--no-live", "--no-off-cpu", "--no-by-thread", "--output"):
            assert f"`{name}" in PAGE, name


def test_every_stall_reason_is_described():
    for name in REASONS:
        assert f"| `{name}` | " in PAGE, name
