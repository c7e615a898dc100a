// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "engines/cuda/fused.h"
#include "engines/cuda/groups.h"
#include "engines/cuda/lowering.h"
#include "xrt/error.h"

namespace xrt::cuda {

View transposed(const View& view, const std::vector<std::size_t>& permutation) {
  View result = view;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    result.dims[i] = view.dims[permutation[i]];
    result.strides[i] = view.strides[permutation[i]];
  }
  return result;
}

std::optional<View> reshaped(const View& view, const Dims& dims) {
  View result = view;
  result.dims = dims;
  if (view.is_row_major()) {
    result.strides = row_major_strides(dims);
    return result;
  }
  // Axes of both sides are gone through together, in runs of equally many elements.
  Dims old_dims, old_strides;
  for (std::size_t i = 0; i < view.dims.size(); ++i) {
    if (view.dims[i] == 1) continue;
    old_dims.push_back(view.dims[i]), old_strides.push_back(view.strides[i]);
  }
  result.strides.assign(dims.size(), 1);
  std::size_t from = 0;
  std::size_t to = 0;
  while (from < old_dims.size() && to < dims.size()) {
    std::size_t from_end = from + 1;
    std::size_t to_end = to + 1;
    std::int64_t old_count = old_dims[from];
    std::int64_t new_count = dims[to];
    while (old_count != new_count) {
      if (new_count < old_count) {
        new_count *= dims[to_end++];
      } else {
        old_count *= old_dims[from_end++];
      }
    }
    for (std::size_t i = from; i + 1 < from_end; ++i) {
      if (old_strides[i] != old_strides[i + 1] * old_dims[i + 1]) return std::nullopt;
    }
    std::int64_t stride = old_strides[from_end - 1];
    for (std::size_t i = to_end; i-- > to;) {
      result.strides[i] = stride;
      stride *= dims[i];
    }
    from = from_end;
    to = to_end;
  }
  return result;
}

View broadcast(const View& view, const Dims& dims, std::optional<std::size_t> first) {
  View result = view;
  result.dims = dims;
  result.strides.assign(dims.size(), 0);
  const std::size_t from = first.value_or(dims.size() - view.dims.size());
  for (std::size_t i = 0; i < view.dims.size(); ++i) {
    if (view.dims[i] != 1) result.strides[from + i] = view.strides[i];
  }
  return result;
}

Planner::Planner(const Function& function, PlanOptions options)
    : function_(function), graph_(function.graph), options_(std::move(options)) {}

View Planner::view(ValueId value) const {
  const auto found = views_.find(value);
  if (found != views_.end()) return found->second;
  throw Error(ErrorCode::kInternal,
              fmt::format("cuda: {}: '{}' is not there yet", what_, graph_.value_name(value)));
}

View Planner::dense(ValueId value) {
  const View given = view(value);
  if (given.is_row_major()) return given;
  View made = dense(given);
  views_[value] = made;  // whoever else wants it so finds it
  return made;
}

View Planner::dense(const View& given) {
  if (given.is_row_major()) return given;
  const View made = temporary(given.dtype, given.dims);
  copy("a copy for " + what_, given, made);
  return made;
}

View Planner::plain(ValueId value) {
  const View from = view(value);
  if (!is_packed(from.dtype)) return from;
  const View to = temporary(plain_type(from.dtype), from.dims);
  const int bits = bit_width(from.dtype), of_byte = 8 / bits;
  std::string number = "v";
  if (from.dtype == DType::kFloat4E2M1) number = "f8e4m3fn::of(f4e2m1{(u8)v}.number())";
  if (is_signed_integer(from.dtype))
    number = fmt::format("(i8)((int)(v << {0}) >> {0})", 32 - bits);
  elementwise("unpacking for " + what_, {from}, to, [&](const std::vector<std::string>&) {
    return fmt::format(
        "const unsigned v = p0[at / {0}] >> (at % {0} * {1}) & {2}u;\nq0[at] = {3};\n", of_byte,
        bits, (1 << bits) - 1, number);
  });
  return to;
}

