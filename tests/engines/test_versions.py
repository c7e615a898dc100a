# SPDX-License-Identifier: Apache-2.0
"""Versions of vendors' packages that do not fit are told of: found, wanted, how to mend."""

import logging
from pathlib import Path

import openxrt
import pytest
import tomllib
from openxrt.engines import _versions

RANGE = _versions.Range("1.23.2", "1.33")


@pytest.mark.parametrize("version", ["1.23.2", "1.31.1+cpu", "1.32.9"])
def test_within_the_range(version: str, caplog: pytest.LogCaptureFixture) -> None:
    _versions.check("vendor", version, RANGE)
    assert not caplog.records


@pytest.mark.parametrize("version", ["1.23.1", "1.9", "0.99.9"])
def test_too_old(version: str) -> None:
    with pytest.raises(openxrt.EngineError) as failure:
        _versions.check("vendor", version, RANGE)
    assert f"found vendor {version}, wanted >=1.23.2,<1.33" in str(failure.value)
    assert "pip install 'vendor>=1.23.2,<1.33'" in str(failure.value)


def test_several_packages_of_one_version() -> None:
    with pytest.raises(openxrt.EngineError) as failure:
        _versions.check("Vendor", "1.0", RANGE, ("vendor-libs", "vendor-bindings"))
    assert "found Vendor 1.0" in str(failure.value)
    assert str(failure.value).endswith(
        "pip install 'vendor-libs>=1.23.2,<1.33' 'vendor-bindings>=1.23.2,<1.33'"
    )


def test_newer_than_tested(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _versions.check("vendor", "1.33.0", RANGE)
    assert "found vendor 1.33.0, wanted >=1.23.2,<1.33" in caplog.text


def test_the_package_asks_for_the_same_range() -> None:
    onnxruntime = pytest.importorskip("openxrt.engines.onnxruntime")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    assert extras["onnxruntime"] == [f"onnxruntime{onnxruntime.VERSIONS}"]


def test_the_package_asks_for_the_same_range_of_tensorrt() -> None:
    tensorrt = pytest.importorskip("openxrt.engines.tensorrt")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    assert extras["tensorrt"] == [f"{name}{tensorrt.VERSIONS}" for name in tensorrt.PACKAGES]
    install = openxrt.engines.BUILT_IN["tensorrt"].install
    assert install == "pip install " + " ".join(f"'{wanted}'" for wanted in extras["tensorrt"])
