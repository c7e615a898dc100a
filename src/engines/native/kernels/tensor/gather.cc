// SPDX-License-Identifier: Apache-2.0
// Gather, GatherElements, GatherND, Scatter, ScatterElements, ScatterND, TensorScatter, OneHot,
// Compress.
#include <algorithm>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/common/text.h"
#include "engines/native/kernels/register.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

// To find one element by its index and to move it.
constexpr std::int64_t kElementWork = 4;

std::int64_t checked_index(std::int64_t index, std::int64_t size) {
  if (index < -size || index >= size) {
    fail("index " + std::to_string(index) + " is outside an axis of size " + std::to_string(size));
  }
  return index < 0 ? index + size : index;
}

void check_integers(const Tensor& indices) {
  if (!is_integer(indices.dtype())) fail("the indices are no integers");
}

// All indices as int64, checked against one size.
Scratch<std::int64_t> checked_indices(const Tensor& indices, std::int64_t size) {
  check_integers(indices);
  Scratch<std::int64_t> result(static_cast<std::size_t>(indices.count()));
  load_int64(indices.dtype(), indices.raw(), 0, indices.count(), result.data());
  for (std::int64_t& i : result) i = checked_index(i, size);
  return result;
}

Created create_gather(const KernelCreateContext& create) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  return make_kernel([given_axis](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& indices = k.input(1);
    const std::size_t axis = normalize_axis(given_axis, x.rank());
    const std::int64_t size = x.dims()[axis];
    Dims dims(x.dims().begin(), x.dims().begin() + static_cast<std::ptrdiff_t>(axis));
    dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
    dims.insert(dims.end(), x.dims().begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                x.dims().end());
    Tensor& y = k.output(0, x.dtype(), dims);
    const std::int64_t outer = product(x.dims(), 0, axis);
    const std::int64_t inner = product(x.dims(), axis + 1, x.rank());
    if (y.count() == 0) {
      checked_indices(indices, size);
      return;
    }
    if (indices.count() == 1 && outer == 1) {
      std::int64_t index = 0;
      load_int64(indices.dtype(), indices.raw(), 0, 1, &index);
      copy_elements(x.dtype(), x.raw(), checked_index(index, size) * inner, y.raw(), 0, inner);
      return;
    }
    const Scratch<std::int64_t> where = checked_indices(indices, size);
    const auto count = static_cast<std::int64_t>(where.size());
    const std::int64_t grain = std::max<std::int64_t>(32768 / std::max<std::int64_t>(inner, 1), 1);
    if (inner == 1 && x.dtype() != DType::kString) {
      dispatch_move(x.dtype(), [&]<typename T>() {
        const T* in = x.data<T>();
        T* out = y.data<T>();
        k.parallel_for(outer * count, grain, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t o = begin / count; o * count < end; ++o) {
            const std::int64_t last = std::min(end - o * count, count);
            for (std::int64_t i = std::max<std::int64_t>(begin - o * count, 0); i < last; ++i) {
              out[o * count + i] = in[o * size + where[i]];
            }
          }
        });
      });
      return;
    }
    k.parallel_for(outer * count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        copy_elements(x.dtype(), x.raw(), (row / count * size + where[row % count]) * inner,
                      y.raw(), row * inner, inner);
      }
    });
  });
}

// Calls fn(element of `dims`, the same position in a tensor with `strides`, its coordinate along
// `axis` left out) in row-major order.
template <typename F>
void for_elements(const Dims& dims, const Dims& strides, std::size_t axis, F&& fn) {
  const std::int64_t count = element_count(dims);
  Dims index(dims.size());
  std::int64_t offset = 0;
  TimeCheck time;
  for (std::int64_t e = 0; e < count; ++e) {
    time.spend(kElementWork);
    fn(e, offset);
    for (std::size_t a = dims.size(); a-- > 0;) {
      const std::int64_t step = a == axis ? 0 : strides[a];
      offset += step;
      if (++index[a] < dims[a]) break;
      offset -= step * dims[a];
      index[a] = 0;
    }
  }
}

