"""The doctor's report: verdict, text, HTML and JSON."""

import json
from html.parser import HTMLParser

import pytest

from accel_magic import __version__
from accel_magic.api.doctor import Check, Report
from accel_magic.command_line import main

LIMITED = Report(
    (
        Check("tracefs", "ok", "mounted"),
        Check("kprobes", "warning", "none in this kernel; tracepoints work", "boot another"),
        Check("lockdown", "info", "unknown"),
    )
)
BROKEN = Report((*LIMITED.checks, Check("BCC", "missing", "not installed", "apt install python3-bpfcc")))


class Cells(HTMLParser):
    """Rows of a table's cells as text, and every tag seen."""

    def __init__(self, source):
        super().__init__()
        self.rows, self.tags = [], set()
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1] and data.strip():
            self.rows[-1][-1] += data


def test_the_exit_status_is_1_only_if_something_is_missing():
    assert LIMITED.exit_status == 0
    assert BROKEN.exit_status == 1


def test_the_verdict_names_what_limits_and_what_prevents_tracing():
    assert LIMITED.verdict == "live tracing works here, with limits: kprobes"
    assert BROKEN.verdict == "live tracing does not work here; to fix: BCC"
    assert Report((Check("a", "ok", "b"), Check("c", "info", "d"))).verdict == "live tracing works here"


def test_text_has_a_line_for_each_check_and_its_fix_below():
    lines = str(BROKEN).splitlines()

    assert lines == [
        f"accel_magic {__version__}: live tracing does not work here; to fix: BCC",
        "",
        "ok       tracefs   mounted",
        "warning  kprobes   none in this kernel; tracepoints work",
        "                   fix: boot another",
        "info     lockdown  unknown",
        "missing  BCC       not installed",
        "                   fix: apt install python3-bpfcc",
    ]
    assert repr(BROKEN) == str(BROKEN) == BROKEN.text


def test_long_details_are_wrapped_below_their_column():
    report = Report((Check("x", "ok", "word " * 60),))

    lines = report.text.splitlines()[2:]

    assert len(lines) > 1
    assert max(map(len, lines)) <= 110
    assert all(line.startswith(" " * len("ok       x  ") + "word") for line in lines[1:])
    assert " ".join(lines).split().count("word") == 60


def test_a_path_longer_than_the_page_stays_in_one_piece():
    path = "/" + "long-folder/" * 15

    assert path in Report((Check("x", "ok", f"at {path}"),)).text


def test_html_has_the_same_cells_and_loads_nothing():
    page = Cells(BROKEN.html)

    assert [row[:3] for row in page.rows[1:]] == [[c.status, c.name, c.detail] for c in BROKEN.checks]
    assert [row[3] for row in page.rows[1:]] == [c.fix for c in BROKEN.checks]
    assert page.tags <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert "http" not in BROKEN.html


def test_html_escapes_names_and_details():
    report = Report((Check("<b>", "ok", "<script>alert(1)</script>", '"&<i>'),))

    page = Cells(report.html)

    assert page.rows[1][1:] == ["<b>", "<script>alert(1)</script>", '"&<i>']
    assert not page.tags & {"script", "b", "i"}


def test_the_mime_bundle_has_text_and_html():
    assert LIMITED._repr_mimebundle_() == {"text/plain": LIMITED.text, "text/html": LIMITED.html}


def test_json_holds_every_check_and_the_verdict():
    data = json.loads(BROKEN.to_json())

    assert data["exit_status"] == 1
    assert data["accel_magic"] == __version__
    assert data["verdict"] == BROKEN.verdict
    assert data["checks"][3] == {
        "name": "BCC",
        "status": "missing",
        "detail": "not installed",
        "fix": "apt install python3-bpfcc",
    }
    assert len(data["checks"]) == 4


@pytest.mark.parametrize("report", [LIMITED, BROKEN])
def test_the_command_prints_the_report_and_returns_its_status(report, monkeypatch, capsys):
    monkeypatch.setattr("accel_magic.api.doctor.report", lambda **_: report)

    assert main(["doctor"]) == report.exit_status
    assert capsys.readouterr().out == report.text + "\n"
    assert main(["doctor", "--json"]) == report.exit_status
    assert json.loads(capsys.readouterr().out) == json.loads(report.to_json())


def test_the_command_prints_its_version(capsys):
    with pytest.raises(SystemExit) as raised:
        main(["--version"])

    assert raised.value.code == 0
    assert capsys.readouterr().out == f"accel_magic {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["doctor", "--no-such-option"]])
def test_invalid_arguments_are_rejected(arguments, capsys):
    with pytest.raises(SystemExit) as raised:
        main(arguments)

    assert raised.value.code == 2
    assert "usage:" in capsys.readouterr().err
