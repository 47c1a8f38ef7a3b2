"""The flame graph's model: the data of the page, and rejected options. tests/browser tests its behavior."""

import json
import random
import re
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from bokeh.embed import json_item
from bokeh.models import CustomJS, HoverTool, Plot
from bokeh.models.dom import HTML

from accel_magic.errors import ProbeError, ResultError
from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.recording.profile import Profile, ProfileBuilder, ProfileSamples
from accel_magic.views.flame import flame_graph
from accel_magic.views.flame.bokeh_flame_graph import BOX, ROW, ROWS
from tests.support.errors import raises
from tests.support.profiles import frames, phases

pytestmark = pytest.mark.component

THREE = ((0, 1, "main;load"), (1, 2, "main;compute;gemm[n]"))


def script(model):
    return next(js for js in model.select({"type": CustomJS}) if "data" in js.args)


def counted(stacks):
    """A profile without times."""
    builder = ProfileBuilder()
    for text, weight in stacks.items():
        builder.add(builder.stack(frames(builder, text)), weight)
    return builder.build()


def test_the_script_uses_all_its_arguments():
    found = script(flame_graph(phases(THREE)))

    for name in (*found.args, *found.args["options"]):
        assert re.search(rf"\b{name}\b", found.code), name
    assert set(re.findall(r"options\.(\w+)", found.code)) == set(found.args["options"])


def test_it_listens_to_the_selection_of_the_heatmap():
    model = flame_graph(phases(THREE))
    found = script(model)

    assert found.args["selection"].js_property_callbacks["change:data"][-1] is found
    assert len([plot for plot in model.select({"type": Plot}) if "When" in (plot.title.text or "")]) == 1
    assert found.args["data"]["timed"]["node"].size > 0
    assert found.args["data"]["entries"] is None


def test_without_times_there_is_no_heatmap():
    model = flame_graph(counted({"main;load": 3}))

    assert len(list(model.select({"type": Plot}))) == 1
    assert script(model).args["data"]["timed"] is None
    assert script(model).args["data"]["entries"]["node"].size > 0


@pytest.mark.parametrize(("invert", "edges"), [(True, (4, 0)), (False, (0, 4))])
def test_the_root_is_at_the_top_or_at_the_bottom(invert, edges):
    y_range = script(flame_graph(phases(THREE), invert=invert)).args["plot"].y_range

    assert (y_range.start, y_range.end) == edges


def test_the_plots_height_fits_the_visible_frames_and_it_scrolls_if_high():
    stacks = {"main;a;b;c": 10**6, ";".join(["main", *"abcdefghijkl"]): 1}
    assert script(flame_graph(counted(stacks))).args["plot"].height == 5 * ROW

    deep = script(flame_graph(counted({";".join("ab" * 200): 1})))
    assert deep.args["plot"].height == ROWS[1] * ROW
    assert deep.args["box"].styles["max-height"] == f"{BOX}px"


def test_only_present_states_have_a_switch():
    waits = [(0.5, 0.75, "main;load;lock[w]")]

    assert script(flame_graph(phases(THREE))).args["options"]["states"] == ["on CPU", "", ""]
    assert script(flame_graph(phases(THREE, waits=waits))).args["options"]["states"] == ["on CPU", "waiting", ""]


def test_a_comparison_starts_with_changes_by_function():
    options = script(flame_graph(phases(THREE), baseline=phases(THREE))).args["options"]
    assert (options["color"], options["by_line"]) == ("change", False)

    options = script(flame_graph(phases(THREE), baseline=phases(THREE), color="module")).args["options"]
    assert options["color"] == "module"
    [hover] = [
        tool
        for tool in flame_graph(counted({"a": 1}), baseline=counted({"a": 2})).select({"type": HoverTool})
        if "@node{before}" in tool.tooltips
    ]
    assert "@node" in hover.formatters


