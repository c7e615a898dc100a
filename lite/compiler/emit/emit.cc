// SPDX-License-Identifier: Apache-2.0
#include "emit/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emit/pack.h"
#include "xrt/error.h"

namespace xrt::lite {

std::int32_t word(std::int64_t v) {
  if (v < INT32_MIN || v > INT32_MAX) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a size or stride of {} elements: lite counts in 32 bits", v));
  }
  return static_cast<std::int32_t>(v);
}

void Emitter::find_storages() {
  storage_.assign(graph_.values.size(), -1);
  for (std::size_t v = 0; v < graph_.values.size(); ++v) {
    if (graph_.values[v].input < 0) continue;
    storage_[v] = static_cast<int>(module_.storages.size());
    Storage s;
    s.name = graph_.values[v].name;
    s.input = graph_.values[v].input;
    module_.storages.push_back(s);
  }
  for (const LOp& op : graph_.ops) {
    const auto y = static_cast<std::size_t>(op.y);
    const LValue& out = graph_.values[y];
    if (places_.values[y].base != op.y) continue;
    storage_[y] = static_cast<int>(module_.storages.size());
    Storage s;
    s.name = out.name;
    s.bytes = byte_count(out.dtype, out.dims);
    module_.storages.push_back(s);
  }
  for (const LOp& op : graph_.ops) {
    const auto y = static_cast<std::size_t>(op.y);
    const int base = places_.values[y].base;
    if (base == op.y) continue;
    storage_[y] = storage_[static_cast<std::size_t>(base)];
    if (storage_[y] < 0) constants_[op.y] = operand(base).index;
  }
}

std::int32_t Emitter::pitch(int v) const { return word(pixel_pitch(strides(v), value(v).dims)); }

Operand Emitter::constant(const std::string& bytes, DType dtype) {
  const auto [at, fresh] = shared_.try_emplace(bytes, static_cast<int>(module_.constants.size()));
  if (fresh) module_.constants.push_back(bytes);
  return {Operand::At::kConstant, at->second, 0, bytes.size(), dtype};
}

Operand Emitter::constant(const Tensor& tensor) {
  return constant(std::string(tensor.data<char>(), tensor.bytes()), tensor.dtype());
}

Operand Emitter::operand(int v) {
  const LValue& x = value(v);
  const std::size_t bytes = byte_count(x.dtype, x.dims);
  const int s = storage_[static_cast<std::size_t>(v)];
  if (s >= 0) {
    const Place& place = places_.values[static_cast<std::size_t>(v)];
    const auto element = static_cast<std::size_t>(bit_width(x.dtype) / 8);
    std::size_t reach = 1;
    for (std::size_t d = 0; d < x.dims.size(); ++d) {
      reach += static_cast<std::size_t>((x.dims[d] - 1) * place.strides[d]);
    }
    return {Operand::At::kStorage, s, static_cast<std::size_t>(place.offset) * element,
            bytes == 0 ? 0 : reach * element, x.dtype};
  }
  const auto known = constants_.find(v);
  if (known != constants_.end()) return {Operand::At::kConstant, known->second, 0, bytes, x.dtype};
  const Operand made = constant(reordered(x.constant, x.order), x.dtype);
  constants_[v] = made.index;
  return made;
}

int Emitter::choose(const LOp& op, xrt_kernel_id kernel, const void* params) {
  std::string reasons;
  for (std::size_t t = 0; t < module_.targets.size(); ++t) {
    const auto refusal = module_.targets[t]->refuses(kernel, params);
    if (!refusal) return static_cast<int>(t);
    reasons += fmt::format(" {}: {}.", module_.targets[t]->name(), *refusal);
  }
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("op '{}': no target takes it.{} Add one with --targets", op.name, reasons));
}

void Emitter::push(const LOp& op, xrt_kernel_id kernel, const void* params, std::size_t bytes,
                   std::vector<Operand> operands, int target, double work) {
  ModuleOp m;
  m.name = op.name;
  m.kernel = kernel;
  m.params.resize(bytes / 4);
  std::memcpy(m.params.data(), params, bytes);
  m.output = static_cast<int>(operands.size()) - 1;
  m.operands = std::move(operands);
  m.target = target;
  m.work = work;
  const std::size_t scratch =
      module_.targets[static_cast<std::size_t>(target)]->scratch_bytes(kernel, params);
  if (scratch > 0) {
    m.scratch = static_cast<int>(module_.storages.size());
    Storage s;
    s.name = op.name + "/scratch";
    s.bytes = scratch;
    s.first = s.last = static_cast<int>(module_.ops.size());
    module_.storages.push_back(s);
  }
  module_.ops.push_back(std::move(m));
}

void Emitter::find_lives() {
  for (Storage& s : module_.storages) s.first = s.last = -1;
  const auto touch = [&](int storage, int at) {
    Storage& s = module_.storages[static_cast<std::size_t>(storage)];
    s.first = s.first < 0 ? at : std::min(s.first, at);
    s.last = std::max(s.last, at);
  };
  for (const ModuleOp& op : module_.ops) {
    for (const Operand& o : op.operands) {
      if (o.at == Operand::At::kStorage) touch(o.index, op.time);
    }
    if (op.scratch >= 0) touch(op.scratch, op.time);
  }
  for (const ModuleStep& step : module_.steps) {
    if (step.function >= 0) continue;
    touch(step.from, step.time);
    touch(step.to, step.time);
  }
  for (Storage& s : module_.storages) {
    if (s.first < 0) s.bytes = 0;  // nothing touches it
  }
}

