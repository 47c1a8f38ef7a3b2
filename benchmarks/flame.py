"""A flame graph of 50,000 frames in a browser with software rendering: time of a redraw, size of the page.

Measured with one sample per frame, and with up to a million samples at different times.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.recording.profile import ProfileBuilder, ProfileSamples, ThreadState
from accel_magic.views.figures.bokehjs import bokehjs, figure_html
from accel_magic.views.flame import flame_graph
from benchmarks.arithmetic import Measured
from benchmarks.peers import require

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.recording.profile import Profile

FRAMES = 50_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu")
# Every step is the action of a click. Bokeh processes new data in promises and paints with the browser's next frame:
# the script awaits the promises and paints immediately, so that no waiting is measured.
STEPS = """async (rounds) => {
  const view = Bokeh.index.query_one((view) => view.model.__accel_magic_flame !== undefined)
  const flame = view.model.__accel_magic_flame
  const promises = () => new Promise((done) => {
    const {port1, port2} = new MessageChannel()
    port1.onmessage = done
    port2.postMessage(0)
  })
  const painted = async (step) => {
    const start = performance.now()
    step()
    await promises()
    view.invalidate_painters()
    view.paint()
    view.canvas_view.primary.ctx.getImageData(0, 0, 1, 1)  // forces drawing now, not with the next frame
    const taken = performance.now() - start
    await new Promise((done) => setTimeout(done, 100))
    return taken
  }
  const widest = () => {
    const {node, left, right, row} = flame.state.drawn
    const fourth = node.map((_, k) => k).filter((k) => row[k] === 4)
    return fourth.reduce((best, k) => right[k] - left[k] > right[best] - left[best] ? k : best)
  }
  const {selection, data} = view.model.js_event_callbacks.tap[0].args, {columns, rows, step} = data.grid
  const [first, last] = [0.3, 0.5].map((part) => Math.round(part * columns) * rows * step)
  const taken = {all: [], zoomed: [], search: [], select: []}
  for (let round = 0; round < rounds; round++) {
    const inner = flame.state.drawn.node[widest()]
    taken.zoomed.push(await painted(() => flame.zoom(inner)))
    taken.all.push(await painted(() => flame.reset()))
    taken.search.push(await painted(() => flame.search(round % 2 ? "/_1.*[37]$/" : "step")))
    flame.reset()
    const cells = Array.from({length: last - first}, (_, i) => first + i + round)
    taken.select.push(await painted(() => { selection.data = {cells} }))
    selection.data = {cells: []}
    await promises()
  }
  return [flame.state.drawn.node.length, taken]
}"""


def large_profile(nodes: int = FRAMES, seed: int = 1) -> Profile:
    """A profile with a tree of `nodes` frames, in which some calls are far heavier than others; 90 s of samples."""
    rng = random.Random(seed)
    builder = ProfileBuilder()
    files = [f"/usr/lib/python3.13/site-packages/package_{number % 12}/module_{number}.py" for number in range(60)]
    frames = [
        builder.frame(f"Class{number % 90}.step_{number}", FrameKind.PYTHON, files[number % 60], 10 + number % 700)
        if number % 3
        else builder.frame(
            f"ns{number % 50}::kernel_function_{number}", FrameKind.NATIVE, f"/usr/lib/lib_{number % 9}.so.1"
        )
        for number in range(6000)
    ]
    tree = [builder.node(frames[0])]
    known = set()
    while len(tree) < nodes:
        parent = tree[int(len(tree) * rng.random() ** 0.7)]
        pair = (parent, rng.choice(frames))
        if pair not in known:
            known.add(pair)
            tree.append(builder.node(pair[1], parent))
    for number, node in enumerate(tree):
        weight = 10_101_010 if number % 2 else int(10_000 * rng.paretovariate(1.1))
        state = ThreadState.CPU if number % 2 else ThreadState.OFF_CPU
        builder.add(node, weight, time_ns=rng.randrange(90_000_000_000), tid=1, state=state)
    return builder.build(unit="ns", origin="generated for a benchmark", duration_ns=90_000_000_000)


def spread(profile: Profile, samples: int, seconds: int, seed: int = 1) -> Profile:
    """Samples at random times in random stacks, with very uneven frequencies; half of them are waits."""
    rng = np.random.default_rng(seed)
    often = 1 / np.arange(1, len(profile.parents) + 1)
    state = rng.integers(0, 2, samples).astype(np.uint8)
    made = ProfileSamples(
        stack=rng.permutation(len(often))[rng.choice(len(often), samples, p=often / often.sum())].astype(np.int32),
        weight=np.where(
            state == ThreadState.CPU, 10_101_010, (10_000 * (1 + rng.pareto(1.1, samples))).astype(np.int64)
        ),
        time_ns=np.sort(rng.integers(0, seconds * 1_000_000_000, samples)),
        tid=np.ones(samples, np.int32),
        state=state,
    )
    return replace(profile, samples=made, duration_ns=seconds * 1_000_000_000)


def drawing(*, quick: bool) -> Iterator[Measured]:
    """Redraws of graphs with 50,000 frames, from the click to the painted canvas, and sizes of their pages.

    Redraws are skipped if no browser is installed.
    """
    profile = large_profile()
    html = figure_html(flame_graph(profile))
    require(len(html) > FRAMES, f"a page of {len(html)} bytes does not have {FRAMES} frames")
    what = f"page of a flame graph of {FRAMES:,} frames with its heatmap, beyond BokehJS"
    yield Measured("flame-page", what, "KB", (len(html) / 1e3,), bar=1000)
    pages = {"flame": (f"{FRAMES:,} frames", html)}
    for number, samples in {"16k": 16_000, "100k": 100_000, "1m": 1_000_000}.items():
        sizes = []
        for name, seconds in {"2 s": 2, "90 s": 90, "1 h": 3600}.items():
            html = figure_html(flame_graph(spread(profile, samples, seconds)))
            sizes.append(len(html) / 1e3)
            if samples == 1_000_000:
                pages[f"flame-{name.replace(' ', '')}"] = (f"{FRAMES:,} frames, {samples:,} samples in {name}", html)
        size = f"the same, {samples:,} samples in 2 s, 90 s, 1 h"
        yield Measured(f"flame-page-{number}", size, "KB", tuple(sizes), bar=1500)
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        return
    with browser_at(path) as browser:
        for name, (size, html) in pages.items():
            yield from redraws(browser, name, size, html, 3 if quick else 15)


def redraws(browser: Any, name: str, size: str, html: str, rounds: int) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flame.html"
        path.write_text(f"<!doctype html><meta charset=utf-8><body>{bokehjs()}{html}</body>", encoding="utf-8")
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        page.get_by_text("Top frames as a table").wait_for()
        drawn, taken = page.evaluate(STEPS, rounds)
        page.close()
    require(drawn > 0 and all(len(times) == rounds for times in taken.values()), f"{drawn} frames drawn: {taken}")
    what = {"all": "reset", "zoomed": "zoom to a frame", "search": "search", "select": "select a time"}
    for step, times in taken.items():
        text = f"flame graph, {what[step]}: {size}, {drawn:,} drawn"
        yield Measured(f"{name}-{step}", text, "ms", tuple(times), bar=100)


@contextmanager
def browser_at(path: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
