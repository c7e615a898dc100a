# SPDX-License-Identifier: Apache-2.0
"""Schedules for the CPU that need no tuning.

TVM leaves what is not tuned as plain loops on one thread. Here products and convolutions compute a
tile of accumulators in vector registers, and every larger stage runs on all threads. Schedule
primitives keep the meaning of a program: they refuse what would change it.
"""

from __future__ import annotations

from math import prod
from typing import Any

VECTOR_BYTES = 64
# Accumulators of a tile: they and two operands fit the vector registers.
LARGEST_TILE = 14
# A stage with fewer elements is done before other threads have woken.
SMALLEST_PARALLEL_STAGE = 16384
# Fewer uses of a packed weight do not pay for packing it.
SMALLEST_PACKED_REUSE = 8
# TVM's mark of a stage that changes the layout of a weight.
PACKING = "meta_schedule.layout_rewrite_preproc"


def _extents(sch: Any, block: Any) -> list[int]:
    """Extents of a block's own iteration variables; none where one is not constant."""
    extents = [getattr(axis.dom.extent, "value", None) for axis in sch.get(block).iter_vars]
    return [] if any(extent is None for extent in extents) else [int(e) for e in extents]


def _kinds(sch: Any, block: Any) -> str:
    """S (spatial), R (reduction) or O (other), for each iteration variable."""
    names = {0: "S", 2: "R"}
    return "".join(names.get(int(axis.iter_type), "O") for axis in sch.get(block).iter_vars)


def _blocks(sch: Any) -> list[Any]:
    return sch.get_child_blocks(sch.get_sblock("root"))


def _lanes_last(dimension: int, width: int) -> Any:
    """The layout with a dimension cut in vectors, and these innermost."""
    return lambda *i: [
        *i[:dimension],
        i[dimension] // width,
        *i[dimension + 1 :],
        i[dimension] % width,
    ]


def _axes_of(tvm: Any, region: Any, axes: list[Any]) -> dict[int, list[int]]:
    """{iteration variable: dimensions of the region whose start it appears in}."""
    found: dict[int, list[int]] = {}
    for dimension, part in enumerate(region.region):
        used = tvm.tirx.analysis.undefined_vars(part.min)
        for i, axis in enumerate(axes):
            if any(axis.var.same_as(variable) for variable in used):
                found.setdefault(i, []).append(dimension)
    return found


def _largest_divisor(extent: int, limit: int) -> int:
    return next(d for d in range(min(extent, limit), 0, -1) if extent % d == 0)


def _inline(tvm: Any, sch: Any) -> Any:
    """Element-wise stages become part of the element-wise stage that reads them."""
    for block in _blocks(sch):
        consumers = sch.get_consumers(block)
        if set(_kinds(sch, block)) - {"S"} or len(consumers) != 1:
            continue
        is_copy = type(sch.get(block).body.value).__name__ == "TensorLoad"
        if "R" in _kinds(sch, consumers[0]) and not is_copy:
            continue
        before = sch.copy()
        name = sch.get(block).name_hint
        try:
            sch.compute_inline(sch.get_sblock(name))
        except tvm.s_tir.schedule.ScheduleError:
            sch = before
    return sch


