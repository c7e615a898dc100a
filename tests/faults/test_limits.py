# SPDX-License-Identifier: Apache-2.0
"""Limits that the system sets: memory of a control group, and numbers of threads and processes."""

from __future__ import annotations

import contextlib
import os
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from faulty_process import ENGINES, run, write_model
from onnx import TensorProto, helper
from small_models import make_model, tensor, usable

MOUNT = Path("/sys/fs/cgroup")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "model.onnx")


def parents(controller: str) -> list[Path]:
    """Groups below which one may be made that has the controller: of version 2, then of 1."""
    groups = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            groups.append(MOUNT / controller / path.lstrip("/"))
    for group in (MOUNT, MOUNT / "unified"):
        with contextlib.suppress(OSError):
            if controller in (group / "cgroup.subtree_control").read_text().split():
                groups.append(group)
    return groups


@contextlib.contextmanager
def control_group(controller: str, limits: dict[str, int]) -> Iterator[tuple[str, ...]]:
    """The beginning of a command that runs in a group of its own, below one with the limits.

    Each name of a limit that the version of control groups has is set.
    """
    for parent in parents(controller):
        group = parent / f"openxrt-{uuid.uuid4().hex[:8]}"
        with contextlib.suppress(OSError):
            group.mkdir()
            break
    else:
        pytest.skip(f"no control group of {controller} can be made here")
    inner = group / "inner"
    try:
        inner.mkdir()
        done = [
            name
            for name, limit in limits.items()
            if (group / name).exists() and (group / name).write_text(str(limit))
        ]
        if not done:
            pytest.skip(f"control groups of {controller} have none of {list(limits)} here")
        os.environ["XRT_TEST_GROUP"] = os.fspath(group).removeprefix(os.fspath(MOUNT))
        yield ("sh", "-c", f'echo $$ > "{inner}/cgroup.procs" && exec "$@"', "sh")
    finally:
        for made in (inner, group):
            with contextlib.suppress(FileNotFoundError):
                made.rmdir()


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    """The sum of exp(0) for as many elements as the input says."""
    path = tmp_path / "growing.onnx"
    path.write_bytes(
        make_model(
            [
                helper.make_node("ConstantOfShape", ["n"], ["zeros"]),
                helper.make_node("Exp", ["zeros"], ["ones"]),
                helper.make_node("ReduceSum", ["ones"], ["y"], keepdims=0),
            ],
            [tensor("n", TensorProto.INT64, [1])],
            [tensor("y", TensorProto.FLOAT, None)],
        )
    )
    np.save(f"{path}.npy", np.zeros(1, np.float32))
    return path


@pytest.mark.parametrize("isolated", [False, True])
def test_memory_of_a_control_group_bounds_runs(isolated: bool, growing: Path) -> None:
    """Without an option: the limit is of the group around the process's own. A value that does not
    fit is an error that names the node, and the system's killer has nothing to do."""
    code = f"""
        program = load(isolation={["native"] if isolated else []}, cache_dir="")
        for count in (1 << 20, 1 << 26, 1 << 27, 1 << 29, 1 << 20):
            try:
                print(float(program(np.array([count]))) == count)
            except (openxrt.ResourceError, openxrt.EngineError) as error:
                print("Exp" in str(error) or "ConstantOfShape" in str(error))
                told = str(error)
                print("max_memory_bytes" in told or "are free" in told or "XRT_WORKER" in told)
    """
    limit = 400 << 20
    limits = {"memory.max": limit, "memory.limit_in_bytes": limit}
    with control_group("memory", limits) as prefix:
        assert run(code, growing, prefix=prefix).split() == ["True"] * 8


def test_the_bound_is_nine_tenths_of_the_groups(growing: Path) -> None:
    code = """
        try:
            load(cache_dir="")(np.array([1 << 27]))
        except openxrt.ResourceError as error:
            print(str((400 << 20) // 10 * 9) in str(error), "max_memory_bytes" in str(error))
    """
    limit = 400 << 20
    limits = {"memory.max": limit, "memory.limit_in_bytes": limit}
    with control_group("memory", limits) as prefix:
        assert run(code, growing, prefix=prefix) == "True True"


