// SPDX-License-Identifier: Apache-2.0
// xrt-lite-run FILE: runs a compiled model, times it, compares it with the model it came from.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "base/file.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/text.h"
#include "compile.h"
#include "data/npy.h"
#include "host_model.h"
#include "kernel_names.h"
#include "measure/difference.h"
#include "tool.h"
#include "xrt/error.h"

namespace xrt::lite {
namespace {
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Profile {
  Clock::time_point last;
  std::map<int, std::pair<int, double>> kernels;  // id -> calls, seconds
};

void observe(void* user, std::int32_t, std::int32_t kernel) {
  auto* p = static_cast<Profile*>(user);
  const Clock::time_point now = Clock::now();
  auto& [calls, seconds] = p->kernels[kernel];
  ++calls;
  seconds += std::chrono::duration<double>(now - p->last).count();
  p->last = now;
}

// What the model that the file was compiled from computes, on the native engine.
std::vector<Tensor> reference(const std::string& path, const HostModel& model,
                              const std::vector<Tensor>& inputs) {
  Graph graph = load_model(path);
  std::map<std::string, Data> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[model.inputs()[i].name] = inputs[i];
  const auto program = Program::compile(std::move(graph), {.engines = {fallback_engine()}});
  std::vector<Tensor> result;
  for (const Data& d : program->run(values)) result.push_back(d.tensor());
  return result;
}

int run_command(int argc, char** argv) {
  CLI::App app("Runs a model compiled by xrt-lite-compile", "xrt-lite-run");
  std::string file, against, save;
  int threads = 0, repeat = 0, top = 0;
  double tolerance = 1e-4;
  bool profile = false, verify = false;
  cli::InputOptions input_options;
  app.add_option("FILE", file, "a compiled model")->required();
  cli::add_input_options(app, input_options);
  app.add_option("--threads", threads, "threads (default: the process's budget)");
  app.add_option("--top", top, "print the K largest elements of each output with their indices");
  app.add_option("--repeat", repeat, "runs to time after the first one")->capture_default_str();
  app.add_option("--reference", against,
                 "the model it was compiled from: its outputs on the native engine are compared");
  app.add_option("--tolerance", tolerance, "largest difference, as a share of an output's range")
      ->capture_default_str();
  app.add_option("--output", save, "writes the outputs to this .npz");
  app.add_flag("--profile", profile, "time per kernel");
  app.add_flag("--verify", verify, "compare the checksum of the weights, too");
  return run_tool(app, argc, argv, [&] {
    const Clock::time_point begin = Clock::now();
    HostModel model(file, threads, verify);
    const double load = seconds_since(begin);
    std::vector<std::string> notes;
    const std::vector<Data> values = cli::make_inputs(model.inputs(), input_options, notes);
    std::vector<Tensor> inputs, outputs = model.allocate_outputs();
    for (const Data& d : values) inputs.push_back(d.tensor());
    for (const std::string& n : notes) std::fputs(fmt::format("note: {}\n", n).c_str(), stderr);
    model.bind(inputs, outputs);
    model.run();
    fmt::print("loaded in {}\n", cli::time_text(load));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      cli::print_data(model.outputs()[i].name, outputs[i], top);
    }
    if (repeat > 0) {
      Profile p;
      if (profile) xrt_lite_observe(model.context(), observe, &p);
      std::vector<double> times;
      for (int i = 0; i < repeat; ++i) {
        const Clock::time_point start = p.last = Clock::now();
        model.run();
        times.push_back(seconds_since(start));
      }
      std::sort(times.begin(), times.end());
      fmt::print("median of {} runs: {} (least {})\n", repeat,
                 cli::time_text(times[times.size() / 2]), cli::time_text(times.front()));
      std::vector<std::vector<std::string>> rows = {{"kernel", "calls", "time"}};
      for (const auto& [kernel, row] : p.kernels) {
        rows.push_back({kernel_name(kernel), std::to_string(row.first / repeat),
                        cli::time_text(row.second / repeat)});
      }
      if (profile) fmt::print("{}", cli::table(rows, {1, 2}));
    }
    if (!save.empty()) {
      std::map<std::string, Tensor> arrays;
      for (std::size_t i = 0; i < outputs.size(); ++i) arrays[model.outputs()[i].name] = outputs[i];
      write_npz(save, arrays);
    }
    if (against.empty()) return static_cast<int>(cli::kOk);
    const std::vector<Tensor> expected = reference(against, model, inputs);
    if (expected.size() != outputs.size()) {
      throw Error(ErrorCode::kInvalidArgument, against + " has other outputs");
    }
    bool within = true;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Difference d = compare(outputs[i], expected[i], 0, 0);
      const bool good = outputs[i].dtype() == expected[i].dtype() &&
                        outputs[i].dims() == expected[i].dims() && d.max_of_range <= tolerance;
      within = within && good;
      fmt::print("{}: differs by {:.2e} of its range{}\n", model.outputs()[i].name, d.max_of_range,
                 good ? "" : fmt::format(" (more than {:g})", tolerance));
    }
    return static_cast<int>(within ? cli::kOk : cli::kMismatch);
  });
}

}  // namespace
}  // namespace xrt::lite

int main(int argc, char** argv) { return xrt::lite::run_command(argc, argv); }
