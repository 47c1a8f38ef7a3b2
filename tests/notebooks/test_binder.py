"""What Binder and hubs run: the steps after an image is built, the start of a session, and the container's recipe."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import venv

import nbformat
import pytest
from nbclient import NotebookClient

from accel_magic import command_line
from tests.support.paths import ROOT

BINDER = ROOT / "binder"
OPENED = "--ServerApp.default_url=/lab/tree/notebooks/quickstart.ipynb"
LABS = ("accel-magic-npu-lab", "accel-magic-accelerator-lab")
# In place of Python: installs nothing, and does everything else.
PYTHON = f"""#!/bin/bash
if [[ "$1 $2" == "-m pip" ]]; then printf '%s\\n' "${{@: -1}}" >"$INSTALLED"; exit; fi
exec {sys.executable} "$@"
"""


@pytest.fixture
def tools(tmp_path):
    """A folder for PATH; programs in it are scripts: `tools(name, text)`."""
    folder = tmp_path / "tools"
    folder.mkdir()

    def add(name, text):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    add.path = f"{folder}:{os.environ['PATH']}"
    return add


def test_the_steps_after_the_build_open_every_recording_and_replace_the_labs_kernels(tools, tmp_path):
    tools("python", PYTHON)
    prefix, installed = tmp_path / "prefix", tmp_path / "installed"
    environment = {**os.environ, "PATH": tools.path, "NB_PYTHON_PREFIX": str(prefix), "INSTALLED": str(installed)}

    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("binder", "notebooks"):
        (checkout / name).symlink_to(ROOT / name)

    done = subprocess.run(
        [BINDER / "postBuild"], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert installed.read_text() == ".[all]\n"
    opened = re.findall(r"^notebooks/recordings/(.*): [1-9]\d* characters$", done.stdout, re.MULTILINE)
    assert opened == sorted(path.name for path in (ROOT / "notebooks/recordings").iterdir())
    assert "notebooks/workshop/recordings/jobs_0-t.parquet: " in done.stdout
    assert len(list((checkout / "workshop").glob("*.ipynb"))) == 10
    for name in LABS:
        spec = json.loads((prefix / "share/jupyter/kernels" / name / "kernel.json").read_text())
        assert "ipykernel_launcher" in spec["argv"]
        assert "kernel_provisioner" not in spec["metadata"]
    settings = json.loads((prefix / "share/jupyter/lab/settings/overrides.json").read_text())
    assert settings["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_the_labs_kernels_that_are_replaced_are_those_of_notebooks():
    chosen = {nbformat.read(path, 4).metadata.kernelspec.name for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    assert chosen - {"python3"} == set(LABS)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["jupyter", "lab", "--ip=0.0.0.0"], ["lab", "--ip=0.0.0.0", OPENED]),
        (["jupyter-lab"], [OPENED]),
        (["show", "-c", "a b"], ["-c", "a b"]),
    ],
)  # fmt: skip
def test_a_session_begins_with_the_quickstart_and_other_commands_run_as_they_are(tools, command, expected):
    tools(command[0], f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")

    done = subprocess.run(
        [BINDER / "start", *command], env={**os.environ, "PATH": tools.path}, capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout) == expected


def test_the_recipe_of_the_container_installs_what_there_is():
    """Not built here: what its commands name is looked up."""
    text = (BINDER / "Containerfile").read_text().replace("\\\n", " ")
    runs = [line.removeprefix("RUN ") for line in text.splitlines() if line.startswith("RUN ")]
    packages = next(
        re.search(r"--no-install-recommends (.*?) *&&", run)[1].split() for run in runs if "apt-get install" in run
    )
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    tested = set((ROOT / "Makefile").read_text().split())
    assert {"python3-bpfcc", "gcc", "libc6-dev"} <= set(packages) & tested
    assert "clang" in packages
    for found in re.findall(r"accel_magic\[(\w+)\]", text):
        assert found in extras
    parser, _ = command_line.parsers()
    commands = re.findall(r"accel-magic (lab [^&|;]*)", "\n".join(runs))
    assert commands
    for command in commands:
        assert parser.parse_args(shlex.split(command)).all
    for copied in re.findall(r"^COPY (\S+) ", text, re.MULTILINE):
        assert (ROOT / copied).exists()


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_in_a_new_environment_every_notebook_plays_without_any_capability(tmp_path):
    """The whole way: what `environment.yml` lists, `postBuild`, and each notebook with the kernel that it names."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=True)
    listed = re.findall(r"^ {6}- (.*)$", (BINDER / "environment.yml").read_text(), re.MULTILINE)
    assert listed
    python = folder / "bin/python"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("ACCEL_MAGIC", "PYTHON"))},
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "NB_PYTHON_PREFIX": str(folder),
        "JUPYTER_PATH": str(folder / "share/jupyter"),
        "ACCEL_MAGIC_CACHE": str(tmp_path / "cache"),
    }
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *listed], check=True)
    subprocess.run([checkout / "binder/postBuild"], cwd=checkout, env=environment, check=True)

    spec = folder / "share/jupyter/kernels"
    for kernel in ("python3", *LABS):  # without any capability, as Binder's containers are
        path = spec / kernel / "kernel.json"
        content = json.loads(path.read_text())
        content["argv"] = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", str(python), *content["argv"][1:]]
        path.write_text(json.dumps(content))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        for path in sorted((checkout / "notebooks").glob("*.ipynb")):
            notebook = nbformat.read(path, 4)
            NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
            shown = nbformat.writes(notebook)
            assert "REPLAY: recorded on" in shown or path.stem in ("gputrace", "policies"), path.name
