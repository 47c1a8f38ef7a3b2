import errno
import importlib.metadata
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from accel_magic import __version__, doctor
from accel_magic.__main__ import main
from accel_magic.doctor import Check, Report
from accel_magic.errors import MachineError
from accel_magic.kernel.find_bcc import BccInstall, ForeignBcc

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


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_ROOT", tmp_path)
    monkeypatch.setattr(doctor.features, "kernel_release", lambda: "6.8.0-45-generic")
    return tmp_path


def put(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_only_something_missing_makes_the_exit_status_1():
    assert LIMITED.exit_status == 0
    assert BROKEN.exit_status == 1


def test_the_verdict_names_what_limits_and_what_prevents_tracing():
    assert LIMITED.verdict == "live tracing works here, with limits: kprobes"
    assert BROKEN.verdict == "live tracing does not work here; to mend: BCC"
    assert Report((Check("a", "ok", "b"), Check("c", "info", "d"))).verdict == "live tracing works here"


def test_text_has_a_line_for_each_check_and_its_fix_below():
    lines = str(BROKEN).splitlines()

    assert lines == [
        f"accel_magic {__version__}: live tracing does not work here; to mend: BCC",
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


def test_html_holds_the_same_cells_and_loads_nothing():
    page = Cells(BROKEN.html)

    assert [row[:3] for row in page.rows[1:]] == [[c.status, c.name, c.detail] for c in BROKEN.checks]
    assert [row[3] for row in page.rows[1:]] == [c.fix for c in BROKEN.checks]
    assert page.tags <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert "http" not in BROKEN.html


def test_html_escapes_what_the_machine_says():
    report = Report((Check("<b>", "ok", "<script>alert(1)</script>", '"&<i>'),))

    page = Cells(report.html)

    assert page.rows[1][1:] == ["<b>", "<script>alert(1)</script>", '"&<i>']
    assert not page.tags & {"script", "b", "i"}


def test_a_notebook_gets_text_and_html_in_one_bundle():
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
    monkeypatch.setattr("accel_magic.__main__.report", lambda **_: report)

    assert main(["doctor"]) == report.exit_status
    assert capsys.readouterr().out == report.text + "\n"
    assert main(["doctor", "--json"]) == report.exit_status
    assert json.loads(capsys.readouterr().out) == json.loads(report.to_json())


def test_the_command_tells_its_version(capsys):
    with pytest.raises(SystemExit) as raised:
        main(["--version"])

    assert raised.value.code == 0
    assert capsys.readouterr().out == f"accel_magic {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["doctor", "--no-such-option"]])
def test_arguments_that_mean_nothing_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as raised:
        main(arguments)

    assert raised.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_every_line_of_the_promised_table_is_there(monkeypatch):
    names = [check.name for check in doctor.checks()]

    assert {"platform", "kernel", "privilege", "tracefs", "BCC", "kprobes", "kprobe_multi", "uprobes"} <= set(names)
    assert {"uprobe_multi", "BTF", "bpffs", "lockdown", "perf_event_paranoid", "PID namespace"} <= set(names)
    assert {"Python", "ipykernel", "ipython", "ipywidgets", "bokeh", "pandas", "device nodes"} <= set(names)
    assert [n for n in names if n.startswith("driver")] == [
        f"driver {n}" for n in ("intel_vpu", "xe", "i915", "amdgpu", "nvidia")
    ]
    assert len(names) == len(set(names))


def test_a_blocker_is_reported_with_its_reason_and_fix(monkeypatch):
    error = MachineError("tracefs is not mounted", why="tracepoints live there", fix="mount it")
    monkeypatch.setattr(doctor.features, "tracefs_error", lambda: error)

    line = next(check for check in doctor.checks() if check.name == "tracefs")

    assert line == Check("tracefs", "missing", "tracefs is not mounted: tracepoints live there", "mount it")


def test_bcc_that_does_not_load_is_missing_with_its_last_words(monkeypatch, tmp_path):
    put(tmp_path / "bcc/__init__.py", "raise OSError('libclang-14.so.1: cannot open shared object file')\n")
    found = BccInstall(Path(doctor.sys.executable), tmp_path / "bcc", "0.26.0")
    monkeypatch.setattr(doctor.find_bcc, "find_bcc", lambda: found)

    check = doctor._bcc()

    assert check.status == "missing"
    assert "libclang-14.so.1: cannot open shared object file" in check.detail
    assert check.fix


def test_bcc_whose_interpreter_is_gone_is_missing(monkeypatch, tmp_path):
    found = BccInstall(tmp_path / "python3", tmp_path / "bcc", "0.26.0")
    monkeypatch.setattr(doctor.find_bcc, "find_bcc", lambda: found)

    check = doctor._bcc()

    assert check.status == "missing"
    assert str(tmp_path / "python3") in check.detail


def test_an_unrelated_bcc_is_a_warning_and_does_not_prevent_tracing(monkeypatch):
    monkeypatch.setattr(doctor.find_bcc, "foreign_bcc", lambda: ForeignBcc("bcc 0.1.10", Path("/venv/bcc")))

    (check,) = doctor._foreign_bcc()

    assert check.status == "warning"
    assert "bcc 0.1.10 at /venv/bcc" in check.detail
    assert check.fix == "pip uninstall bcc"


@pytest.mark.parametrize(
    ("answers", "statuses"),
    [
        ((True, True, True, True), ["ok", "ok", "ok", "ok"]),
        ((True, False, True, False), ["ok", "info", "ok", "info"]),
        ((False, False, False, False), ["warning", "info", "warning", "info"]),
        ((False, True, True, True), ["info", "ok", "ok", "ok"]),
        ((True, None, True, None), ["ok", "info", "ok", "info"]),
    ],
)
def test_missing_probe_kinds_are_warnings_and_slower_ways_only_information(monkeypatch, answers, statuses):
    names = ("has_kprobes", "has_kprobe_multi", "has_uprobes", "has_uprobe_multi")
    for name, answer in zip(names, answers, strict=True):
        monkeypatch.setattr(doctor.features, name, lambda answer=answer: answer)

    monkeypatch.setattr(doctor.features, "uprobe_refusal", lambda: 0)

    lines = list(doctor._probes())

    assert [line.name for line in lines] == ["kprobes", "kprobe_multi", "uprobes", "uprobe_multi"]
    assert [line.status for line in lines] == statuses
    if statuses[0] == "warning":
        assert "tracepoints" in lines[0].detail


@pytest.mark.parametrize(("multi", "status"), [(True, "ok"), (False, "warning"), (None, "ok")])
def test_uprobes_that_want_more_privilege_need_uprobe_multi(monkeypatch, multi, status):
    monkeypatch.setattr(doctor.features, "has_uprobes", lambda: True)
    monkeypatch.setattr(doctor.features, "has_uprobe_multi", lambda: multi)
    monkeypatch.setattr(doctor.features, "uprobe_refusal", lambda: errno.EACCES)

    uprobes, _ = doctor._uprobes()

    assert uprobes.status == status
    assert ("CAP_SYS_ADMIN" in uprobes.detail) is (multi is not None)


@pytest.mark.parametrize(
    ("state", "status"), [("none", "ok"), ("integrity", "ok"), ("confidentiality", "warning"), ("", "info")]
)
def test_only_lockdown_confidentiality_is_a_warning(monkeypatch, state, status):
    monkeypatch.setattr(doctor.features, "lockdown", lambda: state)

    assert doctor._lockdown().status == status


@pytest.mark.parametrize(("initial", "status"), [(True, "ok"), (False, "warning"), (None, "info")])
def test_another_pid_namespace_is_a_warning(monkeypatch, initial, status):
    monkeypatch.setattr(doctor.features, "initial_pid_namespace", lambda: initial)

    assert doctor._pid_namespace().status == status


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("6.28.0", "warning"),
        ("6.29.0", "ok"),
        ("7.0.1", "warning"),
        ("7.1.0", "ok"),
        ("7.2.0a1", "ok"),
        (None, "warning"),
    ],
)
def test_a_package_is_compared_with_what_accel_magic_requires(monkeypatch, version, status):
    def installed(name):
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["ipykernel>=6.29,!=7.0.*", "x; extra == 'gpu'"])
    monkeypatch.setattr(importlib.metadata, "version", installed)

    check = doctor._package("ipykernel")

    assert check.status == status
    assert ("pip install" in check.fix) is (status == "warning")


