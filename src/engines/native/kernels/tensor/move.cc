// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements at regular distances: Transpose, Slice, Split, Concat, Expand, Tile,
// DepthToSpace, SpaceToDepth, Pad, Trilu, ReverseSequence.
#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/common/text.h"
#include "engines/native/kernels/register.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

Created create_transpose(const KernelCreateContext& create) {
  const std::vector<std::int64_t> given = create.node().attr_ints("perm");
  const bool has_perm = create.node().has("perm");
  return make_kernel([given, has_perm](KernelContext& k) {
    const Tensor& x = k.input(0);
    std::vector<std::size_t> perm(x.rank());
    if (has_perm) {
      perm = normalize_axes(given, x.rank());
      if (perm.size() != x.rank()) fail("'perm' does not name each axis once");
    } else {
      std::iota(perm.rbegin(), perm.rend(), std::size_t{0});
    }
    const Dims strides = dense_strides(x.dims());
    StridedView view;
    for (const std::size_t axis : perm) {
      view.dims.push_back(x.dims()[axis]);
      view.strides.push_back(strides[axis]);
    }
    Tensor& y = k.output(0, x.dtype(), view.dims);
    if (is_packed(x.dtype())) {
      const Tensor bytes = unpack_elements(x);
      Tensor moved = Tensor::allocate(DType::kUInt8, view.dims);
      copy_view(k, bytes.raw(), view, DType::kUInt8, moved.raw());
      pack_elements(moved, y);
    } else {
      copy_view(k, x.raw(), view, x.dtype(), y.raw());
    }
  });
}

// Clamped as the standard has it; for NumPy a slice backwards from before the first is empty, here
// it begins at the first.
struct Range {
  std::int64_t start, step, count;
};
Range slice_range(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t size) {
  if (step == 0) fail("a step is 0");
  if (step == INT64_MIN) step = -INT64_MAX;
  const auto resolve = [&](std::int64_t i) {
    if (i < 0) i += size;  // cannot overflow: size >= 0
    return step > 0 ? std::clamp<std::int64_t>(i, 0, size)
                    : std::clamp<std::int64_t>(i, -1, size - 1);
  };
  start = step > 0 ? resolve(start) : std::min(std::max<std::int64_t>(resolve(start), 0), size - 1);
  // An end below -size means "before the first", also after adding size.
  end = step < 0 && end < -size ? -1 : resolve(end);
  const std::int64_t span = step > 0 ? end - start : start - end;
  const std::int64_t width = step > 0 ? step : -step;
  return {start, step, span <= 0 ? 0 : (span - 1) / width + 1};
}

void run_slice(KernelContext& k) {
  const Tensor& x = k.input(0);
  const std::vector<std::int64_t> starts = ints_input(k, 1);
  const std::vector<std::int64_t> ends = ints_input(k, 2);
  std::vector<std::int64_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  if (k.has_input(3)) axes = ints_input(k, 3);
  std::vector<std::int64_t> steps(starts.size(), 1);
  if (k.has_input(4)) steps = ints_input(k, 4);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    fail("starts, ends, axes and steps differ in length");
  }
  StridedView view{x.dims(), dense_strides(x.dims()), 0};
  const auto where = normalize_axes(axes, x.rank());
  for (std::size_t i = 0; i < where.size(); ++i) {
    const std::size_t axis = where[i];
    const Range range = slice_range(starts[i], ends[i], steps[i], x.dims()[axis]);
    view.dims[axis] = range.count;
    if (range.count > 0) view.offset += range.start * view.strides[axis];
    view.strides[axis] *= range.count > 1 ? range.step : 1;
  }
  Tensor& y = k.output(0, x.dtype(), view.dims);
  copy_view(k, x.raw(), view, x.dtype(), y.raw());
}