void check_within(const Dims& inside, const Dims& outside, std::size_t axis) {
  bool fits = inside.size() == outside.size();
  for (std::size_t a = 0; fits && a < inside.size(); ++a) {
    fits = a == axis || inside[a] <= outside[a];
  }
  if (!fits) {
    fail("the indices' shape " + shape_text(inside) + " does not fit into " + shape_text(outside));
  }
}

Created create_gather_elements(const KernelCreateContext& create) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  return make_kernel([given_axis](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& indices = k.input(1);
    const std::size_t axis = normalize_axis(given_axis, x.rank());
    check_within(indices.dims(), x.dims(), axis);
    const Scratch<std::int64_t> where = checked_indices(indices, x.dims()[axis]);
    Tensor& y = k.output(0, x.dtype(), indices.dims());
    const Dims strides = dense_strides(x.dims());
    dispatch_move(x.dtype(), [&]<typename T>() {
      const T* in = x.data<T>();
      T* out = y.data<T>();
      for_elements(indices.dims(), strides, axis, [&](std::int64_t e, std::int64_t offset) {
        assign_element(out[e], in[offset + where[e] * strides[axis]]);
      });
    });
  });
}

// Offsets, in elements of `dims`, of the slices that the index tuples name.
Scratch<std::int64_t> tuple_offsets(const Tensor& indices, const Dims& dims,
                                    std::size_t first_axis) {
  check_integers(indices);
  if (indices.rank() == 0) fail("the indices have no axis");
  const auto depth = static_cast<std::size_t>(indices.dims().back());
  if (first_axis + depth > dims.size()) fail("an index tuple has more entries than there are axes");
  const Tensor wide = converted(indices, DType::kInt64);
  const auto* values = wide.data<std::int64_t>();
  const Dims strides = dense_strides(dims);
  const auto tuples = static_cast<std::size_t>(product(indices.dims(), 0, indices.rank() - 1));
  Scratch<std::int64_t> offsets(tuples);
  TimeCheck time;
  for (std::size_t t = 0; t < tuples; ++t) {
    time.spend(static_cast<std::int64_t>(depth));
    for (std::size_t d = 0; d < depth; ++d) {
      const std::size_t axis = first_axis + d;
      offsets[t] += checked_index(values[t * depth + d], dims[axis]) * strides[axis];
    }
  }
  return offsets;
}

Created create_gather_nd(const KernelCreateContext& create) {
  const auto batch = need_int(create.node(), "batch_dims");
  return make_kernel([batch](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& indices = k.input(1);
    const auto b = static_cast<std::size_t>(batch);
    if (batch < 0 || b >= indices.rank() || b > x.rank()) fail("'batch_dims' is too large");
    if (!std::equal(x.dims().begin(), x.dims().begin() + batch, indices.dims().begin())) {
      fail("the batch axes differ");
    }
    const Scratch<std::int64_t> offsets = tuple_offsets(indices, x.dims(), b);
    const auto depth = static_cast<std::size_t>(indices.dims().back());
    Dims dims(indices.dims().begin(), indices.dims().end() - 1);
    dims.insert(dims.end(), x.dims().begin() + static_cast<std::ptrdiff_t>(b + depth),
                x.dims().end());
    Tensor& y = k.output(0, x.dtype(), dims);
    const std::int64_t inner = product(x.dims(), b + depth, x.rank());
    const std::int64_t batches = product(x.dims(), 0, b);
    const std::int64_t batch_size = product(x.dims(), b, x.rank());
    const std::int64_t per_batch =
        batches == 0 ? 0 : static_cast<std::int64_t>(offsets.size()) / batches;
    TimeCheck time;
    for (std::size_t i = 0; inner > 0 && i < offsets.size(); ++i) {
      time.spend(kElementWork + inner);
      const std::int64_t start = static_cast<std::int64_t>(i) / per_batch * batch_size;
      copy_elements(x.dtype(), x.raw(), start + offsets[i], y.raw(),
                    static_cast<std::int64_t>(i) * inner, inner);
    }
  });
}

