# SPDX-License-Identifier: Apache-2.0
"""Parts of the package that are imported when they are asked for."""

import subprocess
import sys

import pytest

PARTS = ["lite", "optim", "quantize"]


@pytest.mark.parametrize("part", [*PARTS, "torch"])
def test_parts_need_no_import_of_their_own(part: str) -> None:
    """As the README has them."""
    if part == "torch":
        pytest.importorskip("torch")
    code = f"import openxrt, types; assert isinstance(openxrt.{part}, types.ModuleType)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_part_whose_package_is_missing() -> None:
    code = (
        "import sys, openxrt\n"
        "sys.modules['oneflow'] = None\n"
        "assert not hasattr(openxrt, 'oneflow')\n"
        "try:\n"
        "    openxrt.oneflow\n"
        "except AttributeError as error:\n"
        "    assert \"'oneflow'\" in str(error) and 'not installed' in str(error), error\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
