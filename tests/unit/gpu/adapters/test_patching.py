from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from accel_magic.gpu.adapters.patching import absent, replaced, substituted


class Base:
    def method(self):
        return "base"


class Derived(Base):
    pass


def test_a_replaced_attribute_is_restored():
    thing = SimpleNamespace(name=1)
    with replaced(thing, "name", 2):
        assert thing.name == 2
    assert thing.name == 1


def test_an_inherited_method_is_inherited_again_afterwards():
    with replaced(Derived, "method", lambda self: "changed"):
        assert Derived().method() == "changed"
        assert Base().method() == "base"
    assert Derived().method() == "base"
    assert "method" not in vars(Derived)


def test_a_replaced_attribute_is_restored_after_an_error():
    thing = SimpleNamespace(name=1)
    with pytest.raises(ZeroDivisionError), replaced(thing, "name", 2):
        raise ZeroDivisionError
    assert thing.name == 1


def test_a_static_method_is_static_again_afterwards():
    class Holder:
        @staticmethod
        def method():
            return "static"

    with replaced(Holder, "method", None):
        pass
    assert Holder().method() == "static"


@pytest.fixture
def modules(monkeypatch):
    made = {name: ModuleType(name) for name in ("user_of_it", "framework.inner")}
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made


def test_a_class_is_substituted_under_every_name_that_users_have_for_it(modules):
    class Old:
        pass

    class New:
        pass

    user, inner = modules["user_of_it"], modules["framework.inner"]
    user.Old = user.Alias = inner.Old = Old
    with substituted([(Old, New)], ("framework.",)):
        assert user.Old is New
        assert user.Alias is New
        assert inner.Old is Old
        user.Later = New
    assert user.Old is Old
    assert user.Alias is Old
    assert user.Later is Old


def test_substituting_does_not_import_a_lazy_module(tmp_path, monkeypatch):
    import importlib.util

    (tmp_path / "a_lazy_module.py").write_text("1 / 0")
    spec = importlib.util.spec_from_file_location("a_lazy_module", tmp_path / "a_lazy_module.py")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "a_lazy_module", module)
    spec.loader.exec_module(module)
    with substituted([(Base, Derived)], ("framework.",)):
        pass
    with pytest.raises(ZeroDivisionError):
        module.anything  # noqa: B018 - this imports it


def test_missing_names_are_listed():
    thing = SimpleNamespace(a=SimpleNamespace(b=1))
    assert absent(thing, ("a", "a.b")) == ""
    assert absent(thing, ("a.b.c", "a.b", "x")) == "a.b.c, x"
