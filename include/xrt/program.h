// SPDX-License-Identifier: Apache-2.0
// A program: a graph, placed on engines, compiled and ready to run.
//
//   auto program = xrt::Program::load("model.onnx", {.engines = {"openvino", "native"}});
//   std::vector<xrt::Data> outputs = program->run({{"x", tensor}});
//
// run() is thread-safe. Inputs are read from the caller's memory; an output tensor that the caller
// supplies is written in place where its shape is right.
//
// Inputs of a program on a GPU may lie on the host or on that GPU, in memory that is written
// already (Tensor::wrap with a Device), and so may the memory given for outputs. Where the caller
// gives none, Results says where an output goes:
//
//   program->run(inputs, outputs, {.results = xrt::Results::kDevice});
//
// submit() does not wait for the run: ProgramOptions::streams of them take place at once.
//
//   xrt::Request request = program->submit({x});
//   outputs = request.get();
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/cache.h"
#include "xrt/explanation.h"
#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/options.h"
#include "xrt/registry.h"
#include "xrt/request.h"
#include "xrt/tensor.h"
#include "xrt/threads.h"

namespace xrt {

// Where outputs lie that the caller supplies no tensor for.
enum class Results : std::uint8_t {
  kLikeInputs,  // on the program's device if any input lies on it, else on the host
  kHost,
  kDevice,  // on ProgramOptions::device; strings, sequences and types narrower than a byte: the
            // host
};

struct RunOptions {
  Results results = Results::kLikeInputs;
  // Seconds until the run ends with kResource; 0: ProgramOptions::deadline_s. Outputs are then as a
  // run leaves them that failed.
  double timeout_s = 0;
  // Of submit(), where ProgramOptions::max_queue requests wait already: wait for room, else it is
  // kResource.
  bool wait_for_room = true;
};

struct Port {
  std::string name;
  Type type;
  bool has_default = false;  // an input with an initializer may be left out
};

class XRT_API Program {
 public:
  virtual ~Program();

  // Throw xrt::Error: kInvalidModel, kUnsupported, kNotFound (engine or file), kEngine.
  static std::shared_ptr<Program> load(const std::filesystem::path& path,
                                       const ProgramOptions& options = {});
  static std::shared_ptr<Program> load_bytes(std::string_view onnx_bytes,
                                             const ProgramOptions& options = {});
  static std::shared_ptr<Program> compile(Graph graph, const ProgramOptions& options = {});

  virtual const std::vector<Port>& inputs() const = 0;
  virtual const std::vector<Port>& outputs() const = 0;

  // Positional: `inputs` follow inputs(). An input with a default may be none. `outputs` is empty,
  // or has one entry per output: a tensor to be written in place, or none.
  // Wrong count, dtype, rank, dimension, device or two values of one symbol: kInvalidArgument,
  // naming it. When it returns the outputs are written, wherever they lie.
  virtual void run(std::span<const Data> inputs, std::vector<Data>& outputs,
                   const RunOptions& options) = 0;
  void run(std::span<const Data> inputs, std::vector<Data>& outputs) {
    run(inputs, outputs, RunOptions());
  }
  // By name.
  std::vector<Data> run(const std::map<std::string, Data>& inputs);

  // Hands a run over to the threads of the program and returns: runs begin in the order of their
  // submission, and at most streams() take place at once. `outputs` as for run(), which says what
  // else there is to know; memory that inputs and outputs wrap stays until the run has ended. A
  // timeout counts from the beginning of the run. The program may be let go meanwhile: it then
  // waits for what was submitted. `done` is as for Request::on_done(), but never called before
  // submit() has handed the run over. Wrong counts are errors here, all others are those of the
  // request.
  virtual Request submit(std::vector<Data> inputs, const RunOptions& options = {},
                         std::vector<Data> outputs = {},
                         std::function<void(const Request&)> done = {}) = 0;
  // Submitted runs that take place at once.
  virtual int streams() const = 0;

  // Of the plan last run, or of the one for the declared shapes where none was.
  virtual Explanation explain() = 0;
  // Launch events are kept while enabled (the newest 100,000).
  virtual void enable_profile(bool on) = 0;
  virtual std::vector<LaunchEvent> profile() const = 0;
  // As profile(), and forgets them: each is handed out once.
  virtual std::vector<LaunchEvent> take_profile() = 0;
  // Chrome/Perfetto trace of profile().
  std::string trace_json() const;
  // The graph after passes, before partition, as text.
  virtual std::string graph_text() const = 0;
};

}  // namespace xrt
