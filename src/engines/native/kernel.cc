// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernel.h"

#include <algorithm>

#include "engines/native/context.h"
#include "engines/native/executable.h"
#include "engines/native/kernels/control/custom_op.h"

namespace xrt::native {

namespace {

const Type& absent_type() {
  static const Type type;
  return type;
}

std::string qualified(std::string_view domain, std::string_view op) {
  return domain.empty() ? std::string(op) : std::string(domain) + "." + std::string(op);
}

Support check_type(const Type& type, DTypeSet set, const char* what, std::size_t i) {
  if (!type.is_tensor()) {
    return Support::no(std::string(what) + " " + std::to_string(i) + " is " + to_string(type) +
                       ", not a tensor");
  }
  if (type.dtype == DType::kUndefined || set.contains(type.dtype)) return Support::yes();
  return Support::no(std::string(what) + " " + std::to_string(i) + " has element type " +
                     std::string(to_string(type.dtype)));
}

}  // namespace

const Type& NodeView::input_type(std::size_t i) const {
  const ValueId id = node_.input(i);
  return id.valid() ? graph_.type(id) : absent_type();
}

const Type& NodeView::output_type(std::size_t i) const {
  const ValueId id = node_.output(i);
  return id.valid() ? graph_.type(id) : absent_type();
}

const Tensor* NodeView::constant_input(std::size_t i) const {
  const ValueId id = node_.input(i);
  return id.valid() ? graph_.constant(id) : nullptr;
}

Support NodeView::check_input(std::size_t i, DTypeSet set) const {
  return has_input(i) ? check_type(input_type(i), set, "input", i) : Support::yes();
}

Support NodeView::check_output(std::size_t i, DTypeSet set) const {
  return has_output(i) ? check_type(output_type(i), set, "output", i) : Support::yes();
}

const Data& KernelContext::input_data(std::size_t i) const {
  if (!has_input(i)) {
    throw Error(ErrorCode::kInvalidArgument, "input " + std::to_string(i) + " is left out");
  }
  return *owner_->values[input_slots_[i]];
}

const Tensor& KernelContext::input(std::size_t i) const { return input_data(i).tensor(); }

Data KernelContext::owned_input(std::size_t i) const {
  const Data& data = input_data(i);
  return is_borrowed(i) ? clone_data(data) : data;
}

Data KernelContext::taken_input(std::size_t i) const {
  if (!has_input(i) || last_uses_[i] == 0) return owned_input(i);
  return owner_->take(input_slots_[i]);
}

bool KernelContext::is_borrowed(std::size_t i) const {
  return has_input(i) && owner_->borrowed(input_slots_[i]);
}

Tensor& KernelContext::output(std::size_t i, DType dtype, const Dims& dims) {
  return wants_output(i) ? owner_->prepare(output_slots_[i], dtype, dims)
                         : owner_->discard(dtype, dims);
}

void KernelContext::output_view(std::size_t i, std::size_t input_index, const Dims& dims) {
  if (!wants_output(i)) return;
  owner_->prepare_view(output_slots_[i], input(input_index), dims);
}

void KernelContext::set_output(std::size_t i, Data data) {
  if (wants_output(i)) owner_->store(output_slots_[i], std::move(data));
}

std::byte* KernelContext::scratch(std::size_t bytes) { return owner_->scratch(bytes); }

std::shared_ptr<const Executable> KernelCreateContext::compile_body(const Graph& body) const {
  return std::make_shared<NativeExecutable>(body, registry_, options_, threads_);
}

void KernelRegistry::add(KernelDef def) {
  auto& list = defs_[{def.domain, def.op}];
  const auto place = std::find_if(list.begin(), list.end(), [&](const KernelDef& other) {
    return other.priority < def.priority;
  });
  list.insert(place, std::move(def));
}

const KernelDef* KernelRegistry::find(const NodeView& node, std::string* reason) const {
  const auto found = defs_.find(std::pair(node.node().domain, node.node().op));
  if (found == defs_.end()) {
    if (const KernelDef* def = custom_op_kernel(node)) return def;
    if (reason) *reason = "no kernel for " + node.node().qualified_op();
    return nullptr;
  }
  std::string reasons;
  for (const KernelDef& def : found->second) {
    if (!def.supports) return &def;
    const Support support = def.supports(node);
    if (support) return &def;
    if (reasons.find(support.reason()) != std::string::npos) continue;
    if (!reasons.empty()) reasons += "; ";
    reasons += support.reason();
  }
  if (reason) *reason = std::move(reasons);
  return nullptr;
}

std::vector<std::string> KernelRegistry::ops() const {
  std::vector<std::string> names;
  for (const auto& [key, list] : defs_) names.push_back(qualified(key.first, key.second));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace xrt::native
