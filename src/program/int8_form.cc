// SPDX-License-Identifier: Apache-2.0
#include "program/int8_form.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "ops/canonical.h"
#include "ops/shape_inference.h"
#include "placement/estimates.h"
#include "placement/survey.h"
#include "registry/engine_manifest.h"
#include "xrt/error.h"
#include "xrt/registry.h"

namespace xrt {
namespace {

// A convolution as quantize() writes it.
Graph sample_graph(const Int8Form& form) {
  Graph graph("int8");
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Dims{1, 8, 8, 8}));
  Tensor weights = Tensor::allocate(DType::kFloat32, {8, 8, 3, 3});
  for (std::int64_t i = 0; i < weights.count(); ++i) {
    weights.data<float>()[i] = static_cast<float>(i % 7 - 3);
  }
  Tensor bias = Tensor::allocate(DType::kFloat32, {8});
  std::fill_n(bias.data<float>(), bias.count(), 1.0F);
  const ValueId w = graph.add_constant("w", std::move(weights));
  const ValueId b = graph.add_constant("b", std::move(bias));
  graph.add_output(graph.add_op("Conv", {x, w, b}, {}, "y"));
  infer_shapes(graph);
  canonicalize(graph);
  QuantizeOptions options;
  form.set(options);
  quantize(graph, {{"x", {-1, 1}}, {"y", {-1, 1}}}, options);
  return graph;
}

bool takes(const Engine& engine, const Graph& graph, const ProgramOptions& options) {
  return taken(ask(engine, graph, options), graph) == graph.node_count();
}

struct Candidate {
  Int8Form form;
  Graph graph;
};

}  // namespace

Int8Form int8_form_for(const ProgramOptions& options, std::optional<Activations> wanted) {
  std::vector<Candidate> candidates;
  for (const Int8Form& form :
       {Int8Form{Activations::kAsymmetric, false}, Int8Form{Activations::kSymmetric, true},
        Int8Form{Activations::kSymmetric, false}}) {
    if (!wanted || form.activations == *wanted) candidates.push_back({form, sample_graph(form)});
  }
  bool symmetric = false;  // is faster
  for (const std::string& name : is_auto(options) ? auto_candidates(options) : options.engines) {
    std::shared_ptr<const Engine> engine;
    try {
      engine = get_engine(name);
    } catch (const Error& error) {  // loading the program says whether it can do without
      log_info("the form of int8: engine '" + name + "' is not asked: " + error.what());
      continue;
    }
    ProgramOptions asked = options;
    if (device_for(*engine, options).empty()) asked.device = engine->info().devices.front().name;
    std::vector<Candidate> left;
    std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(left),
                 [&](const Candidate& c) { return takes(*engine, c.graph, asked); });
    if (left.empty()) continue;  // it does not compute in int8 at all
    candidates = std::move(left);
    symmetric = symmetric || engine_manifest(name).fast_with_symmetric_int8;
  }
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) {
    return !symmetric || c.form.activations == Activations::kSymmetric;
  });
  return (found == candidates.end() ? candidates.front() : *found).form;
}

}  // namespace xrt
