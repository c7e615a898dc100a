// SPDX-License-Identifier: Apache-2.0
// xrt-lite-compile MODEL -o FILE: one file for the lite runtime.
#include "compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "cli/calibration_options.h"
#include "cli/data_options.h"
#include "cli/options.h"
#include "cli/text.h"
#include "program/option_checks.h"
#include "report.h"
#include "tool.h"

namespace xrt::lite {
namespace {

// Before anything is read: the model would be gone, and with it what it was compiled from.
void refuse_model_as_output(const std::string& model, const std::filesystem::path& output) {
  std::error_code error;  // where one of them does not exist
  if (!std::filesystem::equivalent(model, output, error) || error) return;
  throw cli::UsageError(
      fmt::format("'{}' is the model: it would be written over", output.string()));
}

int compile_command(int argc, char** argv) {
  CLI::App app("Compiles a model to one file that the lite runtime runs", "xrt-lite-compile");
  std::string model, output, targets = "generic", precision = "fp32", emit = "bin", report;
  std::vector<std::string> dims;
  app.add_option("MODEL", model, "an ONNX file, a folder saved by OneFlow, or a graph as text")
      ->required();
  app.add_option("-o,--output", output, "the file to write")->required();
  app.add_option(
         "--targets", targets,
         "targets in order of priority, separated by commas: what one cannot run falls to "
         "the next; there are: " +
             [] {
               std::string all;
               for (const auto& n : target_names()) all += (all.empty() ? "" : ", ") + n;
               return all;
             }())
      ->capture_default_str();
  app.add_option("--precision", precision,
                 "fp32; fp16: weights of sums are stored in half precision; int8: Conv, Gemm and "
                 "MatMul in integers, from --calibrate. A model with QuantizeLinear and "
                 "DequantizeLinear runs in int8 whatever this says")
      ->check(CLI::IsMember({"fp32", "fp16", "int8"}))
      ->capture_default_str();
  app.add_option("--emit", emit,
                 "bin: a file. c: C sources, FILE.c and FILE.h, with weights as constants, to be "
                 "built with lite/runtime/drivers/generic, or cortex_m and generic")
      ->check(CLI::IsMember({"bin", "c"}))
      ->capture_default_str();
  app.add_option(
      "--dim", dims,
      "SYMBOL=SIZE: size of a symbolic dimension of the inputs; an unnamed one is INPUT.AXIS");
  app.add_option("--report", report,
                 "an HTML file that shows the plan: memory over steps, work and bytes per step");
  cli::CalibrationOptions calibration;
  cli::add_calibration_options(app, calibration);
  PreparationWishes pictures;
  cli::add_pixel_options(app, pictures);
  return run_tool(app, argc, argv, [&] {
    CompileOptions options;
    options.targets = cli::split_engines(targets);
    if (precision == "fp16") options.precision = Precision::kFloat16;
    if (precision == "int8") options.precision = Precision::kInt8;
    if (!calibration.samples.folder.empty()) {
      if (precision != "int8") throw cli::UsageError("--calibrate is for --precision=int8");
      options.quantize = cli::quantize_options(calibration);
      calibration.samples.image = make_preparation(pictures).image;
      options.samples = [&](const auto& inputs, const auto& use) {
        for_each_sample(calibration.samples, inputs, use);
      };
    }
    for (const std::string& d : dims) {
      const std::size_t at = d.find('=');
      std::int64_t size = 0;
      const char* end = d.data() + d.size();
      if (at == std::string::npos || std::from_chars(d.data() + at + 1, end, size).ptr != end ||
          size < 1) {
        throw cli::UsageError(fmt::format("--dim '{}': write SYMBOL=SIZE", d));
      }
      options.dims[d.substr(0, at)] = size;
    }
    const std::filesystem::path base = std::filesystem::path(output).replace_extension();
    if (emit == "c") {
      refuse_model_as_output(model, base.string() + ".c");
      refuse_model_as_output(model, base.string() + ".h");
    } else {
      refuse_model_as_output(model, output);
    }
    if (!report.empty()) refuse_model_as_output(model, report);
    std::vector<std::string> notes;
    Graph graph = load_model(model);
    check_node_names(graph, "--keep-float", calibration.skip);
    const Module module = compile(std::move(graph), options, notes);
    for (const std::string& n : notes) std::fputs(fmt::format("note: {}\n", n).c_str(), stderr);
    std::string bytes;
    if (emit == "c") {
      const CSources sources = write_c(module, base.stem().string());
      output = base.string() + ".c";
      NewFile header(base.string() + ".h");
      NewFile source(output);
      header.write(sources.header);
      source.write(sources.source);
      source.flush();
      header.put();
      source.put();
      bytes = sources.source;
    } else {
      bytes = write_file(module);
      write_output_file(output, bytes);
    }
    if (!report.empty()) {
      const std::string title =
          std::filesystem::path(model).filename().string() + " for " + targets;
      write_output_file(report, report_html(module, title, bytes.size()));
    }
    std::string devices;
    for (std::size_t t = 0; t < module.targets.size(); ++t) {
      if (module.device_arena_bytes[t] == 0) continue;
      devices += fmt::format(", arena of {} {}", module.targets[t]->name(),
                             cli::bytes_text(static_cast<double>(module.device_arena_bytes[t])));
    }
    fmt::print("{}: {}, {} ops, weights {}, arena {} ({:.3f} of the largest live set){}\n", output,
               cli::bytes_text(static_cast<double>(bytes.size())), module.ops.size(),
               cli::bytes_text(static_cast<double>(module.weight_bytes)),
               cli::bytes_text(static_cast<double>(module.arena_bytes)),
               module.largest_live_bytes == 0 ? 1.0
                                              : static_cast<double>(module.arena_bytes) /
                                                    static_cast<double>(module.largest_live_bytes),
               devices);
    return 0;
  });
}

}  // namespace
}  // namespace xrt::lite

int main(int argc, char** argv) { return xrt::lite::compile_command(argc, argv); }