def _schedule_product(tvm: Any, sch: Any, name: str) -> Any:
    """A convolution or matrix product; None where the stage is neither."""
    block = sch.get_sblock(name)
    stage = sch.get(block)
    kinds, extents, axes = _kinds(sch, block), _extents(sch, block), list(stage.iter_vars)
    if "O" in kinds or "R" not in kinds or not extents or len(stage.reads) != 2:
        return None
    loops = sch.get_loops(block)
    dtype = stage.writes[0].source.dtype
    if len(loops) != len(axes) or str(dtype) not in ("float32", "float64"):
        return None
    data = _axes_of(tvm, stage.reads[0], axes)
    weights = _axes_of(tvm, stage.reads[1], axes)
    written = _axes_of(tvm, stage.writes[0], axes)
    spatial = [i for i, kind in enumerate(kinds) if kind == "S"]
    lanes = [
        i
        for i in spatial
        if i in weights and i not in data and len(weights[i]) == len(written.get(i, [])) == 1
    ]
    rows = [i for i in spatial if i in data and i not in weights]
    if not lanes:
        return None
    lane = max(lanes, key=lambda i: extents[i])
    width = _largest_divisor(extents[lane], VECTOR_BYTES // (4 if str(dtype) == "float32" else 8))
    if width < 4:
        return None
    dimension = weights[lane][0]
    rank = len(stage.reads[1].region)
    if dimension != rank - 1:
        if prod(extents[i] for i in rows) < SMALLEST_PACKED_REUSE:
            return None
        packed = sch.cache_read(block, 1, "global")
        sch.transform_layout(packed, ("write", 0), _lanes_last(dimension, width))
        sch.annotate(packed, PACKING, True)
        block = sch.get_sblock(name)
        loops = sch.get_loops(block)
    row = rows[-1] if rows else None
    outer, vector = sch.split(loops[lane], [None, width])
    before = [outer if i == lane else loops[i] for i in spatial if i != row]
    reduction = [loops[i] for i, kind in enumerate(kinds) if kind == "R"]
    tile = []
    inner = before[-1]
    if row is not None:
        rest, within = sch.split(loops[row], [None, _largest_divisor(extents[row], LARGEST_TILE)])
        tile = [within]
        inner = rest
    sch.reorder(*before, *([inner] if row is not None else []), *reduction, *tile, vector)
    consumers = sch.get_consumers(block)
    if len(consumers) == 1 and "R" not in _kinds(sch, consumers[0]):
        sch.set_scope(block, 0, "local")
        last = consumers[0]
    elif consumers:
        return None
    else:
        last = sch.cache_write(block, 0, "local")
    sch.transform_layout(block, ("write", 0), _lanes_last(written[lane][0], width))
    sch.reverse_compute_at(last, inner)
    if row is not None:
        sch.parallel(sch.fuse(*before))
    elif len(before) > 1:
        sch.parallel(sch.fuse(*before[:-1]))
    else:
        sch.parallel(inner)
    sch.vectorize(vector)
    for loop in tile:
        sch.unroll(loop)
    start = sch.decompose_reduction(block, reduction[0])
    for loop in sch.get_loops(start)[-len(tile) - 1 : -1] if tile else []:
        sch.unroll(loop)
    sch.vectorize(sch.get_loops(start)[-1])
    return sch


def _schedule_stage(sch: Any, name: str) -> Any:
    """Outer loops on all threads; None where that is not worth it."""
    block = sch.get_sblock(name)
    kinds, extents = _kinds(sch, block), _extents(sch, block)
    if "O" in kinds or not extents or prod(extents) < SMALLEST_PARALLEL_STAGE:
        return None
    loops = sch.get_loops(block)
    spatial = len(kinds) - len(kinds.lstrip("S"))
    if len(loops) != len(kinds) or spatial == 0:
        return None
    # The innermost loop stays a loop, for LLVM to make vectors of.
    outer = loops[: spatial - 1 if spatial == len(kinds) and spatial > 1 else spatial]
    sch.parallel(sch.fuse(*outer) if len(outer) > 1 else outer[0])
    return sch


def schedule_function(tvm: Any, function: Any) -> Any:
    """The function with a schedule; stages that a primitive refuses stay as they are."""
    sch = _inline(tvm, tvm.s_tir.Schedule(function))
    names = [sch.get(block).name_hint for block in _blocks(sch)]
    fused: set[str] = set()
    for rule in (lambda s, n: _schedule_product(tvm, s, n), _schedule_stage):
        for name in names:
            if name in fused:
                continue
            trial = sch.copy()
            near = {name} | {
                trial.get(b).name_hint for b in trial.get_consumers(trial.get_sblock(name))
            }
            try:
                result = rule(trial, name)
            except tvm.s_tir.schedule.ScheduleError:
                continue
            if result is not None:
                sch = result
                fused |= near if rule is not _schedule_stage else {name}
    return sch.mod["main"].with_attr("tirx.is_scheduled", True)


def apply_schedules(tvm: Any, module: Any) -> Any:
    """Schedules every function of the module that has none."""
    packing, others = {}, {}
    for variable, function in module.functions_items():
        if not isinstance(function, tvm.tirx.PrimFunc):
            continue
        others[variable] = function
        if function.attrs is not None and function.attrs.get("tirx.is_scheduled", 0):
            continue
        try:
            scheduled = schedule_function(tvm, function)
        except tvm.s_tir.schedule.ScheduleError:
            continue  # no program of stages, such as one call of a sorting routine
        if PACKING in scheduled.script():
            packing[variable] = scheduled
            del others[variable]
        else:
            others[variable] = scheduled
    # What packs weights becomes a function of its own, and of constants it is computed here. The
    # pass fails on functions that are no program of stages: it is shown the others only.
    for variable in others:
        del module[variable]
    for variable, function in packing.items():
        module[variable] = function
    module = tvm.relax.transform.SplitLayoutRewritePreproc()(module)
    for variable, function in others.items():
        module[variable] = function
    return tvm.relax.transform.FoldConstant()(module)
