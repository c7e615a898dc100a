# SPDX-License-Identifier: Apache-2.0
"""train.py's digits with Ray Train as launcher: its workers, on the nodes of a cluster, are the
processes.

    pip install 'openxrt[ray,torch]' 'ray[train]' scikit-learn
    python examples/ddp/ray_train.py --workers 2 --checkpoint digits.pt

Ray makes the process group, and starts all workers anew after one of them ended: they go on from
the checkpoint, which must lie where all nodes see it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

sys.path.insert(0, str(Path(__file__).resolve().parent))

import train


def main() -> None:
    words = train.options(__doc__)
    words.add_argument("--workers", type=int, default=2)
    words.add_argument("--max-failures", type=int, default=3, help="new starts of all workers")
    words.add_argument(
        "--storage", type=Path, help="a folder of Ray's own records (default: ~/ray_results)"
    )
    given = words.parse_args()
    checkpoint = given.checkpoint and given.checkpoint.absolute()  # a worker has another folder
    engine, epochs, batch = given.engine, given.epochs, given.batch

    def loop(config: dict[str, Any]) -> None:
        train.train(engine, epochs, batch, checkpoint)

    ray.init(runtime_env={"working_dir": str(Path(__file__).resolve().parent)})
    TorchTrainer(
        loop,
        train_loop_config={},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=given.workers),
        run_config=RunConfig(
            storage_path=given.storage and str(given.storage.absolute()),
            failure_config=FailureConfig(max_failures=given.max_failures),
        ),
    ).fit()


if __name__ == "__main__":
    main()
