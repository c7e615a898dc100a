# SPDX-License-Identifier: Apache-2.0
"""``python -m openxrt.serve.describe MODEL SETTINGS``: loads a model, runs it once, and prints its
inputs and outputs as JSON: name to datatype, dimensions and whether it is required; and the engines
that ran it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .. import Error
from .served_program import ServedProgram
from .settings import ModelSettings


def main(path: str, settings: str) -> int:
    """Exit code 1, with one line on stderr, where the model cannot be served."""
    try:
        program = ServedProgram(Path(path), ModelSettings.from_json(settings))
    except Error as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    required = program.required_inputs
    described = {
        "input": {name: [*what, name in required] for name, what in program.inputs.items()},
        "output": {name: [*what, True] for name, what in program.outputs.items()},
        "engines": program.engines(),
    }
    print(json.dumps(described))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