View Planner::packed(const View& plain, DType dtype) {
  const View from = dense(plain);
  const View made = temporary(dtype, plain.dims);
  const int bits = bit_width(dtype), of_byte = 8 / bits;
  View bytes = made;
  bytes.dims = {static_cast<std::int64_t>(bytes_of(dtype, made.count()))};
  bytes.strides = {1};
  const std::string code =
      dtype == DType::kFloat4E2M1 ? "f4e2m1::of(p0[i].number()).bits" : "(unsigned)p0[i]";
  elementwise("packing for " + what_, {from}, bytes, [&](const std::vector<std::string>&) {
    return fmt::format(
        "unsigned all = 0;\nfor (int e = 0; e < {0}; ++e) {{\nconst i64 i = at * {0} + e;\n"
        "if (i < {1}) all |= ({2} & {3}u) << (e * {4});\n}}\nq0[at] = (u8)all;\n",
        of_byte, made.count(), code, (1 << bits) - 1, bits);
  });
  return made;
}

View Planner::temporary(DType dtype, const Dims& dims, const std::vector<std::size_t>& order) {
  View made;
  made.buffer = static_cast<int>(plan_.buffers.size());
  made.dtype = dtype;
  made.dims = dims;
  made.strides = row_major_strides(dims);
  if (!order.empty()) {
    std::int64_t stride = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      made.strides[order[i]] = stride;
      stride *= dims[order[i]];
    }
  }
  Buffer buffer;
  buffer.bytes = bytes_of(dtype, made.count());
  plan_.buffers.push_back(std::move(buffer));
  return made;
}

View Planner::temporary_for(ValueId value) {
  const TypeView type = graph_.type(value);
  return temporary(type.dtype(), type.dims());
}

void Planner::define(ValueId value, View view) { views_[value] = std::move(view); }

std::optional<std::string> Planner::scalar(ValueId value) const {
  const TensorView constant = graph_.constant(value);
  if (!constant.defined() || constant.count() != 1 || !has_type(constant.dtype())) {
    return std::nullopt;
  }
  return literal(constant);
}

void Planner::kernel(const std::string& what, const Grid& grid, std::vector<View> reads,
                     std::vector<View> writes, const std::string& body) {
  kernel(what, {{grid, body}}, std::move(reads), std::move(writes));
}

void Planner::kernel(const std::string& what, const std::vector<KernelWay>& ways,
                     std::vector<View> reads, std::vector<View> writes,
                     std::optional<IntegerConvolution> library) {
  if (reads.size() + writes.size() > kMostPointers) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("cuda: {}: a kernel of {} operands", what, reads.size()));
  }
  std::string operands = "(Args a) {\n";
  for (std::size_t i = 0; i < reads.size(); ++i) {
    operands += fmt::format("const {0}* __restrict__ p{1} = (const {0}*)a.p[{1}];\n",
                            stored_type(reads[i].dtype), i);
  }
  for (std::size_t i = 0; i < writes.size(); ++i) {
    operands += fmt::format("{0}* __restrict__ q{1} = ({0}*)a.p[{2}];\n",
                            stored_type(writes[i].dtype), i, reads.size() + i);
  }
  KernelStep work;
  for (const KernelWay& way : ways) {
    constexpr unsigned kMostBlocks = 65535;  // along y and z
    if (way.grid.y > kMostBlocks || way.grid.z > kMostBlocks) {
      throw Error(ErrorCode::kUnsupported, fmt::format("cuda: {}: too large for a grid", what));
    }
    const std::string text = operands + way.body + "}\n";
    const std::string key = fmt::format("{}{}", way.grid.threads, text);
    const auto [at, is_new] = kernels_.try_emplace(key, kernel_name(kernels_.size()));
    if (is_new) {
      plan_.kernel_codes.push_back(
          fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}{}", way.grid.threads,
                      at->second, text));
      plan_.kernels[at->second] = key;
    }
    if (&way == &ways.front()) {
      work.kernel = at->second, work.grid = way.grid;
    } else {
      work.others.push_back({at->second, way.grid});
    }
  }
  Step made;
  made.what = what;
  for (const View& read : reads) made.reads.push_back(read.buffer);
  for (const View& write : writes) made.writes.push_back(write.buffer);
  if (library) {
    for (const View* view : {&library->x, &library->w, &library->scale, &library->bias}) {
      made.reads.push_back(view->buffer);
    }
    if (library->residual) made.reads.push_back(library->residual->buffer);
    work.library = std::move(library);
  }
  work.reads = std::move(reads);
  work.writes = std::move(writes);
  made.work = std::move(work);
  step(std::move(made));
}

void Planner::define_code(const std::string& code) {
  if (code_.insert(code).second) plan_.definitions += code;
}

void Planner::elementwise(const std::string& what, std::vector<View> reads, const View& to,
                          const Elementwise& body) {
  elementwise(what, std::move(reads), std::vector<View>{to}, body);
}

