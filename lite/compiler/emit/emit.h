// SPDX-License-Identifier: Apache-2.0
// From ops on values to kernels on memory.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "lir/layout.h"
#include "lir/places.h"
#include "module.h"

namespace xrt::lite {

class Emitter {
 public:
  Emitter(const LGraph& graph, const std::vector<const Target*>& targets, Precision precision)
      : graph_(graph), precision_(precision) {
    module_.targets = targets;
    module_.name = graph.name;
    // Devices copy whole storages and compilers of whole models know no strides.
    places_ = find_places(graph, std::all_of(targets.begin(), targets.end(),
                                             [](const Target* t) { return t->host_memory(); }));
  }
  Module run();

 private:
  const LValue& value(int v) const { return graph_.values[static_cast<std::size_t>(v)]; }
  const std::vector<std::int64_t>& strides(int v) const {
    return places_.values[static_cast<std::size_t>(v)].strides;
  }
  std::int32_t pitch(int v) const;
  void find_storages();
  void find_lives();
  void share_in_place();

  // Operands.
  Operand operand(int v);
  Operand constant(const std::string& bytes, DType dtype);
  Operand constant(const Tensor& tensor);

  // One per kind of op (emit_sums.cc, emit_data.cc).
  void emit(const LOp& op, const LConv& k);
  void emit(const LOp& op, const LGemm& k);
  void emit(const LOp& op, const LPool& k);
  void emit(const LOp& op, const LEw& k);
  void emit(const LOp&, const LView&) {}
  void emit(const LOp& op, const LCopy& k);
  void emit(const LOp& op, const LReduce& k);
  void emit(const LOp& op, const LSoftmax& k);
  void emit(const LOp& op, const LNorm& k);
  void emit(const LOp& op, const LGather& k);
  void emit(const LOp& op, const LResize& k);
  void emit(const LOp& op, const LArg& k);

  // The first target that takes a kernel with these parameters.
  int choose(const LOp& op, xrt_kernel_id kernel, const void* params);
  void push(const LOp& op, xrt_kernel_id kernel, const void* params, std::size_t bytes,
            std::vector<Operand> operands, int target, double work = 0);
  template <typename Params>
  void push(const LOp& op, xrt_kernel_id kernel, const Params& params,
            std::vector<Operand> operands, double work = 0) {
    push(op, kernel, &params, sizeof(params), std::move(operands), choose(op, kernel, &params),
         work);
  }

  const LGraph& graph_;
  Precision precision_;
  Places places_;
  Module module_;
  std::vector<int> storage_;           // value -> storage, -1 for constants
  std::map<int, int> constants_;       // value -> constant
  std::map<std::string, int> shared_;  // bytes -> constant
};

// A count or stride as a kernel parameter; throws kUnsupported beyond 2^31.
std::int32_t word(std::int64_t v);

}  // namespace xrt::lite
