// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/calibration_options.h"
#include "cli/command.h"
#include "cli/text.h"
#include "data/samples.h"
#include "program/quantize_model.h"

namespace xrt::cli {
namespace {

constexpr const char* kFooter =
    R"(Writes an ONNX model with QuantizeLinear and DequantizeLinear around Conv, Gemm and MatMul; every
engine computes those in its own int8.

  xrt quantize resnet50.onnx -o resnet50_int8.onnx --calibrate pictures --mean .485 .456 .406 --std .229 .224 .225
  xrt compare resnet50_int8.onnx -e native -e openvino)";

struct Options {
  std::string model, output;
  double accuracy = 0;  // decibels; 0: none asked for
  CalibrationOptions calibration;
};

QuantizedModel quantized(const Options& options) {
  const CalibrationOptions& by = options.calibration;
  if (!by.table.empty()) {
    if (options.accuracy > 0) throw UsageError("--accuracy is measured on samples: --calibrate");
    return quantize_model(options.model, options.output, by.table, quantize_options(by));
  }
  if (by.samples.folder.empty()) {
    throw UsageError("ranges come from samples (--calibrate DIR) or from a table (--table FILE)");
  }
  return quantize_model(
      options.model, options.output,
      [&](const auto& inputs, const auto& use) { for_each_sample(by.samples, inputs, use); },
      quantize_options(by), options.accuracy);
}

int execute(const Options& options) {
  const QuantizedModel done = quantized(options);
  fmt::print("{}: {} of {} Conv, Gemm and MatMul nodes in int8, {} values with a scale, {}\n",
             options.output, done.summary.sums, done.summary.sums + done.summary.kept,
             done.summary.values, plural(done.samples, "sample"));
  if (options.accuracy > 0) {
    fmt::print("{:.1f} dB{}\n", done.decibels,
               done.kept.empty()
                   ? ""
                   : fmt::format("; kept in floating point: {}", fmt::join(done.kept, ", ")));
  }
  return kOk;
}

}  // namespace

void add_quantize(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("quantize", "Quantise a model to int8 by samples");
  sub->footer(kFooter);
  sub->add_option("model", options->model, "an ONNX file, or a folder that OneFlow saved")
      ->required()
      ->type_name("MODEL");
  sub->add_option("-o,--output", options->output, "the ONNX file to write")->required();
  sub->add_option("--accuracy", options->accuracy,
                  "signal over noise that the outputs must have on the samples, in decibels: nodes "
                  "that cost most stay in floating point, as few as will do")
      ->type_name("DB")
      ->check(CLI::PositiveNumber);
  add_calibration_options(*sub, options->calibration);
  add_table_option(*sub, options->calibration);
  sub->callback([options, &chosen] { chosen = [options] { return execute(*options); }; });
}

}  // namespace xrt::cli