enum class Update : std::uint8_t { kSet, kAdd, kMul, kMax, kMin };

Update parse_update(const Node& node) {
  const std::string name = need_string(node, "reduction");
  if (name == "none") return Update::kSet;
  if (name == "add") return Update::kAdd;
  if (name == "mul") return Update::kMul;
  if (name == "max") return Update::kMax;
  if (name == "min") return Update::kMin;
  fail("reduction '" + name + "' is not known");
}

template <typename T>
T updated(Update update, T old, T value) {
  // Sums and products of integers wrap.
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>;
  const auto a = static_cast<Wide>(old);
  const auto b = static_cast<Wide>(value);
  switch (update) {
    case Update::kAdd:
      return static_cast<T>(a + b);
    case Update::kMul:
      return static_cast<T>(a * b);
    case Update::kMax:
      return std::max(old, value);
    case Update::kMin:
      return std::min(old, value);
    default:
      return value;
  }
}

// y = x, then y[place(i)] = update(y[place(i)], u[i]) for each of `places`, in order.
template <typename Places>
void scatter(KernelContext& k, const Tensor& x, const Tensor& updates, Update update,
             Places&& places) {
  if (x.dtype() != updates.dtype()) fail("data and updates have different element types");
  Tensor& y = k.output(0, x.dtype(), x.dims());
  TimeCheck time;
  if (update == Update::kSet) {
    if (y.raw() != x.raw()) copy_elements(x.dtype(), x.raw(), 0, y.raw(), 0, x.count());
    dispatch_move(x.dtype(), [&]<typename T>() {
      const T* u = updates.data<T>();
      T* out = y.data<T>();
      places([&](std::int64_t from, std::int64_t to, std::int64_t n) {
        time.spend(kElementWork + n);
        assign_elements(u + from, n, out + to);
      });
    });
    return;
  }
  const DType compute = compute_dtype(x.dtype());
  const bool direct = compute == x.dtype();
  Tensor sum = direct ? y : converted(x, compute);
  if (direct && y.raw() != x.raw()) copy_elements(compute, x.raw(), 0, y.raw(), 0, x.count());
  const Tensor u = converted(updates, compute);
  const auto apply = [&]<typename T>() {
    const T* in = u.template data<T>();
    T* out = sum.data<T>();
    places([&](std::int64_t from, std::int64_t to, std::int64_t n) {
      time.spend(kElementWork + n);
      for (std::int64_t i = 0; i < n; ++i) out[to + i] = updated(update, out[to + i], in[from + i]);
    });
  };
  if (compute == DType::kBool) {
    apply.template operator()<bool>();
  } else {
    dispatch_number(compute, apply);
  }
  if (!direct) store_float(x.dtype(), sum.data<float>(), x.count(), y.raw(), 0);
}

Created create_scatter_elements(const KernelCreateContext& create) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  const Update update = parse_update(create.node());
  return make_kernel([given_axis, update](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& indices = k.input(1);
    const Tensor& updates = k.input(2);
    const std::size_t axis = normalize_axis(given_axis, x.rank());
    check_within(indices.dims(), x.dims(), axis);
    if (updates.dims() != indices.dims()) fail("indices and updates have different shapes");
    const Dims strides = dense_strides(x.dims());
    const Dims& dims = indices.dims();
    bool whole = true;  // along all other axes
    for (std::size_t a = 0; a < x.rank(); ++a) {
      whole = whole && (a == axis || dims[a] == x.dims()[a]);
    }
    if (whole && indices.dtype() == DType::kInt64) {
      // Indices are often repeated along the inner axes: neighbours of one index go together.
      const std::int64_t size = x.dims()[axis], inner = strides[axis];
      const std::int64_t rows = inner == 0 ? 0 : indices.count() / inner;
      const auto* index = indices.data<std::int64_t>();
      for (std::int64_t i = 0; i < indices.count(); ++i) checked_index(index[i], size);
      scatter(k, x, updates, update, [&](auto&& put) {
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t* own = index + row * inner;
          const std::int64_t start = row / dims[axis] * size;
          for (std::int64_t first = 0, end; first < inner; first = end) {
            end = first + 1;
            while (end < inner && own[end] == own[first]) ++end;
            const std::int64_t place = own[first] < 0 ? own[first] + size : own[first];
            put(row * inner + first, (start + place) * inner + first, end - first);
          }
        }
      });
      return;
    }
    const Scratch<std::int64_t> where = checked_indices(indices, x.dims()[axis]);
    scatter(k, x, updates, update, [&](auto&& put) {
      for_elements(dims, strides, axis, [&](std::int64_t e, std::int64_t offset) {
        put(e, offset + where[e] * strides[axis], std::int64_t{1});
      });
    });
  });
}

