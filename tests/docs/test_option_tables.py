"""The tables of options in docs/ are those of the options."""

import subprocess
import sys

from tests.support.paths import ROOT


def test_the_tables_are_up_to_date():
    checked = subprocess.run(
        [sys.executable, ROOT / "tools" / "option_tables.py", "--check"], capture_output=True, text=True, check=False
    )

    assert checked.stderr == ""
    assert checked.returncode == 0