def test_banners_and_titles_are_above_and_escaped():
    model = flame_graph(replace(phases(THREE), banners=("NPU LAB <b>",)), title="<script>")
    html = model.children[0].elements[0].html

    assert html == '<div class="banner">NPU LAB &lt;b&gt;</div><div class="title">&lt;script&gt;</div>'


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"color": "rainbow"}, "figure.no-colors"),
        ({"color": "change"}, "figure.no-baseline"),
        ({"baseline": phases(THREE, unit="samples")}, "result.different-units"),
    ],
)
def test_invalid_options_are_rejected_with_the_reason(options, what):
    with pytest.raises((ProbeError, ResultError)) as error:
        flame_graph(phases(THREE), **options)
    assert error.value.code == what


def test_a_profile_without_weight_is_rejected():
    with raises("result.empty-figure", ResultError):
        flame_graph(ProfileBuilder().build())


def large(samples, seconds, longest_ns):
    """A profile of 50,000 frames with samples at random places, half of them waits of up to `longest_ns`."""
    rng = np.random.default_rng(1)
    nodes, names = 50_000, 6000
    builder = ProfileBuilder()
    folder = "/usr/lib/python3.13/site-packages/package"
    for number in range(names):
        builder.frame(
            f"Class{number % 90}.method_{number}", FrameKind.PYTHON, f"{folder}/module_{number % 60}.py", number % 700
        )
    parents = (np.arange(nodes) * rng.random(nodes)).astype(np.int32)
    parents[0] = -1
    numbers = np.arange(samples)
    made = ProfileSamples(
        stack=(numbers % nodes).astype(np.int32),
        weight=np.where(numbers % 2, 10_101_010, rng.integers(1_000, longest_ns, samples)),
        time_ns=np.sort(rng.integers(0, seconds * 10**9, samples)),
        tid=np.ones(samples, np.int32),
        state=(1 - numbers % 2).astype(np.uint8),
    )
    return Profile(builder.build().frames, parents, rng.integers(0, names, nodes).astype(np.int32), made, "ns")


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@pytest.mark.parametrize(
    ("samples", "seconds", "longest_ns", "most"),
    [(50_000, 90, 10**8, 1_000_000), (400_000, 3600, 300 * 10**9, 1_500_000)],
)
def test_a_page_of_fifty_thousand_frames_is_bounded_for_any_number_of_samples(samples, seconds, longest_ns, most):
    html = json.dumps(json_item(flame_graph(large(samples, seconds, longest_ns))))

    assert len(html) < most


def test_if_texts_exceed_a_page_the_lightest_frames_count_as_their_callers(monkeypatch):
    module = import_module("accel_magic.views.flame.bokeh_flame_graph")  # the name is the function's too
    monkeypatch.setattr(module, "PAGE", module.LEAST_TIMED + 4000)
    letters = random.Random(1)
    names = ["".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=200)) for _ in range(60)]
    args = script(flame_graph(counted({f"main;{name}": 100 - number for number, name in enumerate(names)}))).args
    kept = len(args["data"]["depth"]) - 2
    packed = args["data"]["entries"]["weight"]

    assert 15 <= kept <= 30  # of 200 letters of 4.7 bits each
    assert args["options"]["folded"] == 60 - kept
    assert json.loads(bytes(args["data"]["texts"]))["names"] == ["all", "main", *names[:kept]]
    weights = packed["values"] if packed["codes"] is None else packed["values"][packed["codes"]]
    assert weights.tolist() == [sum(100 - number for number in range(kept, 60)), *range(100, 100 - kept, -1)]


def test_it_displays_itself_without_bokehs_own_mechanism():
    assert set(flame_graph(phases(THREE))._repr_mimebundle_()) == {"text/plain"}  # no notebook here


def test_saved_pictures_have_banners_even_if_the_page_already_has_them():
    replayed, before = (replace(phases(THREE), banners=(text,)) for text in ("REPLAY", "SIMULATED"))
    model = flame_graph(replayed, baseline=before, with_banners=False)

    assert script(model).args["options"]["banners"] == ["REPLAY", "SIMULATED"]
    assert not [html for html in model.select({"type": HTML}) if "banner" in html.html]
    assert "SIMULATED" in flame_graph(replayed, baseline=before).children[0].elements[0].html
