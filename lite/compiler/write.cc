// SPDX-License-Identifier: Apache-2.0
// The file: tables, then code and weights. Targets with the host's memory share one arena, that of
// target 0.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>

#include "internal.h"
#include "module.h"
#include "xrt/error.h"

namespace xrt::lite {
namespace {

class Strings {
 public:
  std::uint32_t add(const std::string& s) {
    const auto [at, fresh] = known_.try_emplace(s, static_cast<std::uint32_t>(bytes_.size()));
    if (fresh) bytes_ += s, bytes_ += '\0';
    return at->second;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_ = std::string(1, '\0');  // offset 0: the empty string
  std::map<std::string, std::uint32_t> known_;
};

std::size_t aligned(std::size_t v, std::size_t to) { return (v + to - 1) / to * to; }

class Writer {
 public:
  explicit Writer(const Module& module) : m_(module) {}

  std::string run() {
    place_targets();
    place_data();
    for (const ModuleOp& op : m_.ops) add(op);
    for (const ModulePort& p : m_.inputs) add(p);
    for (const ModulePort& p : m_.outputs) add(p);
    std::vector<xrt_file_step> steps;
    for (const ModuleStep& step : m_.steps) {
      if (step.function >= 0) {
        steps.push_back({XRT_STEP_FUNCTION, static_cast<std::uint32_t>(step.function), 0, 0});
      } else {
        steps.push_back({XRT_STEP_TRANSFER, tensor(whole(step.from)), tensor(whole(step.to)), 0});
      }
    }
    bytes_.resize(sizeof(xrt_file_header));
    xrt_file_header h = {};
    h.magic = XRT_FILE_MAGIC;
    h.version = XRT_FILE_VERSION;
    h.input_count = static_cast<std::uint32_t>(m_.inputs.size());
    h.output_count = static_cast<std::uint32_t>(m_.outputs.size());
    h.targets = table(targets_);
    const std::size_t functions_at = aligned(bytes_.size(), 8);
    h.functions = table(functions_);
    h.steps = table(steps);
    h.ops = table(ops_);
    h.operands = table(operands_);
    h.tensors = table(tensors_);
    h.ports = table(ports_);
    h.words = table(words_);
    h.strings = table(strings_.bytes());
    bytes_.resize(aligned(bytes_.size(), 64));
    h.meta_bytes = static_cast<std::uint32_t>(bytes_.size());
    h.data_offset = bytes_.size();
    for (xrt_file_function& f : functions_) {  // offsets so far count from the data
      if (f.blob_bytes > 0) f.blob_offset += h.data_offset;
    }
    std::memcpy(bytes_.data() + functions_at, functions_.data(),
                functions_.size() * sizeof(xrt_file_function));
    h.data_bytes = data_.size();
    h.file_bytes = bytes_.size() + data_.size();
    h.data_checksum = xrt_checksum(data_.data(), data_.size());
    std::memcpy(bytes_.data(), &h, sizeof(h));
    h.meta_checksum =
        xrt_checksum(bytes_.data() + XRT_FILE_CHECKED_FROM, h.meta_bytes - XRT_FILE_CHECKED_FROM);
    std::memcpy(bytes_.data(), &h, sizeof(h));
    bytes_ += data_;
    return std::move(bytes_);
  }

 private:
  template <typename Items>
  xrt_file_table table(const Items& items) {
    bytes_.resize(aligned(bytes_.size(), 8));
    const xrt_file_table result = {static_cast<std::uint32_t>(bytes_.size()),
                                   static_cast<std::uint32_t>(items.size())};
    bytes_.append(reinterpret_cast<const char*>(items.data()),
                  items.size() * sizeof(typename Items::value_type));
    return result;
  }

  // Target 0 has the host's memory.
  void place_targets() {
    file_target_.resize(m_.targets.size());
    for (const bool host : {true, false}) {
      for (std::size_t t = 0; t < m_.targets.size(); ++t) {
        if (m_.targets[t]->host_memory() != host) continue;
        if (!host && targets_.empty()) {
          targets_.push_back({strings_.add("host"), XRT_TARGET_HOST_MEMORY, 0});
        }
        file_target_[t] = static_cast<std::uint32_t>(targets_.size());
        targets_.push_back({strings_.add(m_.targets[t]->name()),
                            host ? std::uint32_t{XRT_TARGET_HOST_MEMORY} : 0,
                            m_.device_arena_bytes[t]});
      }
    }
    targets_[0].arena_bytes = m_.arena_bytes;
  }

  std::size_t place(const std::string& bytes) {
    data_.resize(aligned(data_.size(), 64));
    data_ += bytes;
    return data_.size() - bytes.size();
  }

  // Code, then constants; those of one target together, so that a device takes one range.
  void place_data() {
    for (const ModuleFunction& f : m_.functions) {
      functions_.push_back({file_target_[static_cast<std::size_t>(f.target)],
                            static_cast<std::uint32_t>(f.first_op),
                            static_cast<std::uint32_t>(f.op_count), 0,
                            f.code.empty() ? 0 : place(f.code), f.code.size()});
    }
    constant_at_.assign(m_.constants.size(), SIZE_MAX);
    for (std::size_t t = 0; t < m_.targets.size(); ++t) {
      for (const ModuleOp& op : m_.ops) {
        if (static_cast<std::size_t>(op.target) != t) continue;
        for (const Operand& o : op.operands) {
          if (o.at != Operand::At::kConstant) continue;
          std::size_t& at = constant_at_[static_cast<std::size_t>(o.index)];
          if (at == SIZE_MAX) at = place(m_.constants[static_cast<std::size_t>(o.index)]);
        }
      }
    }
    data_.resize(aligned(data_.size(), 64));
  }