Created create_scatter_nd(const KernelCreateContext& create) {
  const Update update = parse_update(create.node());
  return make_kernel([update](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& indices = k.input(1);
    const Tensor& updates = k.input(2);
    const Scratch<std::int64_t> offsets = tuple_offsets(indices, x.dims(), 0);
    const auto depth = static_cast<std::size_t>(indices.dims().back());
    const std::int64_t inner = product(x.dims(), depth, x.rank());
    if (updates.count() != static_cast<std::int64_t>(offsets.size()) * inner) {
      fail("updates of shape " + shape_text(updates.dims()) + " do not fit the indices");
    }
    scatter(k, x, updates, update, [&](auto&& put) {
      for (std::size_t i = 0; inner > 0 && i < offsets.size(); ++i) {
        put(static_cast<std::int64_t>(i) * inner, offsets[i], inner);
      }
    });
  });
}

// Writes `update` into the past cache at each batch's write index along `axis`.
Created create_tensor_scatter(const KernelCreateContext& create) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  const bool circular = need_string(create.node(), "mode") == "circular";
  const auto run = [given_axis, circular](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& updates = k.input(1);
    const std::size_t axis = normalize_axis(given_axis, x.rank());
    if (axis == 0 || updates.rank() != x.rank()) fail("the axis is the batch axis");
    const std::int64_t batches = x.dims()[0];
    std::vector<std::int64_t> starts;
    if (k.has_input(2)) starts = ints_input(k, 2);
    const std::int64_t size = x.dims()[axis];
    const std::int64_t length = updates.dims()[axis];
    Dims expected = x.dims();
    expected[axis] = length;
    if (updates.dims() != expected ||
        (k.has_input(2) && static_cast<std::int64_t>(starts.size()) != batches)) {
      fail("the update's shape " + shape_text(updates.dims()) + " does not fit");
    }
    const std::int64_t middle = product(x.dims(), 1, axis);
    const std::int64_t inner = product(x.dims(), axis + 1, x.rank());
    if (!k.has_input(2) && batches > 0) starts.push_back(0);  // of all
    for (std::int64_t& start : starts) {
      if (start < 0 || (circular ? size == 0 && length > 0 : start > size - length)) {
        fail("write index " + std::to_string(start) + " is outside the cache");
      }
      if (circular && size > 0) start %= size;
    }
    scatter(k, x, updates, Update::kSet, [&](auto&& put) {
      for (std::int64_t b = 0; updates.count() > 0 && b < batches; ++b) {
        const std::int64_t start = starts[starts.size() == 1 ? 0 : static_cast<std::size_t>(b)];
        for (std::int64_t m = 0; m < middle; ++m) {
          const std::int64_t row = b * middle + m;
          for (std::int64_t s = 0; s < length; ++s) {
            const std::int64_t to = circular ? (start + s) % size : start + s;
            put((row * length + s) * inner, (row * size + to) * inner, inner);
          }
        }
      }
    });
  };
  // A cache that dies here, or whose next value this is, gets the new rows and nothing else.
  return make_kernel(run, {.in_place = {0}});
}

