"""All rules that findings come from: unique codes, and a row in the documentation for each."""

import ast
import re
from collections import Counter

import pytest

from accel_magic.findings import SEVERITIES
from accel_magic.gpu.verifier import budget
from tests.support.paths import ROOT
from tests.support.sources import walked
from tests.unit.test_error_codes import FORM, all_codes, modules
from tools.site_source import RULES, VERIFIER_RULES

PAGES = {
    "npu": "npu-findings.md",
    "drm": "drivers.md",
    "openvino": "openvino.md",
    "gpu": "gputrace.md",
    "iaprof": "flame.md",
    "policy": "policies.md",
    "trace": "reference.md",
}
"""The page with the findings of each area: tables whose first column is `finding`."""


def created(kind):
    """Number of rules of a class that the sources create."""
    return sum(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == kind
        for tree in modules().values()
        for node in walked(tree)
    )


def documented(page):
    """The names in the first column of the tables of findings of a page."""
    tables = re.findall(r"^\| finding \|.*\n\|[-|]+\|\n((?:\|.*\n)*)", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    return [name for rows in tables for row in rows.splitlines() for name in re.findall("`([^`]+)`", row.split("|")[1])]


def test_every_rule_of_the_package_is_in_the_registry():
    assert created("Rule") == len(RULES) > 80
    assert created("VerifierRule") == len(VERIFIER_RULES) > 35


def test_all_codes_of_rules_and_errors_differ():
    codes = [rule.code for rule in RULES]
    of_verifier = [f"gpu.verifier.{rule.id}" for rule in VERIFIER_RULES]

    assert [code for code, times in Counter([*codes, *of_verifier]).items() if times > 1] == []
    assert set(codes) & all_codes() == set()
    assert set(of_verifier) <= all_codes()
    assert [code for code in codes if not FORM.fullmatch(code)] == []


@pytest.mark.parametrize("area", PAGES)
def test_the_page_of_an_area_has_a_row_for_each_of_its_rules_and_no_other(area):
    assert sorted(documented(PAGES[area])) == sorted(rule.id for rule in RULES if rule.area == area)


def test_every_rule_has_an_area_with_a_page_and_a_severity():
    assert {rule.area for rule in RULES} == set(PAGES)
    assert {rule.severity for rule in RULES} == set(SEVERITIES)


def test_every_rule_of_the_verifier_has_a_row():
    table = re.search(
        r"^\| rule \|.*\n\|[-|]+\|\n((?:\|.*\n)*)", (ROOT / "docs/gpu-programs.md").read_text(), re.MULTILINE
    )
    listed = [row.split("`")[1] for row in table[1].splitlines()]

    assert sorted(set(listed)) == sorted(listed)
    missing = {rule.id for rule in VERIFIER_RULES} - set(listed)
    assert missing == {budget.INSTRUCTIONS.id, budget.STACK.id, budget.MEMORY.id}
    assert {*listed} <= {rule.id for rule in VERIFIER_RULES}
