"""The doctor's checks of the loader and the NPU's library, on simulated machines."""

import pytest

from accel_magic.probes import libraries as known_libraries
from accel_magic.subsystems.npu import doctor


@pytest.fixture
def libraries(tmp_path, monkeypatch):
    """Installs libraries in the folder that the loader searches first: `libraries("libx.so.1", "libx.so.1.2")`."""
    folder = tmp_path / "lib"
    folder.mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.delenv("ZE_ENABLE_ALT_DRIVERS", raising=False)
    # A loader that this process has mapped, e.g. from another test, would be found before that folder.
    monkeypatch.setattr(known_libraries, "_mappings", lambda _pid: [])

    def install(name, file):
        (folder / file).write_bytes(b"\x7fELF")
        if file != name:
            (folder / name).symlink_to(file)
        return folder / file

    return install


def test_the_loader_and_the_npu_library_are_reported_with_version_and_path(libraries):
    loader = libraries("libze_loader.so.1", "libze_loader.so.1.20.6")
    driver = libraries("libze_intel_npu.so.1", "libze_intel_npu.so.1.24.0")

    loaders, drivers = doctor.libraries(expects_npu=True)

    assert (loaders.name, loaders.status, loaders.detail) == ("Level Zero loader", "ok", f"1.20.6 at {loader}")
    assert (drivers.name, drivers.status, drivers.detail) == ("NPU user-mode driver", "ok", f"1.24.0 at {driver}")


def test_the_npu_library_is_found_under_its_old_name(libraries):
    driver = libraries("libze_intel_vpu.so.1", "libze_intel_vpu.so.1.10.0")

    assert doctor.libraries(expects_npu=True)[1].detail == f"1.10.0 at {driver}"


def test_a_library_whose_name_has_no_version_is_still_found(libraries):
    loader = libraries("libze_loader.so.1", "libze_loader.so.1")

    assert doctor.libraries(expects_npu=False)[0].detail == f"version unknown, at {loader}"


def test_drivers_named_in_the_environment_are_shown(libraries, monkeypatch):
    libraries("libze_loader.so.1", "libze_loader.so.1.20.6")
    monkeypatch.setenv("ZE_ENABLE_ALT_DRIVERS", "/opt/libze_mine.so")

    assert "ZE_ENABLE_ALT_DRIVERS=/opt/libze_mine.so" in doctor.libraries(expects_npu=False)[1].detail


@pytest.mark.parametrize(("expects_npu", "status"), [(True, "warning"), (False, "info")])
def test_missing_libraries_are_warnings_only_with_an_npu(libraries, monkeypatch, expects_npu, status):
    monkeypatch.setattr(doctor, "_find", lambda _: None)

    found = doctor.libraries(expects_npu=expects_npu)

    assert [check.status for check in found] == [status, status]
    assert all(check.fix for check in found)