Created create_one_hot(const KernelCreateContext& create) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  return make_kernel([given_axis](KernelContext& k) {
    const Tensor& indices = k.input(0);
    const Tensor depth_tensor = converted(k.input(1), DType::kInt64);
    const Tensor& values = k.input(2);
    if (depth_tensor.count() != 1 || values.count() != 2) fail("depth or values have a wrong size");
    const std::int64_t depth = depth_tensor.data<std::int64_t>()[0];
    if (depth < 0) fail("the depth is negative");
    const std::size_t axis = normalize_axis(given_axis, indices.rank() + 1);
    Dims dims = indices.dims();
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), depth);
    Tensor& y = k.output(0, values.dtype(), dims);
    const std::int64_t inner = product(indices.dims(), axis, indices.rank());
    const Tensor where = converted(indices, DType::kInt64);
    dispatch_move(values.dtype(), [&]<typename T>() {
      const T off = values.data<T>()[0];
      const T on = values.data<T>()[1];
      T* out = y.data<T>();
      fill_elements(out, y.count(), off);
      for (std::int64_t i = 0; i < where.count(); ++i) {
        std::int64_t index = where.data<std::int64_t>()[i];
        // Outside the range nothing is hot.
        if (index < -depth || index >= depth) continue;
        if (index < 0) index += depth;
        assign_element(out[(i / inner * depth + index) * inner + i % inner], on);
      }
    });
  });
}

Created create_compress(const KernelCreateContext& create) {
  const bool flat = !create.node().has("axis");
  const std::int64_t given_axis = flat ? 0 : need_int(create.node(), "axis");
  return make_kernel([flat, given_axis](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& condition = k.input(1);
    const std::size_t axis = flat ? 0 : normalize_axis(given_axis, x.rank());
    const std::int64_t size = flat ? x.count() : x.dims()[axis];
    Scratch<std::int64_t> kept;
    for (std::int64_t i = 0; i < std::min(size, condition.count()); ++i) {
      if (condition.data<std::uint8_t>()[i] != 0) kept.push_back(i);
    }
    const auto count = static_cast<std::int64_t>(kept.size());
    Dims dims = flat ? Dims{count} : x.dims();
    dims[axis] = count;
    Tensor& y = k.output(0, x.dtype(), dims);
    const std::int64_t outer = flat ? 1 : product(x.dims(), 0, axis);
    const std::int64_t inner = flat ? 1 : product(x.dims(), axis + 1, x.rank());
    TimeCheck time;
    for (std::int64_t o = 0; y.count() > 0 && o < outer; ++o) {
      for (std::int64_t i = 0; i < count; ++i) {
        time.spend(kElementWork + inner);
        copy_elements(x.dtype(), x.raw(), (o * size + kept[i]) * inner, y.raw(),
                      (o * count + i) * inner, inner);
      }
    }
  });
}

}  // namespace

void register_gather_kernels(KernelRegistry& registry) {
  const auto movable = [](const NodeView& n) { return n.check_input(0, kByteTypes | kStringType); };
  const auto scatterable = [](const NodeView& n) {
    return need_string(n.node(), "reduction") == "none"
               ? n.check_input(0, kByteTypes | kStringType)
               : n.check_input(0, kNumericTypes | kBoolType);
  };
  registry.add({.op = "Gather", .supports = movable, .create = create_gather});
  registry.add({.op = "GatherElements", .supports = movable, .create = create_gather_elements});
  registry.add({.op = "GatherND", .supports = movable, .create = create_gather_nd});
  registry.add({.op = "Scatter", .supports = scatterable, .create = create_scatter_elements});
  registry.add(
      {.op = "ScatterElements", .supports = scatterable, .create = create_scatter_elements});
  registry.add({.op = "ScatterND", .supports = scatterable, .create = create_scatter_nd});
  registry.add({.op = "TensorScatter", .supports = movable, .create = create_tensor_scatter});
  registry.add({.op = "OneHot",
                .supports =
                    [](const NodeView& n) {
                      const Support s = n.check_input(0, kNumericTypes);
                      return s ? n.check_input(2, kByteTypes | kStringType) : s;
                    },
                .create = create_one_hot});
  registry.add({.op = "Compress", .supports = movable, .create = create_compress});
}

}  // namespace xrt::native
