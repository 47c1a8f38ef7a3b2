"""The rules and their documentation."""

from accel_magic.subsystems.openvino.diagnosis import RULES
from tests.support.paths import ROOT


def test_every_rule_is_documented_and_only_those():
    text = (ROOT / "docs" / "openvino.md").read_text()
    rows = [line for line in text.partition("## Findings")[2].splitlines() if line.startswith("| `")]

    assert [row.split("`")[1] for row in rows] == [rule.id for rule in RULES]