def test_missing_pandas_prevents_tracing(monkeypatch):
    def installed(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", installed)

    assert doctor._package("pandas").status == "missing"


def test_packages_are_listed_without_comparison_when_run_from_a_source_tree(monkeypatch):
    def requires(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0")

    assert doctor._package("ipykernel").status == "info"


@pytest.mark.parametrize(
    ("files", "status", "words"),
    [
        ({"proc/modules": "xe 3000 1 - Live 0x0\n"}, "ok", "loaded"),
        ({"proc/modules": "xen 1 1 - Live 0x0\n", "sys/module/xe/version": ""}, "ok", "built into the kernel"),
        ({"sys/module/xe/version": ""}, "ok", "built into the kernel"),
        ({}, "info", "loads no modules"),
        ({"proc/modules": ""}, "info", "no /lib/modules/6.8.0-45-generic"),
        ({"proc/modules": "", "lib/modules/6.8.0-45-generic/modules.dep": "k/xen.ko: k/a.ko\n"}, "info", "not among"),
        (
            {"proc/modules": "", "lib/modules/6.8.0-45-generic/modules.dep": "k/drm/xe/xe.ko.zst: k/drm.ko.zst\n"},
            "info",
            "can be",
        ),
    ],
)
def test_a_driver_is_loaded_built_in_available_or_absent(root, files, status, words):
    for path, text in files.items():
        put(root / path, text)

    check = doctor._driver("xe", "Intel GPU")

    assert check.status == status
    assert words in check.detail
    assert check.fix.startswith("modprobe xe") is (words == "can be")


def test_a_modules_file_name_may_have_hyphens(root):
    put(root / "proc/modules")
    put(root / "lib/modules/6.8.0-45-generic/modules.dep", "k/accel/ivpu/intel-vpu.ko:\n")

    assert doctor._driver("intel_vpu", "Intel NPU").fix.startswith("modprobe intel_vpu")


def test_device_nodes_are_listed(root):
    for name in ("accel/accel0", "dri/renderD128", "dri/card0", "nvidia0", "nvidiactl", "nvidia-caps/cap1"):
        put(root / "dev" / name)

    check = doctor._device_nodes()

    assert check.status == "ok"
    assert check.detail == ", ".join(
        str(root / "dev" / name) for name in ("accel/accel0", "dri/renderD128", "nvidia0", "nvidiactl")
    )


def test_device_nodes_that_may_not_be_opened_are_a_warning(root, monkeypatch):
    put(root / "dev/accel/accel0")
    put(root / "dev/dri/renderD128")
    monkeypatch.setattr(doctor.os, "supports_effective_ids", set())
    monkeypatch.setattr(doctor.os, "access", lambda path, mode, *, effective_ids: "render" in str(path))

    check = doctor._device_nodes()

    assert check.status == "warning"
    assert f"may not open {root / 'dev/accel/accel0'}" in check.detail
    assert "render" in check.fix


def test_no_device_at_all_is_a_warning_that_says_what_works(root):
    check = doctor._device_nodes()

    assert check.status == "warning"
    assert "recordings" in check.detail