  Operand whole(int storage) const {
    const Storage& s = m_.storages[static_cast<std::size_t>(storage)];
    return {Operand::At::kStorage, storage, 0, storage_bytes(m_, s), DType::kUInt8};
  }

  std::uint32_t tensor(const Operand& o) {
    xrt_file_tensor t = {};
    t.bytes = o.bytes;
    t.dtype = static_cast<std::uint32_t>(o.dtype);
    if (o.at == Operand::At::kConstant) {
      t.at = XRT_AT_DATA;
      t.offset = constant_at_[static_cast<std::size_t>(o.index)] + o.offset;
    } else {
      const Storage& s = m_.storages[static_cast<std::size_t>(o.index)];
      t.offset = s.offset + o.offset;
      t.at = XRT_AT_ARENA;
      if (s.device >= 0) t.target = file_target_[static_cast<std::size_t>(s.device)];
      if (s.input >= 0) t.at = XRT_AT_INPUT, t.port = static_cast<std::uint32_t>(s.input);
      if (s.output >= 0) t.at = XRT_AT_OUTPUT, t.port = static_cast<std::uint32_t>(s.output);
    }
    const std::string key(reinterpret_cast<const char*>(&t), sizeof(t));
    const auto [at, fresh] = known_.try_emplace(key, static_cast<std::uint32_t>(tensors_.size()));
    if (fresh) tensors_.push_back(t);
    return at->second;
  }

  void add(const ModuleOp& op) {
    xrt_file_op o = {};
    o.kernel = op.kernel;
    o.params = static_cast<std::uint32_t>(words_.size());
    o.param_words = static_cast<std::uint32_t>(op.params.size());
    words_.insert(words_.end(), op.params.begin(), op.params.end());
    o.operands = static_cast<std::uint32_t>(operands_.size());
    o.operand_count = static_cast<std::uint32_t>(op.operands.size());
    for (const Operand& operand : op.operands) operands_.push_back(tensor(operand));
    o.scratch = -1;
    if (op.scratch >= 0) {
      const Storage& s = m_.storages[static_cast<std::size_t>(op.scratch)];
      o.scratch = static_cast<std::int32_t>(
          tensor({Operand::At::kStorage, op.scratch, 0, s.bytes, DType::kUInt8}));
    }
    o.name = strings_.add(op.name);
    ops_.push_back(o);
  }

  void add(const ModulePort& port) {
    xrt_file_port p = {};
    if (port.dims.size() > XRT_LITE_MAX_RANK) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("'{}' has {} dimensions: lite has ports of {} at most", port.name,
                              port.dims.size(), XRT_LITE_MAX_RANK));
    }
    p.name = strings_.add(port.name);
    p.dtype = static_cast<std::uint32_t>(port.dtype);
    p.rank = static_cast<std::uint32_t>(port.dims.size());
    p.bytes = byte_count(port.dtype, port.dims);
    std::copy(port.dims.begin(), port.dims.end(), p.dims);
    ports_.push_back(p);
  }

  const Module& m_;
  Strings strings_;
  std::string bytes_, data_;
  std::vector<std::size_t> constant_at_;
  std::vector<xrt_file_target> targets_;
  std::vector<std::uint32_t> file_target_;  // of the module's targets
  std::vector<xrt_file_function> functions_;
  std::vector<xrt_file_op> ops_;
  std::vector<std::uint32_t> operands_, words_;
  std::vector<xrt_file_tensor> tensors_;
  std::vector<xrt_file_port> ports_;
  std::map<std::string, std::uint32_t> known_;
};

// Throws where the runtime would refuse the file, naming what of the model it refuses: nobody can
// tell from "a damaged file" what to change.
void check_loads(const std::string& bytes) {
  xrt_view view = {};
  const xrt_lite_status status = xrt_view_open(bytes.data(), bytes.size(), &view);
  if (status == XRT_LITE_OK) return;
  std::string what = "the model";
  if (view.strings != nullptr) {  // the tables lie where they should
    const xrt_file_header& h = *view.header;
    for (std::uint32_t i = h.ops.count; i-- > 0;) {
      const xrt_file_op& op = view.ops[i];
      bool fits = xrt_check_op(&view, &op) == XRT_LITE_OK;
      for (std::uint32_t k = 0; k < op.operand_count; ++k) {
        if (view.tensors[view.operands[op.operands + k]].bytes == 0) fits = false;
      }
      if (!fits) what = fmt::format("node '{}'", view.strings + op.name);
    }
    for (std::uint32_t i = h.ports.count; i-- > 0;) {
      const xrt_file_port& p = view.ports[i];
      const std::vector<std::int64_t> dims(p.dims, p.dims + p.rank);
      const std::size_t total = p.bytes;
      const bool known = p.dtype == XRT_LITE_F32 || p.dtype == XRT_LITE_U8 ||
                         p.dtype == XRT_LITE_I8 || p.dtype == XRT_LITE_I32 ||
                         p.dtype == XRT_LITE_I64 || p.dtype == XRT_LITE_BOOL ||
                         p.dtype == XRT_LITE_F16;
      if (known && total != 0 && total <= std::size_t{1} << 32) continue;
      what = fmt::format("{} '{}' of {}{}", i < h.input_count ? "input" : "output",
                         view.strings + p.name, to_string(static_cast<DType>(p.dtype)),
                         to_string(dims));
    }
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: lite's runtime would not load what it becomes ({})", what,
                          xrt_lite_message(status)));
}

}  // namespace

std::string write_file(const Module& module) {
  std::string bytes = Writer(module).run();
  check_loads(bytes);
  return bytes;
}

}  // namespace xrt::lite
