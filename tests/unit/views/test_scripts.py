"""Scripts of figures: ES modules with unit tests in JavaScript (run by Node.js), joined for the page."""

import os
import shutil
import subprocess

import pytest

import accel_magic
from accel_magic.views.scripts import page_script
from tests.support.paths import ROOT

pytestmark = pytest.mark.component

PACKAGE = ROOT / accel_magic.__name__
NODE = shutil.which("node")
MODULES = sorted(PACKAGE.rglob("*.js"))
TESTS = sorted((ROOT / "tests/unit").rglob("*.test.js"))
ENTRIES = [path for path in MODULES if "\nexport {" in path.read_text()]


@pytest.fixture
def node():
    """Run Node.js with arguments."""
    if NODE is None:
        if os.environ.get("CI"):
            pytest.fail("no Node.js is installed")
        pytest.skip("no Node.js is installed: apt-get install nodejs")
    return lambda *arguments: subprocess.run([NODE, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_the_unit_tests_in_javascript_pass(node, path):
    done = node("--test", path)

    assert done.returncode == 0, done.stdout
    assert "# fail 0" in done.stdout
    assert "# pass 0" not in done.stdout


def test_the_modules_of_each_script_are_found():
    assert {path.name for path in ENTRIES} == {"flame.js", "heatmap.js", "timeline.js"}
    assert len(TESTS) >= 6


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.name)
def test_joined_modules_are_the_body_of_a_function(node, path, tmp_path):
    script = page_script(path, "attribute")
    joined = tmp_path / "joined.js"
    joined.write_text(f"(function (plot, cb_obj) {{\n{script}}})\n")
    done = node("--check", joined)

    assert done.returncode == 0, done.stderr
    assert not [line for line in script.splitlines() if line.startswith(("import ", "export "))]


@pytest.fixture
def modules(tmp_path):
    """Write modules: a diamond, whose lowest module counts how often it runs, and a cycle."""
    (tmp_path / "arguments.js").write_text("export let start\nexport function pass(page) { ({start} = page) }\n")
    (tmp_path / "low.js").write_text(
        'import {start} from "./arguments.js"\n\nexport const runs = []\nruns.push(start)\n'
    )
    (tmp_path / "left.js").write_text(
        'import {runs} from "./low.js"\nimport {right} from "./right.js"\n\n'
        "export const left = () => [...runs, right()]\n"
    )
    (tmp_path / "right.js").write_text(
        'import {runs} from "./low.js"\nimport {left} from "./left.js"\n\n'
        "export function right() { return `right of ${runs.length}, ${typeof left}` }\n"
    )
    (tmp_path / "entry.js").write_text(
        'import {\n  left\n} from "./left.js"\nimport {runs} from "./low.js"\n\n'
        "function hear(event) { runs.push(event) }\n\nexport {hear, left}\n"
    )
    return tmp_path / "entry.js"


def test_modules_run_once_for_each_plot_and_hear_every_event(node, modules):
    script = page_script(modules, "made")
    done = node(
        "--eval",
        f"const run = (plot, cb_obj, start) => {{\n{script}}}\n"
        "const one = {}, other = {}\n"
        "run(one, 'first', 0); run(one, 'second', 0); run(other, 'third', 9)\n"
        "console.log(JSON.stringify([one.made.left(), other.made.left()]))",
    )

    assert done.stdout.strip() == (
        '[[0,"first","second","right of 3, function"],[9,"third","right of 2, function"]]'
    ), done.stderr
