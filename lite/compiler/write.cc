// SPDX-License-Identifier: Apache-2.0
// The file: tables, then weights. Targets with the host's memory share one arena, that of target 0.
#include <algorithm>
#include <cstring>
#include <map>

#include "internal.h"
#include "module.h"

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

// Consecutive ops of one target.
std::vector<xrt_file_function> functions_of(const Module& m) {
  std::vector<xrt_file_function> result;
  for (std::size_t i = 0; i < m.ops.size(); ++i) {
    const auto target = static_cast<std::uint32_t>(m.ops[i].target);
    if (result.empty() || result.back().target != target) {
      result.push_back({target, static_cast<std::uint32_t>(i), 0, 0, 0, 0});
    }
    ++result.back().op_count;
  }
  return result;
}

class Writer {
 public:
  explicit Writer(const Module& module) : m_(module) {}

  std::string run() {
    place_constants();
    for (const Target* t : m_.targets) {
      targets_.push_back({strings_.add(t->name()), XRT_TARGET_HOST_MEMORY, 0});
    }
    targets_[0].arena_bytes = m_.arena_bytes;
    for (const ModuleOp& op : m_.ops) add(op);
    for (const ModulePort& p : m_.inputs) add(p);
    for (const ModulePort& p : m_.outputs) add(p);
    const std::vector<xrt_file_function> functions = functions_of(m_);
    std::vector<xrt_file_step> steps;
    for (std::size_t i = 0; i < functions.size(); ++i) {
      steps.push_back({XRT_STEP_FUNCTION, static_cast<std::uint32_t>(i), 0, 0});
    }
    bytes_.resize(sizeof(xrt_file_header));
    xrt_file_header h = {};
    h.magic = XRT_FILE_MAGIC;
    h.version = XRT_FILE_VERSION;
    h.input_count = static_cast<std::uint32_t>(m_.inputs.size());
    h.output_count = static_cast<std::uint32_t>(m_.outputs.size());
    h.targets = table(targets_);
    h.functions = table(functions);
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

  void place_constants() {
    for (const std::string& c : m_.constants) {
      data_.resize(aligned(data_.size(), 64));
      constant_at_.push_back(data_.size());
      data_ += c;
    }
    data_.resize(aligned(data_.size(), 64));
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
  std::vector<xrt_file_op> ops_;
  std::vector<std::uint32_t> operands_, words_;
  std::vector<xrt_file_tensor> tensors_;
  std::vector<xrt_file_port> ports_;
  std::map<std::string, std::uint32_t> known_;
};

}  // namespace

std::string write_file(const Module& module) { return Writer(module).run(); }

}  // namespace xrt::lite
