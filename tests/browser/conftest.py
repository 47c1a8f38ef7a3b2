"""JupyterLab on a free loopback port, with its own empty home, and Debian's Chromium driven by playwright."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest

from tests.support import users
from tests.support.paths import ROOT

SCREENSHOTS = ROOT / "build/screenshots"
LAST_SEEN = ROOT / "build/browser"
"""Screenshots of the page at the end of each test, for debugging failures."""
TOKEN = "only-for-this-test"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("browser")


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab and the folder it serves."""

    url: str
    folder: Path
    settings: Path
    pid: int

    def set_theme(self, name):
        """Choose the theme of pages that are opened from now on."""
        (self.settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": name}))

    def write(self, name, *cells):
        """Put a notebook with these code cells into the folder."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, self.folder / name)
        return name


# Per module: the server's kernels are children of this process, which other tests trace with scope `self`.
@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab without extensions that check for news, updates or collaborators."""
    with running_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture
def dark_lab(lab):
    """The same with the dark theme."""
    lab.set_theme("JupyterLab Dark")
    yield lab
    lab.set_theme("JupyterLab Light")


@contextmanager
def running_lab(home, uid=None, **variables):
    """Run JupyterLab in a folder; as another user, without any right, if `uid` is one."""
    folder = home / "notebooks"
    folder.mkdir()
    settings = home / "settings/@jupyterlab/apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    port = free_port()
    environment = {
        **os.environ,
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        **variables,
    }
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"),
        *("--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={TOKEN}"),
        *("--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
        "--LabApp.extension_manager=readonly",
    ]
    if uid is not None:
        for path in [home, *home.rglob("*")]:
            os.chown(path, uid, uid)
        command = users.command(uid, *command)
    with (home / "lab.log").open("w") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/api?token={TOKEN}", server, home / "lab.log")
        yield Lab(f"http://127.0.0.1:{port}", folder, settings, server.pid)
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(url, server, log):
    for _ in range(300):
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()}")


@pytest.fixture(scope="session")
def chromium():
    """Path of the distribution's browser; playwright's own would have to be downloaded."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    return path


@pytest.fixture(scope="module")
def browser(chromium):
    """A browser for saved pages."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def context(chromium, tmp_path_factory):
    """A browser with its own profile for the pages of JupyterLab, whose code it loads and compiles only once."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=chromium,
            args=FLAGS,
            viewport={"width": 1280, "height": 900},
        )
        yield context
        context.close()


@pytest.fixture
def browse(context, request):
    """Open notebooks in the browser; pages may not access any other host."""
    foreign, pages = [], []

    def opened(lab, name, **options):
        pages.append(context.new_page())
        pages[-1].on("request", lambda request: foreign.append(request.url) if is_foreign(request.url) else None)
        return Notebook.opened(pages[-1], lab, name, **options)

    try:
        yield opened
    finally:
        LAST_SEEN.mkdir(parents=True, exist_ok=True)
        for page in pages:
            page.screenshot(path=LAST_SEEN / f"{request.node.name}.png")
            page.close()
    assert foreign == []


def is_foreign(url):
    return urlsplit(url).scheme in ("http", "https", "ws", "wss") and urlsplit(url).hostname != "127.0.0.1"


@dataclass
class Notebook:
    """One notebook open in JupyterLab, used through its user interface: cells, keys, buttons."""

    page: object
    url: str
    errors: list = field(default_factory=list)

    @classmethod
    def opened(cls, page, lab, name, view="lab"):
        """Open it and wait until its kernel is idle; the view `doc` has no sidebars."""
        notebook = cls(page, f"{lab.url}/{view}/tree/{name}?token={TOKEN}&reset")
        page.on("pageerror", lambda error: notebook.errors.append(str(error)))
        page.goto(notebook.url)
        notebook.wait_until_ready()
        return notebook

    def wait_until_ready(self):
        self.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
        self.page.locator("#jp-main-statusbar", has_text="| Idle").wait_for(timeout=60_000)

    def cell(self, number):
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(number)

    def output(self, number):
        return self.cell(number).locator(".jp-Cell-outputWrapper")

    def start(self, number):
        """Click into a cell and press Ctrl+Enter."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")

    def run(self, number, timeout_s=120):
        """Run a cell to its end."""
        self.start(number)
        self.ended(number, timeout_s)

    def ended(self, number, timeout_s=120):
        prompt = self.cell(number).locator(".jp-InputPrompt")
        self.page.wait_for_function(
            r"prompt => /\[\d+\]/.test(prompt.textContent)", arg=prompt.element_handle(), timeout=timeout_s * 1000
        )

    def is_busy(self, number):
        return "*" in self.cell(number).locator(".jp-InputPrompt").text_content()

    def save(self):
        """Press Ctrl+S until nothing is unsaved: JupyterLab ignores it while it saves, and outputs may still arrive."""
        unsaved = self.page.locator(".jp-DirtyIndicator, .jp-mod-dirty")
        dialog = self.page.locator(".jp-Dialog")
        deadline = time.monotonic() + 120
        while True:
            self.page.keyboard.press("Control+s")
            self.page.wait_for_timeout(500)
            if not unsaved.count():
                return
            assert not dialog.count(), dialog.all_inner_texts()
            assert time.monotonic() < deadline, "the notebook stays unsaved"

    def screenshot(self, name, locator=None):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        (locator or self.page).screenshot(path=SCREENSHOTS / f"{name}.png")