Created create_split(const KernelCreateContext& create) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  const auto outputs = static_cast<std::int64_t>(create.output_count());
  if (outputs < 1) fail("there is no output");
  // Trailing parts may be no outputs.
  const std::int64_t count = std::max(create.node().attr_int("num_outputs", outputs), outputs);
  return make_kernel([given_axis, outputs, count](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::size_t axis = normalize_axis(given_axis, x.rank());
    const std::int64_t size = x.dims()[axis];
    std::vector<std::int64_t> parts;
    if (k.has_input(1)) {
      parts = ints_input(k, 1);
      std::int64_t sum = 0;
      for (const std::int64_t part : parts) {
        if (part < 0 || part > size) fail("a part has size " + std::to_string(part));
        sum += part;
      }
      if (sum != size || static_cast<std::int64_t>(parts.size()) != outputs) {
        fail("the parts do not make up axis " + std::to_string(axis) + " of " +
             shape_text(x.dims()));
      }
    } else {
      // Equal parts, the last one smaller.
      const std::int64_t part = (size + count - 1) / count;
      if (part * (count - 1) > size) {
        fail("an axis of " + std::to_string(size) + " has no " + std::to_string(count) +
             " equal parts of which the last may be smaller");
      }
      for (std::int64_t i = 0; i < outputs; ++i) parts.push_back(std::min(part, size - i * part));
    }
    const std::int64_t outer = product(x.dims(), 0, axis);
    const std::int64_t inner = product(x.dims(), axis + 1, x.rank());
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < outputs; ++i) {
      Dims dims = x.dims();
      dims[axis] = parts[i];
      if (k.wants_output(i)) {
        Tensor& y = k.output(i, x.dtype(), dims);
        for (std::int64_t row = 0; y.count() > 0 && row < outer; ++row) {
          copy_elements(x.dtype(), x.raw(), (row * size + at) * inner, y.raw(),
                        row * parts[i] * inner, parts[i] * inner);
        }
      }
      at += parts[i];
    }
  });
}

Created create_concat(const KernelCreateContext& create) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  return make_kernel([given_axis](KernelContext& k) {
    const Tensor& first = k.input(0);
    const std::size_t axis = normalize_axis(given_axis, first.rank());
    Dims dims = first.dims();
    for (std::size_t i = 1; i < k.input_count(); ++i) {
      const Tensor& x = k.input(i);
      Dims other = x.dims();
      if (x.dtype() != first.dtype()) fail("the inputs have different element types");
      if (other.size() == dims.size()) other[axis] = dims[axis];
      if (other != dims) {
        fail("cannot join " + shape_text(first.dims()) + " and " + shape_text(x.dims()) +
             " along axis " + std::to_string(axis));
      }
      dims[axis] += x.dims()[axis];
    }
    Tensor& y = k.output(0, first.dtype(), dims);
    const std::int64_t outer = product(dims, 0, axis);
    const std::int64_t inner = product(dims, axis + 1, dims.size());
    std::int64_t at = 0;
    for (std::size_t i = 0; i < k.input_count(); ++i) {
      const Tensor& x = k.input(i);
      const std::int64_t length = x.dims()[axis] * inner;
      if (length == 0) continue;
      const std::int64_t grain =
          std::max<std::int64_t>(65536 / std::max<std::int64_t>(length, 1), 1);
      k.parallel_for(outer, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          copy_elements(x.dtype(), x.raw(), row * length, y.raw(), row * dims[axis] * inner + at,
                        length);
        }
      });
      at += length;
    }
  });
}

void run_expand(KernelContext& k) {
  const Tensor& x = k.input(0);
  const Dims wanted = ints_input(k, 1);
  for (const std::int64_t d : wanted) {
    if (d < 0) fail("the shape " + shape_text(wanted) + " has a negative dimension");
  }
  const Dims dims = broadcast_dims(x.dims(), wanted);
  Tensor& y = k.output(0, x.dtype(), dims);
  copy_view(k, x.raw(), {dims, broadcast_strides(x.dims(), dims), 0}, x.dtype(), y.raw());
}

void run_tile(KernelContext& k) {
  const Tensor& x = k.input(0);
  const std::vector<std::int64_t> repeats = ints_input(k, 1);
  if (repeats.size() != x.rank()) fail("'repeats' has not one entry per axis");
  // Each axis becomes two: the repeat, with stride 0, and the axis itself.
  const Dims strides = dense_strides(x.dims());
  Dims dims;
  StridedView view;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    std::int64_t size = 0;
    if (repeats[i] < 0) fail("a repeat is negative");
    if (__builtin_mul_overflow(repeats[i], x.dims()[i], &size)) {
      throw Error(ErrorCode::kResource, "the result is too large");
    }
    dims.push_back(size);
    view.dims.insert(view.dims.end(), {repeats[i], x.dims()[i]});
    view.strides.insert(view.strides.end(), {0, strides[i]});
  }
  Tensor& y = k.output(0, x.dtype(), dims);
  copy_view(k, x.raw(), view, x.dtype(), y.raw());
}