// An output that takes over the memory of an operand that is read for the last time.
void Emitter::share_in_place() {
  for (std::size_t i = 0; i < module_.ops.size(); ++i) {
    const ModuleOp& op = module_.ops[i];
    const Operand& y = op.operands[static_cast<std::size_t>(op.output)];
    Storage& to = module_.storages[static_cast<std::size_t>(y.index)];
    if (to.output >= 0 || to.first != op.time || y.bytes != to.bytes) continue;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      const Operand& x = op.operands[k];
      if (static_cast<int>(k) == op.output || x.at != Operand::At::kStorage) continue;
      const Storage& from = module_.storages[static_cast<std::size_t>(x.index)];
      if (from.input >= 0 || from.output >= 0 || from.last != op.time || from.bytes != to.bytes ||
          x.bytes != from.bytes || x.dtype != y.dtype || x.index == y.index) {
        continue;
      }
      bool fits = false;
      if (op.kernel == XRT_K_EW) {
        // Read and written at the same places: the input is dense over the same dimensions.
        xrt_k_ew p;
        std::memcpy(&p, op.params.data(), sizeof(p));
        xrt_ew_input in;
        std::memcpy(&in, op.params.data() + sizeof(p) / 4 + k * sizeof(in) / 4, sizeof(in));
        std::int64_t step = 1;
        fits = true;
        for (int d = XRT_EW_MAX_RANK - 1; d >= 0; --d) {
          if (p.dims[d] > 1 && in.strides[d] != step) fits = false;
          step *= p.dims[d];
        }
      } else if (op.kernel == XRT_K_CONV_F32 || op.kernel == XRT_K_CONV_Q8 ||
                 op.kernel == XRT_K_DWCONV_F32 || op.kernel == XRT_K_DWCONV_Q8) {
        xrt_k_conv p;
        std::memcpy(&p, op.params.data(), sizeof(p));
        fits = (p.flags & XRT_HAS_RESIDUAL) != 0 && static_cast<int>(k) == op.output - 1 &&
               x.index != op.operands[0].index && p.r_pitch == p.y_pitch;
      } else if (op.kernel == XRT_K_GEMM_F32 || op.kernel == XRT_K_GEMM_Q8) {
        xrt_k_gemm p;
        std::memcpy(&p, op.params.data(), sizeof(p));
        fits = (p.flags & XRT_HAS_RESIDUAL) != 0 && static_cast<int>(k) == op.output - 1 &&
               x.index != op.operands[0].index && x.index != op.operands[1].index;
      }
      if (!fits) continue;
      to.shares = x.index;
      break;
    }
  }
}

Module Emitter::run() {
  find_storages();
  for (const int v : graph_.inputs) {
    module_.inputs.push_back({value(v).name, value(v).dtype, value(v).dims});
  }
  for (const LOp& op : graph_.ops) {
    std::visit([&](const auto& k) { emit(op, k); }, op.kind);
  }
  // Outputs: written straight into the caller's buffer where one storage is one output.
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const int v = graph_.outputs[i];
    module_.outputs.push_back({graph_.output_names[i], value(v).dtype, value(v).dims});
    const int s = storage_[static_cast<std::size_t>(v)];
    if (s >= 0 && module_.storages[static_cast<std::size_t>(s)].input < 0 &&
        module_.storages[static_cast<std::size_t>(s)].output < 0 &&
        operand(v).bytes == module_.storages[static_cast<std::size_t>(s)].bytes) {
      module_.storages[static_cast<std::size_t>(s)].output = static_cast<int>(i);
      continue;
    }
    Storage copy;
    copy.name = graph_.output_names[i];
    copy.bytes = byte_count(value(v).dtype, value(v).dims);
    copy.output = static_cast<int>(i);
    xrt_k_copy p = {};
    p.rank = 1;
    p.dims[0] = word(value(v).count());
    p.x_strides[0] = p.y_strides[0] = 1;
    p.element_bytes = bit_width(value(v).dtype) / 8;
    Operand from = operand(v);
    const Operand to = {Operand::At::kStorage, static_cast<int>(module_.storages.size()), 0,
                        copy.bytes, value(v).dtype};
    module_.storages.push_back(copy);
    push({graph_.output_names[i] + "/copy", LView{}, -1, false}, XRT_K_COPY, p, {from, to});
  }
  partition(module_);
  merge_functions(module_);
  find_lives();
  share_in_place();
  for (const std::string& c : module_.constants) module_.weight_bytes += c.size();
  return std::move(module_);
}

Module emit(const LGraph& graph, const std::vector<const Target*>& targets, Precision precision) {
  return Emitter(graph, targets, precision).run();
}

}  // namespace xrt::lite
