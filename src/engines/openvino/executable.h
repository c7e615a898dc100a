// SPDX-License-Identifier: Apache-2.0
// A compiled OpenVINO model over caller's memory.
//
// Thread-safety: run() may be called at once with distinct contexts.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <openvino/runtime/compiled_model.hpp>
#include <string>
#include <vector>

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::openvino {

class OpenVinoExecutable : public Executable {
 public:
  // Compiles the model, or imports it; each time a new one.
  using Make = std::function<ov::CompiledModel()>;

  // `function` gives names and dtypes; nothing of it is kept by reference.
  OpenVinoExecutable(Make make, const Function& function, const CompileOptions& options);

  ExecutableInfo info() const override;
  std::unique_ptr<RunContext> create_context() const override;
  void run(const RunArgs& args) const override;
  std::optional<std::string> serialize() const override;

 private:
  struct Port {
    std::string name;
    ov::element::Type type;
    DType dtype = DType::kUndefined;
    bool is_static = false;
    Dims dims;  // if is_static
    // Integer inputs: the absolute value up to which the CPU plugin computes exactly what is done
    // with them; 0: every value.
    std::int64_t bound = 0;
  };
  // Where an output of the function comes from: one of these is set.
  struct Source {
    int computed = -1;  // result of the model
    int input = -1;     // the input itself
    Tensor constant;    // a constant itself
  };

  struct Request;
  class Context;

  // Of each place of summed_ 0, 1 or kSeveral elements.
  using Counts = std::vector<int>;
  static constexpr int kSeveral = 2;
  static constexpr std::size_t kMostModels = 8;  // what comes in more ways is compiled again
  // A dimension of an input.
  struct Place {
    std::size_t input = 0, axis = 0;
  };

  void find_summed(const Graph& graph);
  void check_bound(const Port& port, const Tensor& tensor) const;
  Counts counts_of(std::span<const Data> inputs) const;
  Counts usual_counts() const { return Counts(summed_.size(), kSeveral); }
  ov::CompiledModel model_for(const Counts& counts) const;
  Request& request_for(Context& context, const Counts& counts) const;

  Make make_;
  mutable std::mutex mutex_;  // of models_
  // The plugin compiles the sums of an attention over one key once and for all: a model that has
  // met one computes those over many wrongly. So each model meets either one or several.
  mutable std::map<Counts, ov::CompiledModel> models_;
  std::vector<Place> summed_;  // the sizes that such sums are over, or follow from
  std::string name_;
  std::vector<Port> inputs_;
  std::vector<Port> results_;    // of the model
  std::vector<Source> sources_;  // by output of the function
  std::size_t weight_bytes_ = 0;
  int threads_, streams_;
  bool waits_;    // for a request that another thread runs
  bool exports_;  // what is exported computes the same
};

}  // namespace xrt::openvino
