"""The doctor's report: verdict, text, HTML and JSON."""

import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from accel_magic import __version__
from accel_magic.api.doctor import Check, Report, Use
from accel_magic.command_line import main

LIMITED = Report(
    (
        Check("tracefs", "ok", "mounted"),
        Check("kprobes", "warning", "none in this kernel; tracepoints work", "boot another"),
        Check("lockdown", "info", "unknown"),
    )
)
USES = (
    Use("%%flame", "live", "where time is spent"),
    Use("%%ktrace kprobe:...", "replay", "none in this kernel; tracepoints work", "boot another"),
)
BROKEN = Report((*LIMITED.checks, Check("BCC", "missing", "not installed", "apt install python3-bpfcc")))


class Cells(HTMLParser):
    """Rows of a table's cells as text, and every tag seen."""

    def __init__(self, source):
        super().__init__()
        self.rows, self.tags, self.cell = [], set(), False
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.cell = True

    def handle_endtag(self, tag):
        self.cell &= tag not in ("td", "th")

    def handle_data(self, data):
        if self.cell and data.strip():
            self.rows[-1][-1] += data


def test_the_exit_status_is_1_only_if_something_is_missing():
    assert LIMITED.exit_status == 0
    assert BROKEN.exit_status == 1


def test_the_verdict_names_what_limits_and_what_prevents_tracing():
    assert LIMITED.verdict == "live tracing works here, with limits: kprobes"
    assert BROKEN.verdict == "live tracing does not work here; to fix: BCC"
    assert Report((Check("a", "ok", "b"), Check("c", "info", "d"))).verdict == "live tracing works here"


def test_text_has_a_line_for_each_check_and_its_fix_below():
    report = replace(BROKEN, complete=True)
    lines = str(report).splitlines()

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
    assert repr(report) == str(report) == report.text


def test_text_begins_with_what_works_and_has_only_checks_that_say_more():
    lines = str(replace(BROKEN, uses=USES)).splitlines()

    assert lines[2:] == [
        "live    %%flame              where time is spent",
        "replay  %%ktrace kprobe:...  none in this kernel; tracepoints work",
        "                             fix: boot another",
        "",
        "missing  BCC  not installed",
        "              fix: apt install python3-bpfcc",
        "",
        "3 more checks: accel-magic doctor --all, %accel_doctor --all",
    ]


def test_long_details_are_wrapped_below_their_column():
    report = Report((Check("x", "ok", "word " * 60),), complete=True)

    lines = report.text.splitlines()[2:]

    assert len(lines) > 1
    assert max(map(len, lines)) <= 110
    assert all(line.startswith(" " * len("ok  x  ") + "word") for line in lines[1:])
    assert " ".join(lines).split().count("word") == 60


def test_a_path_longer_than_the_page_stays_in_one_piece():
    path = "/" + "long-folder/" * 15

    assert path in Report((Check("x", "ok", f"at {path}"),), complete=True).text


@pytest.mark.parametrize("complete", [True, False])
def test_html_has_the_same_cells_and_loads_nothing(complete):
    report = replace(BROKEN, uses=USES, complete=complete)
    page = Cells(report.html)
    rows = [row for row in page.rows if row[1] not in ("magic", "check")]
    first = [] if complete else ["BCC"]  # of kprobes, a use says the same

    assert rows[: len(USES)] == [[use.how, use.magic, use.detail, use.fix] for use in USES]
    checks = sorted(BROKEN.checks, key=lambda check: check.name not in first)
    assert rows[len(USES) :] == [[c.status, c.name, c.detail, c.fix] for c in checks]
    assert page.tags <= {
        *("div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "code", "details", "summary")
    }
    assert ("<details open>" in report.html) == complete
    assert f"<summary>{'4 checks' if complete else '3 more checks'}</summary>" in report.html
    assert "http" not in report.html


def test_html_escapes_names_and_details():
    hostile = ("<b>", "<script>alert(1)</script>", '"&<i>')
    report = Report((Check(hostile[0], "ok", *hostile[1:]),), (Use(hostile[0], "no", *hostile[1:]),))

    page = Cells(report.html)

    assert [row[1:] for row in page.rows if row[0] in ("ok", "no")] == [list(hostile)] * 2
    assert not page.tags & {"script", "b", "i"}


def test_the_mime_bundle_has_text_and_html():
    assert LIMITED._repr_mimebundle_() == {"text/plain": LIMITED.text, "text/html": LIMITED.html}


def test_json_holds_every_check_and_the_verdict():
    data = json.loads(replace(BROKEN, uses=USES).to_json())

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
    assert [use["magic"] for use in data["uses"]] == [use.magic for use in USES]
    assert data["uses"][1]["how"] == "replay"


@pytest.mark.parametrize("report", [LIMITED, BROKEN])
def test_the_command_prints_the_report_and_returns_its_status(report, monkeypatch, capsys):
    monkeypatch.setattr("accel_magic.api.doctor.report", lambda **_: report)

    assert main(["doctor"]) == report.exit_status
    assert capsys.readouterr().out == report.text + "\n"
    assert main(["doctor", "--all"]) == report.exit_status
    assert capsys.readouterr().out == replace(report, complete=True).text + "\n"
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