# How many threads and processes more there may be: by a control group, and for who is no root by
# the limit of the user.
BY_GROUP = """
    group = "/sys/fs/cgroup" + os.environ["XRT_TEST_GROUP"]
    def allow(more):
        with open(group + "/pids.max", "w") as file:
            file.write(str(int(open(group + "/pids.current").read()) + more))
    def lift():
        with open(group + "/pids.max", "w") as file:
            file.write("max")
"""
BY_USER = """
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    def count():
        number = 0
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{name}").st_uid == os.geteuid():
                    number += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                pass
        return number
    def allow(more):
        resource.setrlimit(resource.RLIMIT_NPROC, (count() + more, hard))
    def lift():
        workers = open(f"/proc/self/task/{os.getpid()}/children").read().split()
        for process in (0, *map(int, workers)):  # they began with the limit of that time
            resource.prlimit(process, resource.RLIMIT_NPROC, (hard, hard))
"""


@contextlib.contextmanager
def few_threads() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Code with allow() and lift(), and the beginning of the command for it."""
    if os.geteuid() != 0:
        yield BY_USER, ()
        return
    with control_group("pids", {"pids.max": 1000}) as prefix:
        yield BY_GROUP, prefix


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_threads_that_cannot_be_started(engine: str, isolated: bool, model: Path) -> None:
    """Each load and run is right or an error that says so, and all is well behind it."""
    if not usable(engine):
        pytest.skip(f"engine {engine} is not usable here")
    code = f"""
        openxrt.set_num_threads(4)
        isolation = {[engine] if isolated else []}
        found = set()
        def attempt(act):
            try:
                found.add("right" if act() else "wrong")
            except openxrt.Error as error:
                told = str(error)
                clear = "temporarily unavailable" in told or "can't start new thread" in told
                found.add("told" if clear else told)
        def submitted():
            program = load("{engine}", isolation=isolation)
            y = program.submit({{"x": x}}).result(60)["t7"]
            return np.allclose(y, wanted, rtol=1e-3, atol=1e-3)
        for more in (0, 1, 2, 3, 5, 8, 13, 30):
            allow(more)
            attempt(lambda: is_right(load("{engine}", isolation=isolation, cache_dir="")))
            attempt(submitted)
        lift()
        print(sorted(found - {{"right"}}), is_right(load("{engine}", isolation=isolation)))
    """
    with few_threads() as (allowing, prefix):
        program = textwrap.dedent(allowing) + textwrap.dedent(code)
        assert run(program, model, prefix=prefix) == "['told'] True"


def test_descriptors_that_are_few(model: Path) -> None:
    """Of every engine, while files are written: tests of native alone are in test_faults.py."""
    engines = [engine for engine in ENGINES if usable(engine)]
    code = f"""
        import openxrt.quantize
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        for engine in {engines}:
            is_right(load(engine))
        acts = [lambda e=engine, i=i: is_right(load(e, isolation=i, force_compile=True))
                for engine in {engines} for i in ([], [engine])]
        acts.append(lambda: bool(openxrt.quantize.quantize(model, model + ".q", weights="int8")))
        acts.append(lambda: openxrt.Trainer(model, loss="mse").save(model + ".s") is None)
        found = set()
        for more in range(8):
            for act in acts:
                used = max(map(int, os.listdir("/proc/self/fd")))
                resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, hard))
                try:
                    found.add(act())
                except (openxrt.Error, OSError) as error:
                    told = str(error)
                    clear = "Too many open files" in told or "worker" in told
                    found.add("told" if clear else told)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        print(sorted(found - {{True}}), all(act() for act in acts))
    """
    assert run(code, model) == "['told'] True"


def test_engines_are_listed_or_it_is_an_error(model: Path) -> None:
    """A folder that cannot be read is not one without engines."""
    code = """
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        import openxrt.engines
        from importlib.metadata import entry_points
        used = max(map(int, os.listdir("/proc/self/fd")))
        found = set()
        for more in range(3):
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, hard))
            try:
                found.add(tuple(openxrt.engines()))
            except (openxrt.Error, OSError) as error:
                found.add("Too many open files" in str(error))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        print(found == {True, tuple(openxrt.engines())})
    """
    assert run(code, model) == "True"
