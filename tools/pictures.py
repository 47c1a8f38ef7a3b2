#!/usr/bin/env python3
"""Make the documentation's pictures that need no notebook: pages of recordings and of simulated runs, in Chromium.

Usage: tools/pictures.py [NAME...]    (by default, all); part of `make screenshots`
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from playwright.sync_api import sync_playwright

import accel_magic
from accel_magic.gpu.adapters import nvrtc

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS, IMAGES = ROOT / "notebooks/recordings", ROOT / "docs/images"
WIDTH = 1000
PAGE = "<!doctype html><meta charset=utf-8><body style='font-family:sans-serif'><main style='padding:4px'>{}</main>"
SCATTER = """
extern "C" __global__ void scatter(float *out, const float *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i * 32 % 4096] = in[i];
}
"""


def recorded(name: str) -> accel_magic.Result:
    """The result of a notebook's recording."""
    return accel_magic.open(RECORDINGS / f"{name}.parquet")


def traced() -> accel_magic.Result:
    """A kernel that scatters its stores, on the simulated device."""
    scatter = nvrtc.CpuKernel(nvrtc.compile(SCATTER), "scatter")
    with accel_magic.gputrace("memtrace", device="cpu") as trace:
        scatter[16, 256](np.zeros(4096, np.float32), np.ones(4096, np.float32))
    return trace.result


def tried() -> accel_magic.Result:
    """Three policies on a loop that does not fit into memory."""
    return accel_magic.gpupolicy(["mru", "lfu", "2q"], "loop:blocks=80,accesses=4000", memory=64)


PICTURES: dict[str, tuple[Callable[[], accel_magic.Result], bool]] = {
    "npu-result": (lambda: recorded("npu_tutorial_7.2-api"), False),
    "npu-findings": (lambda: recorded("npu_faults_7.2-hang"), True),
    "drivers-findings": (lambda: recorded("drivers_7.2-clients"), True),
    "policies-result": (tried, False),
    "gputrace-findings": (traced, True),
}
"""For each picture: the result, and whether it shows what `diagnose()` found instead of the result itself."""


def main() -> int:
    """Make the pictures."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name in sys.argv[1:] or PICTURES:
            make, findings = PICTURES[name]
            result, page = make(), Path(folder, f"{name}.html")
            html = result.diagnose()._repr_html_() if findings else result._repr_mimebundle_()["text/html"]
            page.write_text(PAGE.format(html), "utf-8")
            shown = browser.new_page(viewport={"width": WIDTH, "height": 900})
            shown.goto(page.as_uri())
            shown.wait_for_timeout(2000)  # until figures are drawn
            shown.locator("main").screenshot(path=IMAGES / f"{name}.png")
            print(IMAGES / f"{name}.png")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
