# SPDX-License-Identifier: Apache-2.0
"""tools/check_includes.py accepts the layers as drawn and refuses each arrow against them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "check_includes.py"


def check(tree: Path) -> subprocess.CompletedProcess[str]:
    """Runs the tool over a tree."""
    return subprocess.run(
        [sys.executable, str(TOOL), str(tree)], capture_output=True, text=True, check=False
    )


def write(tree: Path, path: str, include: str) -> None:
    """A file with one include; lite's headers, which are looked for, exist."""
    for header in (
        "lite/compiler/lower/lower.h",
        "lite/runtime/include/xrt_lite.h",
        "lite/runtime/src/format.h",
        "lite/runtime/drivers/generic/generic.h",
        "lite/runtime/tiles/tiles.h",
    ):
        (tree / header).parent.mkdir(parents=True, exist_ok=True)
        (tree / header).touch()
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"// a file\n#include {include}\n")


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/base/hash.cc", '"base/hash.h"'),
        ("src/base/hash.cc", "<vector>"),
        ("src/ir/verifier.cc", '"xrt/graph.h"'),
        ("src/onnx/schema.cc", "<onnx/defs/schema.h>"),
        ("src/frontends/onnx/importer.cc", '"ir/graph_builder.h"'),
        ("src/partition/cluster.cc", '"xrt/engine.h"'),
        ("src/program/program.cc", '"partition/cluster.h"'),
        ("src/engines/native/conv.cc", '"engines/native/kernel.h"'),
        ("src/engines/native/conv.cc", "<dnnl.hpp>"),
        ("src/cli/commands/run.cc", '"xrt/program.h"'),
        ("lite/runtime/src/load.c", '"format.h"'),
        ("lite/runtime/src/load.c", "<string.h>"),
        ("lite/runtime/drivers/x86/driver.c", '"../../tiles/tiles.h"'),
        ("lite/runtime/tiles/pool.c", '"../drivers/generic/generic.h"'),
        ("lite/compiler/targets/cuda.cc", '"lower/lower.h"'),
        ("lite/compiler/lower/lower.cc", '"xrt/graph.h"'),
        ("lite/compiler/write.cc", '"format.h"'),
        ("lite/tools/run.cc", '"cli/text.h"'),
        ("lite/tools/run.cc", '"xrt_lite.h"'),
        ("lite/tools/tool.h", "<CLI/CLI.hpp>"),
    ],
)
def test_allowed(tmp_path: Path, path: str, include: str) -> None:
    write(tmp_path, path, include)
    done = check(tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/base/hash.cc", '"ir/graph_builder.h"'),
        ("src/base/hash.cc", '"xrt/graph.h"'),
        ("src/ir/verifier.cc", '"passes/pass.h"'),
        ("src/ir/verifier.cc", '"xrt/engine.h"'),
        ("src/ir/graph.cc", "<onnx/defs/schema.h>"),
        ("src/passes/pass.cc", "<onnx/defs/schema.h>"),
        ("src/frontends/onnx/importer.cc", '"partition/cluster.h"'),
        ("src/frontends/onnx/importer.cc", '"passes/pass.h"'),
        ("src/passes/pass.cc", '"partition/cluster.h"'),
        ("src/partition/cluster.cc", '"engines/native/engine.h"'),
        ("src/partition/cluster.cc", '"exec/executor.h"'),
        ("src/program/program.cc", '"engines/xla/engine.h"'),
        ("src/program/program.cc", '"cli/table.h"'),
        ("src/program/program.cc", "<dnnl.hpp>"),
        ("src/engines/native/conv.cc", '"engines/xla/engine.h"'),
        ("src/engines/native/conv.cc", '"passes/pass.h"'),
        ("src/engines/native/conv.cc", '"frontends/onnx/importer.h"'),
        ("src/engines/native/conv.cc", '"xrt/program.h"'),
        ("src/engines/native/conv.cc", "<openvino/openvino.hpp>"),
        ("include/xrt/tensor.h", '"base/hash.h"'),
        ("include/xrt/tensor.h", '"xrt/program.h"'),
        ("include/xrt/unheard_of.h", "<vector>"),
        ("src/unheard_of/file.cc", "<vector>"),
        ("src/ir/verifier.cc", '"xrt/unheard_of.h"'),
        ("lite/runtime/src/load.c", '"base/hash.h"'),
        ("lite/runtime/src/load.c", '"xrt/tensor.h"'),
        ("lite/runtime/src/load.c", '"../drivers/generic/generic.h"'),
        ("lite/runtime/drivers/x86/driver.c", '"unheard_of.h"'),
        ("lite/runtime/include/xrt_lite.h", '"../src/format.h"'),
        ("lite/compiler/lower/lower.cc", '"cli/text.h"'),
        ("lite/compiler/lower/lower.cc", '"xrt/trainer.h"'),
        ("lite/compiler/lower/lower.cc", '"engines/native/engine.h"'),
        ("lite/compiler/lower/lower.cc", "<onnx/defs/schema.h>"),
        ("lite/unheard_of/file.cc", "<vector>"),
        ("src/program/program.cc", '"../../lite/compiler/lower/lower.h"'),
        ("python/src/lite.cc", '"lite/compiler/lower/lower.h"'),
    ],
)
def test_refused(tmp_path: Path, path: str, include: str) -> None:
    write(tmp_path, path, include)
    done = check(tmp_path)
    assert done.returncode == 1
    assert path in done.stdout


def test_the_project_itself() -> None:
    done = check(ROOT)
    assert done.returncode == 0, done.stdout
