"""A small language model under the preset of OpenVINO: what it costs per token."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import peers, turns
from benchmarks.arithmetic import Measured

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTEBOOKS: Final = Path(__file__).parents[1] / "notebooks"
TOKENS: Final = 128
BAR: Final = 1 / 0.98
"""At least 0.98 times the tokens per second."""
SAVE = """
import sys
sys.path.insert(0, sys.argv[1])
import language_model
language_model.save(sys.argv[2], hidden=512, layers=6)
"""
MODEL = """
import json, sys
import accel_magic
if sys.argv[1] == "present":
    accel_magic.collect_tasks()
import openvino_genai as genai
pipeline = genai.LLMPipeline({folder!r}, "CPU")

def generated():
    found = pipeline.generate(["what is it that was for all of them"], max_new_tokens={tokens}, ignore_eos=True)
    return found.perf_metrics

for line in sys.stdin:
    rows = lost = None
    if line.strip() == "traced":
        with accel_magic.trace("openvino") as t:
            metrics = generated()
        table = t.result.openvino.generations
        rows, lost = table["generated_tokens"].tolist(), int(t.result.lost)
    else:
        metrics = generated()
    print(json.dumps({{"each": metrics.get_tpot().mean, "made": metrics.get_num_generated_tokens(),
                      "seen": rows, "lost": lost}}), flush=True)
"""


def decoding(*, quick: bool) -> Iterator[Measured]:
    """Time per token with and without the preset, as GenAI measures it; skipped without GenAI."""
    if find_spec("openvino_genai") is None:
        print("skipping llm: openvino-genai is not installed", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", SAVE, str(NOTEBOOKS), folder], check=True)
        code = MODEL.format(folder=folder, tokens=TOKENS)
        traced, alone = turns.taken(code, 2 if quick else 40, _time)
    what = "a token of a small language model with OpenVINO GenAI, under %%ktrace openvino"
    peer = "the same in a process that is not traced"
    note = f"{sum(map(bool, traced))} answers of {TOKENS} tokens each"
    yield Measured("llm-token", what, "ms", tuple(traced), peer, tuple(alone), "ratio", BAR, note)


def _time(answer: dict[str, Any], how: str) -> float:
    """Mean time from token to token, ms. Raises PeerError if they were not made, or a traced process missed some."""
    peers.require(answer["made"] == TOKENS, f"{answer['made']} of {TOKENS} tokens were made")
    if how == "traced":
        peers.require(answer["seen"] == [TOKENS], f"the trace has {answer['seen']} of {TOKENS} tokens")
        peers.require(not answer["lost"], f"{answer['lost']} events were lost")
    return float(answer["each"])