void Planner::elementwise(const std::string& what, std::vector<View> reads,
                          std::vector<View> results, const Elementwise& body) {
  const View& to = results.front();
  const std::vector<std::size_t> order = axes_by_stride(to);
  std::vector<std::string> names(to.dims.size(), "0");
  // One axis of the space per axis of the view: the body knows no others.
  Space space;
  space.strides.resize(1);
  for (const std::size_t axis : order) {
    names[axis] = fmt::format("(i64)c{}", space.dims.size());
    space.dims.push_back(to.dims[axis]);
    space.strides[0].push_back(to.strides[axis]);
  }
  if (space.dims.empty()) space.dims = {1}, space.strides[0] = {0};
  space.wide = to.count() >= std::int64_t{1} << 31;
  const std::int64_t count = to.count();
  std::string text =
      fmt::format("const {0} i = ({0})blockIdx.x * {1}u + threadIdx.x;\nif (i >= {2}u) return;\n",
                  space.index_type(), kThreads, count);
  text += coordinates(space, "i");
  text += fmt::format("const i64 at = {};\n", place(space, 0));
  text += body(names);
  const Grid grid{static_cast<unsigned>((count + kThreads - 1) / kThreads), 1, 1, kThreads};
  kernel(what, grid, std::move(reads), std::move(results), text);
}

void Planner::copy(const std::string& what, const View& from, const View& to) {
  Fused fused;
  fused.what = what;
  fused.dims = to.dims;
  fused.leaves.push_back(broadcast(from, to.dims));
  fused.results.push_back({to, "x0_"});
  emit_pointwise(*this, fused);
}

void Planner::step(Step step) { plan_.steps.push_back(std::move(step)); }

void Planner::bind_inputs() {
  const std::vector<ValueId> inputs = graph_.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    View view = temporary_for(inputs[i]);
    Buffer& buffer = plan_.buffers[static_cast<std::size_t>(view.buffer)];
    buffer.place = Buffer::Place::kInput;
    buffer.index = i;
    plan_.inputs.push_back(view);
    views_[inputs[i]] = std::move(view);
  }
}

void Planner::bind_constant(ValueId value) {
  View view = temporary_for(value);
  Buffer& buffer = plan_.buffers[static_cast<std::size_t>(view.buffer)];
  buffer.place = Buffer::Place::kConstant;
  buffer.constant = graph_.constant(value).share();
  views_[value] = std::move(view);
}

void Planner::bind_outputs() {
  what_ = "the results";
  const std::vector<ValueId> outputs = graph_.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    View made = view(outputs[i]);
    Buffer* buffer = &plan_.buffers[static_cast<std::size_t>(made.buffer)];
    const bool is_own = buffer->place == Buffer::Place::kTemporary && made.offset == 0 &&
                        made.is_row_major() && buffer->bytes == bytes_of(made.dtype, made.count());
    if (!is_own) {
      const View copied = temporary(made.dtype, made.dims);
      copy("a copy for the results", made, copied);
      made = copied;
      buffer = &plan_.buffers[static_cast<std::size_t>(made.buffer)];
    }
    buffer->place = Buffer::Place::kOutput;
    buffer->index = i;
    plan_.outputs.push_back(std::move(made));
  }
}

Plan Planner::run() {
  plan_.name = function_.name;
  plan_.definitions = prelude();
  bind_inputs();
  for (const ValueId constant : graph_.constants()) {
    // Those that decide about sizes, and texts, are on no device.
    const DType dtype = graph_.type(constant).dtype();
    if (has_type(dtype) || is_narrow(dtype)) bind_constant(constant);
  }
  for (const NodeId id : graph_.nodes()) {
    const NodeView node = graph_.node(id);
    for (const std::vector<ValueId>& values : {node.inputs(), node.outputs()}) {
      for (const ValueId value : values) {
        if (value.valid() && is_narrow(graph_.type(value).dtype())) define_code(narrow_numbers());
      }
    }
  }
  for (const Group& group : make_groups(graph_, options_)) {
    const NodeView last = graph_.node(group.nodes.back());
    what_ = fmt::format("{} '{}'", last.qualified_op(), last.name());
    if (group.nodes.size() > 1) {
      std::string ops;
      for (const NodeId id : group.nodes) {
        ops += (ops.empty() ? "" : "+") + std::string(graph_.node(id).op());
      }
      what_ = fmt::format("{} '{}'", ops, last.name());
    }
    emit_group(*this, group);
  }
  bind_outputs();
  lay_out(plan_);
  return std::move(plan_);
}

}  // namespace xrt::cuda