// The edge of a block; its square is multiplied, so that it is bounded.
std::int64_t block_size(const Node& node) {
  const std::int64_t block = need_int(node, "blocksize");
  if (block < 1 || block > (1 << 20)) fail("'blocksize' is " + std::to_string(block));
  return block;
}

Created create_depth_to_space(const KernelCreateContext& create) {
  const std::int64_t block = block_size(create.node());
  const bool crd = need_string(create.node(), "mode") == "CRD";
  return make_kernel([block, crd](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() != 4) fail("the input is not of rank 4");
    const Dims& d = x.dims();
    if (d[1] % (block * block) != 0) fail("the channels do not divide by the block");
    const std::int64_t channels = d[1] / (block * block);
    const std::int64_t plane = d[2] * d[3];
    Tensor& y = k.output(0, x.dtype(), {d[0], channels, d[2] * block, d[3] * block});
    const std::int64_t channel_stride = crd ? block * block * plane : plane;
    const std::int64_t unit = crd ? plane : channels * plane;
    const StridedView view{{d[0], channels, d[2], block, d[3], block},
                           {d[1] * plane, channel_stride, d[3], block * unit, 1, unit},
                           0};
    copy_view(k, x.raw(), view, x.dtype(), y.raw());
  });
}

Created create_space_to_depth(const KernelCreateContext& create) {
  const std::int64_t block = block_size(create.node());
  const bool crd = need_string(create.node(), "mode") == "CRD";
  return make_kernel([block, crd](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() != 4) fail("the input is not of rank 4");
    const Dims& d = x.dims();
    if (d[2] % block != 0 || d[3] % block != 0) {
      fail("height or width do not divide by the block");
    }
    const std::int64_t h = d[2] / block;
    const std::int64_t w = d[3] / block;
    Tensor& y = k.output(0, x.dtype(), {d[0], d[1] * block * block, h, w});
    StridedView view{{d[0], block, block, d[1], h, w},
                     {d[1] * d[2] * d[3], d[3], 1, d[2] * d[3], block * d[3], block},
                     0};
    if (crd) {
      view.dims = {d[0], d[1], block, block, h, w};
      view.strides = {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1, block * d[3], block};
    }
    copy_view(k, x.raw(), view, x.dtype(), y.raw());
  });
}

enum class PadMode : std::uint8_t { kConstant, kReflect, kEdge, kWrap };

// One axis of a Pad. What negative pads cut off is gone before anything is repeated, as ONNX
// Runtime has it: `left` elements from `cut` on are there, behind `before` that are made.
struct PadAxis {
  PadAxis(std::int64_t size, std::int64_t before_size, std::int64_t after_size, PadMode pad_mode)
      : mode(pad_mode) {
    constexpr std::int64_t kHuge = std::int64_t{1} << 48;  // pads that are less do not overflow
    const auto is_huge = [](std::int64_t pad) { return pad > kHuge || pad < -kHuge; };
    if (is_huge(before_size) || is_huge(after_size) || size + before_size + after_size < 0) {
      fail("the padded size is negative or too large");
    }
    total = size + before_size + after_size;
    before = std::max<std::int64_t>(before_size, 0);
    cut = std::max<std::int64_t>(-before_size, 0);
    left = size - cut - std::max<std::int64_t>(-after_size, 0);
    if (mode != PadMode::kConstant && left <= 0 && total > 0) {
      fail("an empty axis cannot be padded");
    }
    for (std::int64_t i = 0; is_short() && i < total; ++i) {
      sources_[static_cast<std::size_t>(i)] = find(i);
    }
  }

  // Those targets that are copied: from the first up to and without the second.
  std::int64_t begin() const { return std::min(before, total); }
  std::int64_t end() const {
    return std::clamp(before + std::max<std::int64_t>(left, 0), begin(), total);
  }

  // The source index of a target; -1: the fill value.
  std::int64_t source(std::int64_t target) const {
    return is_short() ? sources_[static_cast<std::size_t>(target)] : find(target);
  }
  bool is_short() const { return total <= kShort; }

  PadMode mode;
  std::int64_t before = 0, cut = 0, left = 0, total = 0;

 private:
  static constexpr std::int64_t kShort = 32;

