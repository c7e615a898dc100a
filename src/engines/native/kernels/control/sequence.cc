// SPDX-License-Identifier: Apache-2.0
// Sequences and optionals.
#include <algorithm>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/executable.h"
#include "engines/native/kernels/common/axes.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/register.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

constexpr auto kHolds = [] { return KernelTraits{.allocates = false, .retains_inputs = true}; };

std::int64_t position_input(const KernelContext& k, std::size_t i, std::size_t size,
                            bool past_end) {
  const std::vector<std::int64_t> given = ints_input(k, i);
  if (given.size() != 1) fail("the position is not a scalar");
  const auto n = static_cast<std::int64_t>(size);
  const std::int64_t limit = past_end ? n : n - 1;
  if (given[0] < -n || given[0] > limit) {
    fail("position " + std::to_string(given[0]) + " is outside a sequence of " +
         std::to_string(size));
  }
  return given[0] < 0 ? given[0] + n : given[0];
}

// For one more: the list doubles, within the bound on memory.
void make_room(std::vector<Data>& items) {
  if (items.size() < items.capacity()) return;
  const std::size_t wanted = std::max<std::size_t>(2 * items.size(), 4);
  WorkScope::check_room((wanted + items.size()) * sizeof(Data), [&] {
    return "a sequence of " + std::to_string(items.size() + 1) + " values";
  });
  items.reserve(wanted);
}

Created create_construct(const KernelCreateContext&) {
  return make_kernel(
      [](KernelContext& k) {
        std::vector<Data> items;
        for (std::size_t i = 0; i < k.input_count(); ++i) items.push_back(k.owned_input(i));
        const DType dtype =
            items.empty() || !items[0].is_tensor() ? DType::kUndefined : items[0].tensor().dtype();
        k.set_output(0, Data::sequence(dtype, std::move(items)));
      },
      kHolds());
}

Created create_empty(const KernelCreateContext& create) {
  const auto dtype = static_cast<DType>(create.node().attr_int("dtype", 1));
  return make_kernel([dtype](KernelContext& k) { k.set_output(0, Data::sequence(dtype, {})); },
                     kHolds());
}

Created create_insert(const KernelCreateContext&) {
  return make_kernel(
      [](KernelContext& k) {
        const DType dtype = k.input_data(0).sequence_dtype();
        const std::size_t size = k.input_data(0).items().size();
        const std::int64_t at =
            k.has_input(2) ? position_input(k, 2, size, true) : static_cast<std::int64_t>(size);
        Data item = k.owned_input(1);
        std::vector<Data> items = k.taken_input(0).take_items();
        make_room(items);
        items.insert(items.begin() + at, std::move(item));
        k.set_output(0, Data::sequence(dtype, std::move(items)));
      },
      kHolds());
}

Created create_erase(const KernelCreateContext&) {
  return make_kernel(
      [](KernelContext& k) {
        const DType dtype = k.input_data(0).sequence_dtype();
        const std::size_t size = k.input_data(0).items().size();
        const std::int64_t at = k.has_input(1) ? position_input(k, 1, size, false)
                                               : static_cast<std::int64_t>(size) - 1;
        if (at < 0) fail("the sequence is empty");
        std::vector<Data> items = k.taken_input(0).take_items();
        items.erase(items.begin() + at);
        k.set_output(0, Data::sequence(dtype, std::move(items)));
      },
      kHolds());
}

Created create_at(const KernelCreateContext&) {
  return make_kernel(
      [](KernelContext& k) {
        const std::vector<Data>& items = k.input_data(0).items();
        const Data& item = items[position_input(k, 1, items.size(), false)];
        k.set_output(0, k.is_borrowed(0) ? clone_data(item) : item);
      },
      kHolds());
}

Created create_length(const KernelCreateContext&) {
  return make_kernel([](KernelContext& k) {
    const auto count = static_cast<std::int64_t>(k.input_data(0).items().size());
    k.output(0, DType::kInt64, {}).data<std::int64_t>()[0] = count;
  });
}

