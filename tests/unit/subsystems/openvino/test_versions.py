"""What versions of OpenVINO report."""

import pytest

from accel_magic.subsystems.openvino import versions


@pytest.mark.parametrize(
    ("version", "note"),
    [
        ("2025.0.0-17942-1f68be9f594-releases/2025/0", "OpenVINO 2025.0 does not report inferences and layers; "),
        ("2025.4.0-20398-7a975177ff4", "OpenVINO 2025.4 does not report inferences and layers; "),
        ("2026.0.0-20965-c6d6a13a886", "OpenVINO 2026.0 does not tell layers apart; "),
        ("2026.3.0-22451-8a17657b995", "OpenVINO 2026.3 does not tell layers apart; "),
        ("2026.4.1-22982-e213a147257-releases/2026/4", ""),
        ("2027.0.0", ""),
        ("", ""),
        ("custom_build", ""),
    ],
)
def test_a_version_that_reports_less_comes_with_a_note(version, note):
    told = versions.what_lacks(version)

    assert told == (f"{note}OpenVINO 2026.4 and newer do: pip install -U openvino" if note else "")
    assert versions.names_layers(version) == (not note)