  std::int64_t find(std::int64_t target) const {
    std::int64_t s = target - before;
    if (s >= 0 && s < left) return s + cut;
    switch (mode) {
      case PadMode::kConstant:
        return -1;
      case PadMode::kEdge:
        s = std::clamp<std::int64_t>(s, 0, left - 1);
        break;
      case PadMode::kWrap:
        s = (s % left + left) % left;
        break;
      case PadMode::kReflect: {
        if (left == 1) {
          s = 0;
          break;
        }
        const std::int64_t period = 2 * (left - 1);
        s = (s % period + period) % period;
        if (s >= left) s = period - s;
        break;
      }
    }
    return s + cut;
  }

  std::array<std::int64_t, kShort> sources_ = {};  // of a short axis, which is often asked
};

template <typename T>
struct Padding {
  std::span<const PadAxis> axes;
  Dims in_strides, out_strides;
  T fill;
  TimeCheck time;

  void run(const T* source, std::size_t axis, T* target) {
    const PadAxis& a = axes[axis];
    const std::int64_t step = out_strides[axis];
    if (axis + 1 < axes.size()) {
      for (std::int64_t i = 0; i < a.total; ++i) {
        const std::int64_t s = a.source(i);
        if (s < 0) {
          time.spend(step);
          fill_elements(target + i * step, step, fill);
        } else {
          run(source + s * in_strides[axis], axis + 1, target + i * step);
        }
      }
      return;
    }
    time.spend(a.total);
    if (a.is_short()) {
      for (std::int64_t i = 0; i < a.total; ++i) {
        const std::int64_t s = a.source(i);
        assign_element(target[i], s < 0 ? fill : source[s]);
      }
      return;
    }
    outside(a, source, 0, a.begin(), target);
    if (a.end() > a.begin()) {
      assign_elements(source + a.source(a.begin()), a.end() - a.begin(), target + a.begin());
    }
    outside(a, source, a.end(), a.total, target);
  }

 private:
  void outside(const PadAxis& a, const T* source, std::int64_t begin, std::int64_t end, T* target) {
    if (a.mode == PadMode::kConstant) {
      fill_elements(target + begin, end - begin, fill);
    } else {
      for (std::int64_t i = begin; i < end; ++i) assign_element(target[i], source[a.source(i)]);
    }
  }
};

void pad_tensor(const Tensor& x, const std::vector<PadAxis>& axes, const Tensor* fill, Tensor& y) {
  if (y.count() == 0) return;
  dispatch_move(x.dtype(), [&]<typename T>() {
    if (axes.empty()) {
      assign_element(*y.data<T>(), x.data<T>()[0]);
      return;
    }
    Padding<T> padding{axes,
                       dense_strides(x.dims()),
                       dense_strides(y.dims()),
                       fill != nullptr ? fill->data<T>()[0] : T{},
                       {}};
    padding.run(x.data<T>(), 0, y.data<T>());
  });
}

Created create_pad(const KernelCreateContext& create) {
  const std::string name = need_string(create.node(), "mode");
  PadMode mode = PadMode::kConstant;
  if (name == "reflect")
    mode = PadMode::kReflect;
  else if (name == "edge")
    mode = PadMode::kEdge;
  else if (name == "wrap")
    mode = PadMode::kWrap;
  else if (name != "constant")
    fail("mode '" + name + "' is not known");
  return make_kernel([mode](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::vector<std::int64_t> pads = ints_input(k, 1);
    const Tensor* fill = k.optional_input(2);
    if (fill != nullptr && (fill->count() != 1 || fill->dtype() != x.dtype())) {
      fail("the fill value is not one element of the input's type");
    }
    std::vector<std::size_t> axes(x.rank());
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    if (k.has_input(3)) axes = normalize_axes(ints_input(k, 3), x.rank());
    if (pads.size() != 2 * axes.size()) fail("'pads' has not two entries per axis");
    std::vector<PadAxis> plan;
    Dims dims = x.dims();
    for (std::size_t a = 0; a < x.rank(); ++a) {
      const auto found = std::find(axes.begin(), axes.end(), a);
      const auto i = static_cast<std::size_t>(found - axes.begin());
      const bool padded = found != axes.end();
      plan.emplace_back(dims[a], padded ? pads[i] : 0, padded ? pads[i + axes.size()] : 0, mode);
      dims[a] = plan.back().total;
    }
    Tensor& y = k.output(0, x.dtype(), dims);
    if (is_packed(x.dtype())) {
      Tensor bytes = Tensor::allocate(DType::kUInt8, dims);
      const Tensor fill_byte = fill != nullptr ? unpack_elements(*fill) : Tensor();
      pad_tensor(unpack_elements(x), plan, fill != nullptr ? &fill_byte : nullptr, bytes);
      pack_elements(bytes, y);
    } else {
      pad_tensor(x, plan, fill, y);
    }
  });
}

