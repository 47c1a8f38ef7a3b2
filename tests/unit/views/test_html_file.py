"""A result as one HTML file: what the notebook shows, self-contained, with its origin."""

import re
from dataclasses import replace

import pytest

from accel_magic.errors import RecordingError
from accel_magic.result_bases.profile import ProfileResult
from accel_magic.views.figures import bokehjs
from tests.support.errors import raises
from tests.support.profiles import phases

pytestmark = pytest.mark.component

MACHINE = {"kernel": "7.0", "cpu": "Some <CPU>", "cpus": "4", "host": "secret-name", "device": "none"}


def profile(**fields):
    made = phases([(0, 1, "main;load"), (1, 2, "main;compute")])
    return replace(made, origin="%%flame at 99 Hz", started="2026-01-02T03:04:05+00:00", machine=MACHINE, **fields)


def test_a_page_is_self_contained(tmp_path):
    path = ProfileResult(profile(banners=("SIMULATED <device>",))).to_html(tmp_path / "f.html")
    source = path.read_text(encoding="utf-8")
    seen = re.sub(r"<script>.*?</script>", "", source, flags=re.DOTALL)

    assert source.count('accel-magic-bokehjs"));</script>') == 1
    assert len(re.findall(r'<div class="accel-magic-figure"', source)) == 1
    assert not re.search(r"(src|href)=", seen)
    assert "<h1>%%flame at 99 Hz</h1>recorded 2026-01-02T03:04:05+00:00, Some &lt;CPU&gt;, 4 CPUs, Linux 7.0," in seen
    assert '<div class="am-banner">SIMULATED &lt;device&gt;</div>' in seen
    assert "secret-name" not in source


def test_a_comparison_can_be_a_page(tmp_path):
    path = ProfileResult(profile()).compare(ProfileResult(profile())).to_html(tmp_path / "f.html")

    assert "2 s compared with a baseline of 2 s" in path.read_text(encoding="utf-8")


def test_making_a_page_does_not_affect_the_notebooks_outputs(tmp_path, monkeypatch):
    monkeypatch.setattr(bokehjs, "_carrier", None)
    result = ProfileResult(profile())
    result.to_html(tmp_path / "f.html")

    assert bokehjs.scripts()  # the next output of the notebook carries BokehJS: the file has its own
    assert "data-accel-magic-figure=" not in result._repr_mimebundle_()["text/html"]  # no notebook here
    with raises("save.no-folder", RecordingError):
        result.to_html(tmp_path / "nowhere" / "f.html")
    assert [path.name for path in tmp_path.iterdir()] == ["f.html"]
