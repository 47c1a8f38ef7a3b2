"""Reading a page of text under the preset of OpenVINO: what it costs, and how large its files are."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic.views.figures.bokehjs import bokehjs
from benchmarks import peers, turns
from benchmarks.arithmetic import Measured

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = """
import json, logging, sys, time
from pathlib import Path
import accel_magic
if sys.argv[1] == "present":
    accel_magic.collect_tasks()
import numpy as np
import openvino as ov
from PIL import Image, ImageDraw, ImageFont
from rapidocr import EngineType, RapidOCR
logging.disable(logging.WARNING)
picture = Image.new("RGB", (700, 300), "white")
draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size=28)
for number in range(5):
    draw.text((30, 20 + 50 * number), f"Line {number}: a page of text {37 * number}", fill="black", font=font)
page, inferences = np.array(picture), [0]
original = ov.InferRequest.infer
def counted(*arguments, **options):
    inferences[0] += 1
    return original(*arguments, **options)
ov.InferRequest.infer = counted
engine = RapidOCR(params={f"{part}.engine_type": EngineType.OPENVINO for part in ("Det", "Cls", "Rec")})
"""
TURNS = """
for line in sys.stdin:
    traced = line.strip() == "traced"
    inferences[0] = 0
    if traced:
        with accel_magic.trace("openvino") as t:
            begin = time.perf_counter()
            texts = engine(page).txts
            taken = time.perf_counter() - begin
        result = t.result
    else:
        begin = time.perf_counter()
        texts = engine(page).txts
        taken = time.perf_counter() - begin
    print(json.dumps({"taken": taken, "read": any("page of text" in text for text in texts or ()),
                      "made": inferences[0], "seen": len(result.openvino.requests) if traced else None,
                      "lost": int(result.lost) if traced else None}), flush=True)
"""
FILES = """
seconds, folder = float(sys.argv[2]), Path(sys.argv[3])
texts, pages = engine(page).txts, 0
inferences[0] = 0
with accel_magic.trace("openvino") as t:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        engine(page)
        pages += 1
result = t.result
print(json.dumps({"read": any("page of text" in text for text in texts or ()), "made": inferences[0], "pages": pages,
                  "seen": len(result.openvino.requests), "events": len(result.events), "lost": int(result.lost),
                  "perfetto": str(result.to_perfetto(folder / "t.json")),
                  "page": str(result.to_html(folder / "t.html")), "hits": int(result.hits)}), flush=True)
"""
_SECONDS = 20
_INFERENCE = "SyncInfer"


def reading(*, quick: bool) -> Iterator[Measured]:
    """Time of a page with and without the preset, and sizes of the files of 20 s; skipped without rapidocr."""
    missing = [name for name in ("rapidocr", "openvino", "PIL") if find_spec(name) is None]
    if missing:
        print(f"skipping ocr: {', '.join(missing)} is not installed", file=sys.stderr)
        return
    yield _cost(rounds=2 if quick else 40)
    yield from _sizes(2 if quick else _SECONDS)


def _cost(rounds: int) -> Measured:
    traced, alone = turns.taken(PAGE + TURNS, rounds, _read)
    what = "a page read by rapidocr with OpenVINO, under %%ktrace openvino"
    peer = "the same in a process that is not traced"
    return Measured("ocr-page", what, "ms", tuple(traced), peer, tuple(alone), "ratio", 1.03)


def _read(answer: dict[str, Any], how: str) -> float:
    """Time of one page, ms. Raises PeerError if it was not read, or not every inference was seen."""
    peers.require(answer["read"] and answer["made"], "no page was read")
    if how == "traced":
        _require_all(answer)
    return float(answer["taken"]) * 1e3


def _sizes(seconds: int) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory() as folder:
        with turns.python(PAGE + FILES, "present", str(seconds), folder) as process:
            lines = process.communicate()[0].splitlines()
        peers.require(process.returncode == 0, "the process that reads pages failed")
        answer = json.loads(lines[-1])
        peers.require(answer["read"], "no page was read")
        _require_all(answer)
        perfetto = Path(answer["perfetto"]).read_bytes()
        slices = [entry for entry in json.loads(perfetto)["traceEvents"] if entry["ph"] == "X"]
        peers.require(len(slices) == answer["events"], "the Perfetto file does not have every event")
        found = sum(entry["name"].startswith(_INFERENCE) for entry in slices)
        peers.require(found == answer["made"], "the Perfetto file does not have every inference")
        page = Path(answer["page"]).read_bytes()
        scripts = str(bokehjs()).encode()
        peers.require(scripts in page and b"openvino" in page, "the page does not show the trace")
    note = f"{answer['pages']} pages, {answer['events']:,} events, {answer['hits']:,} hits"
    about = f"{seconds} s of rapidocr under %%ktrace openvino"
    yield Measured("ocr-perfetto", f"Perfetto file of {about}", "MB", (len(perfetto) / 1e6,), bar=20, note=note)
    size = (len(page) - len(scripts)) / 1e6
    yield Measured("ocr-html", f"HTML page of {about}, besides BokehJS", "MB", (size,), bar=1, note=note)


def _require_all(answer: dict[str, Any]) -> None:
    seen, made = answer["seen"], answer["made"]
    peers.require(made and seen == made, f"{seen} of {made} inferences were traced")
    peers.require(not answer["lost"], f"{answer['lost']} events were lost")