Created create_trilu(const KernelCreateContext& create) {
  const bool upper = need_int(create.node(), "upper") != 0;
  return make_kernel([upper](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() < 2) fail("the input is not of rank 2 or more");
    if (k.has_input(1) && k.input(1).count() != 1) fail("the diagonal is no single number");
    const std::int64_t diagonal = k.has_input(1) ? ints_input(k, 1)[0] : 0;
    const std::int64_t rows = x.dims()[x.rank() - 2];
    const std::int64_t columns = x.dims()[x.rank() - 1];
    const std::int64_t shift = std::clamp<std::int64_t>(diagonal, -rows - 1, columns + 1);
    Tensor& y = k.output(0, x.dtype(), x.dims());
    if (y.count() == 0) return;
    const std::int64_t count = product(x.dims(), 0, x.rank() - 2) * rows;
    TimeCheck time;
    dispatch_move(x.dtype(), [&]<typename T>() {
      const T* in = x.data<T>();
      T* out = y.data<T>();
      for (std::int64_t row = 0; row < count; ++row) {
        time.spend(columns);
        const std::int64_t border =
            std::clamp<std::int64_t>(row % rows + shift + (upper ? 0 : 1), 0, columns);
        const T* from = in + row * columns;
        T* to = out + row * columns;
        if (upper) {
          fill_elements(to, border, T{});
          assign_elements(from + border, columns - border, to + border);
        } else {
          assign_elements(from, border, to);
          fill_elements(to + border, columns - border, T{});
        }
      }
    });
  });
}

Created create_reverse_sequence(const KernelCreateContext& create) {
  const std::int64_t time_axis = need_int(create.node(), "time_axis");
  const std::int64_t batch_axis = need_int(create.node(), "batch_axis");
  return make_kernel([time_axis, batch_axis](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() < 2 || time_axis + batch_axis != 1) fail("the axes are not 0 and 1");
    const std::vector<std::int64_t> lengths = ints_input(k, 1);
    const Dims& d = x.dims();
    const std::int64_t times = d[time_axis];
    const std::int64_t batches = d[batch_axis];
    if (static_cast<std::int64_t>(lengths.size()) != batches)
      fail("one length per batch is needed");
    const std::int64_t inner = product(d, 2, d.size());
    const std::int64_t time_stride = time_axis == 0 ? batches * inner : inner;
    const std::int64_t batch_stride = time_axis == 0 ? inner : times * inner;
    Tensor& y = k.output(0, x.dtype(), d);
    TimeCheck time;
    for (std::int64_t b = 0; b < batches; ++b) {
      if (lengths[b] < 0 || lengths[b] > times) fail("a length is outside the time axis");
      for (std::int64_t t = 0; inner > 0 && t < times; ++t) {
        time.spend(inner);
        const std::int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
        copy_elements(x.dtype(), x.raw(), from * time_stride + b * batch_stride, y.raw(),
                      t * time_stride + b * batch_stride, inner);
      }
    }
  });
}

}  // namespace

void register_move_kernels(KernelRegistry& registry) {
  const auto movable = [](const NodeView& n) { return n.check_input(0, kByteTypes | kStringType); };
  const auto any = [](const NodeView& n) { return n.check_input(0, kAllTypes); };
  const auto plain = [](void (*run)(KernelContext&)) {
    return [run](const KernelCreateContext&) { return make_kernel(run); };
  };
  registry.add({.op = "Transpose", .supports = any, .create = create_transpose});
  registry.add({.op = "Slice", .supports = movable, .create = plain(run_slice)});
  registry.add({.op = "Split", .supports = movable, .create = create_split});
  registry.add({.op = "Concat", .supports = movable, .create = create_concat});
  registry.add({.op = "Expand", .supports = movable, .create = plain(run_expand)});
  registry.add({.op = "Tile", .supports = movable, .create = plain(run_tile)});
  registry.add({.op = "DepthToSpace", .supports = movable, .create = create_depth_to_space});
  registry.add({.op = "SpaceToDepth", .supports = movable, .create = create_space_to_depth});
  registry.add({.op = "Pad", .supports = any, .create = create_pad});
  registry.add({.op = "Trilu", .supports = movable, .create = create_trilu});
  registry.add({.op = "ReverseSequence", .supports = movable, .create = create_reverse_sequence});
}

}  // namespace xrt::native
