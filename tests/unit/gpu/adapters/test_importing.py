from __future__ import annotations

import importlib.util
import sys

import pytest

from accel_magic.gpu.adapters.patching import on_import


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("made_for_the_import")]:
        del sys.modules[name]


def test_a_module_is_reported_once_it_is_complete(folder):
    (folder / "made_for_the_import.py").write_text("complete = 1")
    seen = []
    with on_import(["made_for_the_import"], lambda name: seen.append(sys.modules[name].complete)):
        importlib.import_module("made_for_the_import")
        importlib.import_module("made_for_the_import")
    assert seen == [1]


def test_a_submodule_is_reported_by_its_full_name(folder):
    package = folder / "made_for_the_import"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("")
    seen = []
    with on_import(["made_for_the_import.inner"], seen.append):
        importlib.import_module("made_for_the_import")
        assert seen == []
        importlib.import_module("made_for_the_import.inner")
    assert seen == ["made_for_the_import.inner"]


def test_an_import_after_the_end_is_not_reported(folder):
    (folder / "made_for_the_import.py").write_text("")
    seen = []
    with on_import(["made_for_the_import"], seen.append):
        pass
    importlib.import_module("made_for_the_import")
    assert seen == []


def test_a_module_that_is_found_within_the_cell_and_executed_after_it_is_not_reported(folder):
    (folder / "made_for_the_import.py").write_text("")
    seen = []
    with on_import(["made_for_the_import"], seen.append):
        spec = importlib.util.find_spec("made_for_the_import")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert seen == []


def test_a_module_that_is_executed_twice_is_reported_once(folder):
    (folder / "made_for_the_import.py").write_text("")
    seen = []
    with on_import(["made_for_the_import"], seen.append):
        spec = importlib.util.find_spec("made_for_the_import")
        loader = spec.loader
        for _ in range(2):
            loader.exec_module(importlib.util.module_from_spec(spec))
    assert seen == ["made_for_the_import"]


def test_an_import_that_fails_is_not_reported_and_can_be_repeated(folder):
    source = folder / "made_for_the_import.py"
    source.write_text("1 / 0")
    seen = []
    with on_import(["made_for_the_import"], seen.append):
        with pytest.raises(ZeroDivisionError):
            importlib.import_module("made_for_the_import")
        assert seen == []
        source.write_text("right = 'now it works'")
        importlib.invalidate_caches()
        importlib.import_module("made_for_the_import")
    assert seen == ["made_for_the_import"]


def test_the_module_has_its_own_loader(folder):
    (folder / "made_for_the_import.py").write_text("")
    with on_import(["made_for_the_import"], lambda _: None):
        module = importlib.import_module("made_for_the_import")
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert module.__spec__.loader is module.__loader__


def test_no_finder_is_left_behind_after_an_error():
    before = list(sys.meta_path)
    with pytest.raises(ZeroDivisionError), on_import(["made_for_the_import"], lambda _: None):
        assert sys.meta_path != before
        raise ZeroDivisionError
    assert sys.meta_path == before