Created create_concat(const KernelCreateContext& create) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  const bool new_axis = need_int(create.node(), "new_axis") != 0;
  return make_kernel([given_axis, new_axis](KernelContext& k) {
    const std::vector<Data>& items = k.input_data(0).items();
    if (items.empty()) fail("an empty sequence cannot be joined");
    const Tensor& first = items[0].tensor();
    const std::size_t axis = normalize_axis(given_axis, first.rank() + (new_axis ? 1 : 0));
    const auto at = static_cast<std::ptrdiff_t>(axis);
    Dims dims = first.dims();
    if (new_axis) dims.insert(dims.begin() + at, 1);
    dims[axis] = 0;
    for (const Data& item : items) {
      Dims other = item.tensor().dims();
      if (new_axis && other == first.dims()) other.insert(other.begin() + at, 1);
      Dims expected = dims;
      if (other.size() == dims.size()) expected[axis] = other[axis];
      if (other != expected || item.tensor().dtype() != first.dtype()) {
        fail("tensors of shapes " + shape_text(first.dims()) + " and " +
             shape_text(item.tensor().dims()) + " cannot be joined");
      }
      dims[axis] += other[axis];
    }
    Tensor& y = k.output(0, first.dtype(), dims);
    const std::int64_t outer = product(dims, 0, axis);
    const std::int64_t inner = product(dims, axis + 1, dims.size());
    std::int64_t done = 0;
    for (const Data& item : items) {
      const Tensor& x = item.tensor();
      const std::int64_t length = outer == 0 ? 0 : x.count() / outer;
      for (std::int64_t o = 0; o < outer; ++o) {
        copy_elements(x.dtype(), x.raw(), o * length, y.raw(), o * dims[axis] * inner + done,
                      length);
      }
      done += length;
    }
  });
}

constexpr std::int64_t kItemWork = 64;  // to make one

Created create_split(const KernelCreateContext& create) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  const bool keep = need_int(create.node(), "keepdims") != 0;
  return make_kernel(
      [given_axis, keep](KernelContext& k) {
        const Tensor& x = k.input(0);
        const std::size_t axis = normalize_axis(given_axis, x.rank());
        const std::int64_t size = x.dims()[axis];
        std::vector<std::int64_t> parts;
        std::int64_t each = 1;  // where the parts are not listed
        const bool listed = k.has_input(1) && k.input(1).rank() > 0;
        if (listed) {
          parts = ints_input(k, 1);
        } else if (k.has_input(1)) {
          each = ints_input(k, 1)[0];
          if (each < 1) fail("the size of a part is not positive");
        }
        const bool squeeze = !k.has_input(1) && !keep;
        const std::int64_t outer = product(x.dims(), 0, axis);
        const std::int64_t inner = product(x.dims(), axis + 1, x.rank());
        std::vector<Data> items;
        std::int64_t at = 0;
        TimeCheck time;
        for (std::size_t i = 0; listed ? i < parts.size() : at < size; ++i) {
          time.spend(kItemWork);
          const std::int64_t part = listed ? parts[i] : std::min(each, size - at);
          if (part < 0 || part > size - at) fail("the parts do not make up the axis");
          Dims dims = x.dims();
          dims[axis] = part;
          if (squeeze) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
          Tensor y = allocate_checked(x.dtype(), dims);
          for (std::int64_t o = 0; y.count() > 0 && o < outer; ++o) {
            copy_elements(x.dtype(), x.raw(), (o * size + at) * inner, y.raw(), o * part * inner,
                          part * inner);
          }
          items.emplace_back(std::move(y));
          at += part;
        }
        if (at != size) fail("the parts do not make up the axis");
        k.set_output(0, Data::sequence(x.dtype(), std::move(items)));
      },
      {.allocates = false});
}

Created create_optional(const KernelCreateContext&) {
  return make_kernel(
      [](KernelContext& k) { k.set_output(0, k.has_input(0) ? k.taken_input(0) : Data()); },
      kHolds());
}

Created create_get_element(const KernelCreateContext&) {
  return make_kernel(
      [](KernelContext& k) {
        Data data = k.taken_input(0);
        if (data.is_none()) fail("the optional is empty");
        k.set_output(0, std::move(data));
      },
      kHolds());
}

Created create_has_element(const KernelCreateContext&) {
  return make_kernel([](KernelContext& k) {
    const bool has = k.has_input(0) && !k.input_data(0).is_none();
    k.output(0, DType::kBool, {}).data<std::uint8_t>()[0] = has ? 1 : 0;
  });
}

}  // namespace

void register_sequence_kernels(KernelRegistry& registry) {
  registry.add({.op = "SequenceConstruct", .create = create_construct});
  registry.add({.op = "SequenceEmpty", .create = create_empty});
  registry.add({.op = "SequenceInsert", .create = create_insert});
  registry.add({.op = "SequenceErase", .create = create_erase});
  registry.add({.op = "SequenceAt", .create = create_at});
  registry.add({.op = "SequenceLength", .create = create_length});
  registry.add({.op = "ConcatFromSequence", .create = create_concat});
  registry.add(
      {.op = "SplitToSequence",
       .supports = [](const NodeView& n) { return n.check_input(0, kByteTypes | kStringType); },
       .create = create_split});
  registry.add({.op = "Optional", .create = create_optional});
  registry.add({.op = "OptionalGetElement", .create = create_get_element});
  registry.add({.op = "OptionalHasElement", .create = create_has_element});
}

}  // namespace xrt::native
