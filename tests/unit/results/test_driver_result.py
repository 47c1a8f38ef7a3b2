"""Runs under a policy in a driver: the policy's maps before and after, the measured time, and nothing modelled."""

from accel_magic.errors import ResultError
from tests.support.errors import raises
from tests.unit.results.conftest import driver


def test_maps_are_shown_before_and_after():
    result = driver()
    assert result.maps["by_processor"].to_dict("list") == {
        "key": [0, 1],
        "value": [0, 7],
        "value_cpu0": [0, 3],
        "value_cpu1": [0, 4],
    }
    assert result.maps_before["blocks"].to_dict("list") == {"key": [2, 3], "value": [7, 1]}
    assert result.maps["blocks"].to_dict("list") == {"key": [2, 4], "value": [8, 1]}
    rows = {line.split()[0]: line.split()[1:] for line in result.summary().splitlines() if line.strip()}
    assert rows["by_processor"] == ["2", "2", "1"]
    assert rows[".bss"] == ["1", "1", "0"]
    assert rows["blocks"] == ["2", "2", "3"]


def test_the_time_is_measured_and_what_the_driver_does_not_report_is_absent():
    result = driver()
    assert result.duration_s == 1.5
    with raises("result.no-counts", ResultError):
        result.counts  # noqa: B018 - it raises
    for shown in (result.summary(), result._repr_mimebundle_()["text/html"]):
        assert "not modelled: the driver reports no hits, faults, misses or evictions" in shown
        assert "1.5" in shown
        assert "nvidia_uvm" in shown
        assert "on_reset" in shown
    assert "the code failed" in driver("error").summary()
