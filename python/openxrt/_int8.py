# SPDX-License-Identifier: Apache-2.0
"""What use_int8 and int8_calibration of the XRTModules of PyTorch and OneFlow mean.

A module is quantised when it is evaluated first: samples are run in floating point for the ranges
of the values (src/quantize), then the graph gets QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ContextDecorator
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np

from ._core import (
    CalibrationTable,
    Graph,
    InvalidArgument,
    NotFound,
    calibrate_graph,
    quantize_graph,
)

# Which part of what a value was seen to hold gets the steps.
Clipping: TypeAlias = Literal["minmax", "moving_average", "percentile", "entropy", "mse"]
# What one call of a module is given: positional arguments, and those by name.
Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

# Where ptq_calibration_mode(folder) writes, and what a folder of ranges is told by.
TABLE = "calibration.table"


def int8_options(
    clipping: str = "auto",
    percentile: float = 99.99,
    keep_float: Sequence[str] = (),
    round_sums: bool = False,
    engine: str | Sequence[str] | None = None,
    device: str = "cpu",
    activations: str = "auto",
    ops: Sequence[str] = (),
    smooth: float = 0.5,
    equalize: bool = False,
    correct_bias: bool = True,
) -> dict[str, object]:
    """What _core.quantize_model() and quantize_by_table() call `how`."""
    return {
        "clipping": clipping,
        "percentile": percentile,
        "keep_float": set(keep_float),
        "round_sums": round_sums,
        "program": {} if engine is None else {"engine": engine, "device": device},
        "activations": activations,
        "rules": list(ops),
        "smooth": smooth,
        "equalize": equalize,
        "correct_bias": correct_bias,
        "decibels": 0.0,
        "rank": False,
    }


class Calibration:
    """What int8 gets its ranges from, and how.

    Args:
        source: one of

            - samples: an iterable of what the module is called with; a tuple or list has one entry
              per positional argument, a mapping names arguments, anything else is the only
              argument. It is read when the module is evaluated first, and again when its weights
              have changed;
            - a function: called with the module, it calls that as often as it likes;
            - a number n: the first n calls are the samples, and run in floating point;
            - a folder of samples: NAME.npz with arrays named as the arguments, NAME.npy for a
              module of one argument, in order of name;
            - a CalibrationTable, its file, or the folder that ptq_calibration_mode() wrote it to;
            - None: calls within ptq_calibration_mode() are the samples.
        clipping, percentile, average_factor: as in openxrt.quantize.calibrate().
        keep_float: names of nodes that stay in floating point.
        round_sums: what a residual is added to is quantised, too: for the engine onnxruntime.
        activations: "asymmetric", "symmetric" or "auto": as the module's engines take them.
    """

    def __init__(
        self,
        source: object,
        *,
        clipping: Clipping = "minmax",
        percentile: float = 99.99,
        average_factor: float = 0.01,
        keep_float: Sequence[str] = (),
        round_sums: bool = False,
        activations: str = "auto",
    ) -> None:
        is_number = isinstance(source, int) and not isinstance(source, bool)
        is_table = isinstance(source, CalibrationTable)
        known = source is None or is_number or is_table or callable(source)
        if not known and not isinstance(source, str | PathLike | Iterable):
            raise InvalidArgument(
                f"int8_calibration is a {type(source).__name__}: samples, a function, a number of "
                "calls, or the path of samples or of a table are wanted"
            )
        if is_number and source < 1:  # type: ignore[operator]
            raise InvalidArgument(f"int8_calibration={source}: at least one call is needed")
        if clipping not in get_args(Clipping):
            raise InvalidArgument(
                f"clipping '{clipping}': there are {', '.join(get_args(Clipping))}"
            )
        if hasattr(source, "shape") and hasattr(source, "dtype"):
            source = [source]  # an array is one sample, not several along its first dimension
        # What can be read but once is kept.
        self.source = list(source) if hasattr(source, "__next__") else source  # type: ignore[call-overload]
        self.first_calls: int = source if is_number else 0  # type: ignore[assignment]
        self.clipping = clipping
        self.percentile = percentile
        self.average_factor = average_factor
        self.keep_float = tuple(keep_float)
        self.round_sums = round_sums
        if activations not in ("auto", "asymmetric", "symmetric", "uint8", "int8"):
            raise InvalidArgument(
                f"activations '{activations}': there are auto, asymmetric (uint8) and symmetric "
                "(int8)"
            )
        self.activations = activations

    def table(self) -> CalibrationTable | None:
        """The ranges, where the source is a table."""
        if isinstance(self.source, CalibrationTable):
            return self.source
        if not isinstance(self.source, str | PathLike):
            return None
        path = Path(fspath(self.source))
        if path.is_dir():
            path = path / TABLE
            if not path.is_file():
                return None
        if not path.exists():
            raise NotFound(f"int8_calibration: there is no '{path}'")
        return CalibrationTable.load(path)


def calibration_of(use_int8: bool, int8_calibration: object) -> Calibration | None:
    """None without use_int8.

    Raises InvalidArgument where the arguments contradict each other or one has no meaning.
    """
    if not use_int8:
        if int8_calibration is not None:
            raise InvalidArgument("int8_calibration without use_int8")
        return None
    if isinstance(int8_calibration, Calibration):
        return int8_calibration
    return Calibration(int8_calibration)


class Owner(Protocol):
    """A module, as its quantiser sees it."""

    options: Mapping[str, Any]  # arguments of openxrt.load()

    def recompile(self) -> None:
        """Forgets the programs made so far."""

    def int8_ranges(self, calls: list[Call]) -> CalibrationTable:
        """Of the values of the module's graph, by samples."""


