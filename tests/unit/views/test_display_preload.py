import subprocess
import sys
import time

import pytest

from accel_magic.views import display_preload

pytestmark = pytest.mark.component


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(display_preload, "_thread", None)
    monkeypatch.setattr(display_preload, "_import_pandas", lambda: None)
    return display_preload


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_bokeh_and_ipywidgets_are_imported_only_after_waiting():
    code = (
        "import sys; from accel_magic.views import display_preload\n"
        "needed = {'bokeh.plotting', 'bokeh.embed', 'ipywidgets'}\nprint(needed & set(sys.modules))\n"
        "display_preload.start(); display_preload.wait(); print(needed - set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["set()", "set()"]


def test_views_that_make_texts_import_no_bokeh():
    code = "import sys; from accel_magic.views import policy_view, scheduling_view; print('bokeh' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


@pytest.mark.parametrize(
    ("before", "columns"),
    [("", "20"), ("import pandas; pandas.set_option('display.max_columns', 0)", "0")],
    ids=["imported ahead", "imported and set by the user"],
)
def test_pandas_shows_tables_as_in_a_notebook_whoever_imports_it(before, columns):
    code = (
        f"from accel_magic.views import display_preload\n{before}\n"
        "display_preload.start(); display_preload.wait(); import pandas\n"
        "print(pandas.get_option('display.max_columns'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == columns


def test_waiting_without_a_start_returns_at_once(fresh):
    fresh.wait()
    assert fresh._thread is None


def test_starting_twice_imports_once(fresh, monkeypatch):
    imported = []
    monkeypatch.setattr(fresh.importlib, "import_module", imported.append)
    fresh.start()
    fresh.start()
    fresh.wait()
    assert imported == list(fresh._MODULES)


def test_waiting_lasts_until_the_imports_are_done(fresh, monkeypatch):
    done = []
    monkeypatch.setattr(fresh.importlib, "import_module", lambda name: (time.sleep(0.02), done.append(name)))
    fresh.start()
    fresh.wait()
    assert len(done) == len(fresh._MODULES)


def test_a_module_that_cannot_be_imported_is_ignored(fresh, monkeypatch):
    monkeypatch.setattr(fresh, "_MODULES", ("accel_magic_no_such_module", "json"))
    imported = []
    monkeypatch.setattr(
        fresh.importlib, "import_module", lambda name: imported.append(name) if name == "json" else __import__(name)
    )
    fresh.start()
    fresh.wait()
    assert imported == ["json"]
