"""Every line that documentation, notebooks and help tell people to type is one that the parsers accept."""

import io
import json
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from accel_magic import command_line
from accel_magic.errors import AccelMagicError, ProbeError
from accel_magic.magics import flame_magic, gpupolicy_magic, gputrace_magic, ktrace_magic, magic_line
from tests.support.paths import ROOT

MAGIC = re.compile(r"%%?(ktrace|flame|gputrace|gpupolicy|accel_doctor)(?: (.*))?")
COMMAND = re.compile(r"(?:python -m accel_magic|accel-magic) (\w.*)")
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
RECORDING = str(ROOT / "notebooks/recordings/quickstart.parquet")
PLACEHOLDERS = {
    "PROBE": "tracepoint:syscalls:sys_enter_getppid",
    "PROBES": "tracepoint:syscalls:sys_enter_getppid",
    "FILE": RECORDING,
    "DIR": "folder",
    "PATH": "folder",
    "COMMAND": "true",
    "PROGRAM": "true",
    "TOOL": "memtrace",
    "POLICY": "lru",
    "PID": "1",
    "GLOB": "f*",
}
MENTIONED = {
    "--on": "client",
    "--replay": RECORDING,
    "--program": "bpf/examples/sizes.bpf.c on_call=uprobe:libc:malloc",
    "--host-api": "on",
    "--save": "x.parquet",
}
"""Options that a text may name without their value, and one."""
GRAMMAR = re.compile(r"\[|\w\|\w|(?:COMMAND|broker install)$")
"""How a page describes what can be typed, rather than something to type; `broker install` is the broker's own test."""


def pages():
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        yield path.name, path.read_text()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        yield path.name, "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    for name, parser in PARSERS.items():
        yield f"%{name} --help", parser().format_help()
    for name, parser in command_line.parsers()[1].choices.items():
        yield f"accel-magic {name} --help", parser.format_help()


def told(text):
    """Lines in blocks, and code within text, that begin like a magic or a command."""
    found = [line for _, block in FENCE.findall(text) for line in block.splitlines()]
    found += SPAN.findall(FENCE.sub("", text))
    for line in found:
        plain = re.sub(r"^(?:[$!] ?)?(?:sudo |[A-Z_]+=\S+ )*", "", line.strip())
        plain = re.sub(r"\s{2,}#.*", "", plain)
        if MAGIC.fullmatch(plain) or COMMAND.fullmatch(plain):
            yield plain


def typed(line):
    """The line as somebody would type it: with values for placeholders."""
    line = re.sub(r"\b([A-Z]+)(?: ?(?:\.\.\.|…))?(?=\s|$|/)", lambda word: PLACEHOLDERS.get(word[1], word[0]), line)
    line = re.sub(r"/proc/PID/", "/proc/1/", line).replace(":GLOB", ":f*")
    last = line.rsplit(" ", 1)[-1]
    return f"{line} {MENTIONED[last]}" if last in MENTIONED else line


PARSERS = {
    "ktrace": ktrace_magic.parser,
    "flame": flame_magic.parser,
    "gputrace": gputrace_magic.parser,
    "gpupolicy": gpupolicy_magic.parser,
}
PARSE = {
    "ktrace": ktrace_magic.parse,
    "flame": flame_magic.parse,
    "gputrace": gputrace_magic.parse,
    "gpupolicy": lambda line: gpupolicy_magic.parser().parse_args(magic_line.words_of("gpupolicy", line)),
}
WITHOUT = {"probe.none-given": PLACEHOLDERS["PROBE"], "gpu.no-program-given": PLACEHOLDERS["TOOL"]}
"""What a line lacks by the code of the error, and one of it."""
LINES = sorted({(line, page) for page, text in pages() for line in told(text) if not GRAMMAR.search(line)})
MAGICS = [(line, page) for line, page in LINES if MAGIC.fullmatch(line)]
COMMANDS = [(line, page) for line, page in LINES if COMMAND.fullmatch(line)]


def test_there_are_lines_to_type_in_many_places():
    assert len(LINES) > 100
    assert len({page for _, page in LINES}) > 20


@pytest.mark.parametrize(("line", "page"), [each for each in MAGICS if "accel_doctor" not in each[0]])
def test_the_parser_of_the_magic_accepts_it(line, page):
    name, rest = MAGIC.fullmatch(typed(line)).groups()
    if not rest or "..." in rest or "…" in rest:
        return  # the name of the magic, or of something that it can do
    try:
        PARSE[name](rest)
    except magic_line.HelpRequested:
        assert "--help" in rest
    except ProbeError as error:
        if error.code not in WITHOUT:
            raise
        PARSE[name](f"{rest} {WITHOUT[error.code]}")  # the text is about its options


@pytest.mark.parametrize(("line", "page"), COMMANDS)
def test_the_parser_of_the_command_accepts_it(line, page):
    words = shlex.split(COMMAND.fullmatch(typed(line))[1])
    words = words[: words.index("--")] if "--" in words else words
    parser, commands = command_line.parsers()
    if words[0] in commands.choices and len(words) == 1 and words[0] in ("trace", "run", "lab", "broker", "show"):
        return  # the name of the command
    if words in (["trace", "openvino"], ["run", "--save", "folder"], ["trace", "--save", "folder"]):
        return  # a part of a command
    if "--help" in words:
        with pytest.raises(SystemExit) as ended, redirect_stdout(io.StringIO()):
            parser.parse_args(words)
        assert ended.value.code == 0
        return
    with redirect_stderr(io.StringIO()) as messages:
        try:
            parser.parse_args(words)
        except (SystemExit, AccelMagicError) as error:
            pytest.fail(f"{page}: {line}\n{error}\n{messages.getvalue()}")


@pytest.fixture(scope="module")
def shell():
    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_cell("%load_ext accel_magic")
    yield shell
    shell.run_cell("%unload_ext accel_magic")
    InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    "line", sorted({line for line, _ in MAGICS if re.search("--help|--replay FILE|--replay$|accel_doctor", line)})
)
def test_lines_without_a_cell_run(shell, line):
    with capture_output() as captured:
        outcome = shell.run_cell(typed(line))

    assert outcome.success, outcome.error_in_exec or outcome.error_before_exec
    assert captured.stdout or captured.outputs or outcome.result is not None
