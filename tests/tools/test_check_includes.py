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
    """A file with one include."""
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"// a file\n#include {include}\n")


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/base/hash.cc", '"base/hash.h"'),
        ("src/base/hash.cc", "<vector>"),
        ("src/ir/verifier.cc", '"xrt/graph.h"'),
        ("src/ir/onnx_schema.cc", "<onnx/defs/schema.h>"),
        ("src/frontends/onnx/importer.cc", '"ir/graph_builder.h"'),
        ("src/partition/cluster.cc", '"xrt/engine.h"'),
        ("src/program/program.cc", '"partition/cluster.h"'),
        ("src/engines/native/conv.cc", '"engines/native/kernel.h"'),
        ("src/engines/native/conv.cc", "<dnnl.hpp>"),
        ("src/cli/run.cc", '"xrt/program.h"'),
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
        ("src/ops/schema.h", "<onnx/defs/schema.h>"),
        ("src/passes/pass.cc", "<onnx/defs/schema.h>"),
        ("src/frontends/onnx/importer.cc", '"xrt/engine.h"'),
        ("src/frontends/onnx/importer.cc", '"passes/pass.h"'),
        ("src/passes/pass.cc", '"partition/cluster.h"'),
        ("src/partition/cluster.cc", '"engines/native/engine.h"'),
        ("src/partition/cluster.cc", '"runtime/executor.h"'),
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