class Quantiser:
    """The int8 of one module.

    Args:
        calibration: where ranges come from.
        owner: the module.
        to_tensor: makes a tensor of the framework, with memory of its own.
    """

    def __init__(
        self, calibration: Calibration, owner: Owner, to_tensor: Callable[[Any], Any]
    ) -> None:
        self.calibration = calibration
        self._owner = owner
        self._to_tensor = to_tensor
        self._calls: list[Call] = []  # samples that were calls of the module
        self._recording = False

    def takes_call(self) -> bool:
        """Whether the call at hand is a sample, and runs in floating point."""
        active = ptq_calibration_mode.active()
        if active is not None:
            if self not in active.quantisers:
                active.quantisers.append(self)
                self._calls = []
            return True
        return self._recording or len(self._calls) < self.calibration.first_calls

    def take_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keeps copies of the arguments as a sample."""
        self._calls.append(self._copied((args, kwargs)))

    def _copied(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(self._copied(v) for v in value)
        if isinstance(value, dict):
            return {key: self._copied(v) for key, v in value.items()}
        return self._to_tensor(value)

    def ranges(self) -> CalibrationTable:
        """Of a table, or by samples."""
        table = self.calibration.table()
        return self._owner.int8_ranges(self.calls()) if table is None else table

    def calls(self) -> list[Call]:
        """The samples. Raises InvalidArgument or NotFound where there are none."""
        source = self.calibration.source
        calls = self._calls
        if callable(source) and not isinstance(source, Iterable):
            self._calls, self._recording = [], True
            try:
                source(self._owner)
                calls = self._calls
            finally:
                self._recording, self._calls = False, []
        elif not calls and isinstance(source, str | PathLike):
            calls = [self._copied(call) for call in _samples_in(Path(fspath(source)))]
        elif not calls and isinstance(source, Iterable):
            calls = [self._copied(_call_of(sample)) for sample in source]
        if not calls:
            raise InvalidArgument(
                "use_int8 needs calibration: int8_calibration= samples, a function, a number of "
                "calls, or the path of samples or of a table; or calls of the module in evaluation "
                "mode within ptq_calibration_mode()"
                if source is None
                else "int8_calibration gave no sample"
            )
        return calls

    def calibrate(
        self, graph: Graph, samples: list[list[Any]], cache_dir: str | PathLike[str] | None
    ) -> CalibrationTable:
        """Ranges of the values of a simplified graph; one array per input in each sample."""
        how = self.calibration
        return calibrate_graph(
            graph,
            samples,
            clipping=how.clipping,
            percentile=how.percentile,
            average_factor=how.average_factor,
            keep_float=set(how.keep_float),
            round_sums=how.round_sums,
            cache_dir=None if cache_dir is None else fspath(cache_dir),
        )

    def quantised(self, graph: Graph, table: CalibrationTable) -> Graph:
        """The simplified graph in int8."""
        how = self.calibration
        given = self._owner.options
        made, sums, kept = quantize_graph(
            graph,
            table,
            keep_float=set(how.keep_float),
            round_sums=how.round_sums,
            activations=how.activations,
            program={name: given[name] for name in ("engine", "device") if name in given},
        )
        if sums == 0:
            raise InvalidArgument(
                f"use_int8: none of the module's {kept} convolutions and products by constant "
                "float32 weights can be quantised"
            )
        return made

    def end_mode(self, path: Path | None) -> None:
        """The module's calls within ptq_calibration_mode() are its samples from now on."""
        self._owner.recompile()
        if path is None or not self._calls:
            return
        path.mkdir(parents=True, exist_ok=True)
        self._owner.int8_ranges(self.calls()).save(path / TABLE)


class ptq_calibration_mode(ContextDecorator):  # noqa: N801 (OneFlow-XRT's name)
    """Within it (`with`, or as a decorator) modules with use_int8 run in floating point, and their
    calls in evaluation mode become their samples.

    Args:
        path: a folder for the ranges, which int8_calibration=path reads in another process. The
            ranges are those of one module.
    """

    _active: ptq_calibration_mode | None = None

    def __init__(self, path: str | PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(fspath(path))
        self.quantisers: list[Quantiser] = []

    @classmethod
    def active(cls) -> ptq_calibration_mode | None:
        """The one that the program is in."""
        return cls._active

    def __enter__(self) -> ptq_calibration_mode:
        """Begins to take samples."""
        if ptq_calibration_mode._active is not None:
            raise InvalidArgument("ptq_calibration_mode within another one")
        self.quantisers = []
        ptq_calibration_mode._active = self
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Ends it; writes the ranges, unless it ended with an exception."""
        ptq_calibration_mode._active = None
        if kind is None and self.path is not None and len(self.quantisers) != 1:
            raise InvalidArgument(
                f"ptq_calibration_mode('{self.path}'): {len(self.quantisers)} modules with "
                "use_int8 ran in evaluation mode; a folder holds the ranges of one"
            )
        for quantiser in self.quantisers:
            quantiser.end_mode(self.path if kind is None else None)


def _call_of(sample: object) -> Call:
    if isinstance(sample, Mapping):
        return (), {str(name): value for name, value in sample.items()}
    if isinstance(sample, tuple | list):
        return tuple(sample), {}
    return (sample,), {}


def _samples_in(folder: Path) -> Iterable[Call]:
    files = sorted(p for p in folder.iterdir() if p.suffix in (".npy", ".npz"))
    if not files:
        raise NotFound(
            f"int8_calibration: '{folder}' holds no {TABLE} of ptq_calibration_mode(), and no "
            "samples (.npy or .npz)"
        )
    for file in files:
        try:
            content = np.load(file, allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise InvalidArgument(f"int8_calibration: '{file}': {error}") from error
        if isinstance(content, np.ndarray):
            yield (content,), {}
        else:
            with content:
                yield (), {name: content[name] for name in content.files}
