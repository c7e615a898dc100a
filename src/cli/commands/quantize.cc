// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/calibration_options.h"
#include "cli/command.h"
#include "cli/data_options.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/quantizer_options.h"
#include "cli/text.h"
#include "cli/weight_options.h"
#include "data/samples.h"
#include "evaluation/calibration_samples.h"
#include "evaluation/top_1_bound.h"
#include "program/quantize_model.h"
#include "report/noise.h"

namespace xrt::cli {
namespace {

constexpr const char* kFooter =
    R"(Writes an ONNX model with QuantizeLinear and DequantizeLinear around Conv, Gemm and MatMul; every
engine computes those in its own int8.

  xrt quantize resnet50.onnx -o resnet50_int8.onnx --calibrate pictures --mean .485 .456 .406 --std .229 .224 .225
  xrt quantize resnet50.onnx -o resnet50_int8.onnx --data imagenet/val --preset imagenet --accuracy top1:0.5
  xrt quantize bert.onnx -o bert_int8.onnx --calibrate texts --engine tensorrt --device cuda:0 --report noise.html
  xrt quantize bert.onnx -o bert_int4.onnx --weights int4
  xrt compare resnet50_int8.onnx -e native -e openvino)";

struct Options {
  std::string model, output, engine, device = "cpu", accuracy;
  bool reports = false;
  std::string report;  // a file; empty: the terminal
  DataOptions data;
  std::size_t calibrate_samples = 100;
  CalibrationOptions calibration;
  QuantizerOptions quantizer;
  WeightFlags weights;
};

// --accuracy: decibels, or "top1:" and percentage points.
struct Accuracy {
  double decibels = 0;
  std::optional<double> top_1_loss;
};

Accuracy accuracy_of(const std::string& text) {
  if (text.empty()) return {};
  const std::string prefix = "top1:";
  const bool top_1 = text.starts_with(prefix);
  const std::string number = top_1 ? text.substr(prefix.size()) : text;
  double value = 0;
  const char* end = number.data() + number.size();
  const auto [at, error] = std::from_chars(number.data(), end, value);
  if (error != std::errc() || at != end || !std::isfinite(value) || value < 0 ||
      (!top_1 && value == 0)) {
    throw UsageError(
        fmt::format("--accuracy '{}': decibels above 0, or top1:P with P percentage points", text));
  }
  if (top_1) return {0, value};
  return {value, std::nullopt};
}

bool ends_with_page(const std::string& file) {
  const std::string ending = std::filesystem::path(file).extension().string();
  return ending == ".html" || ending == ".htm";
}

void check_report(const Options& options) {
  if (!options.reports || options.report.empty()) return;
  const std::filesystem::path path(options.report);
  if (!ends_with_page(options.report) && path.extension() != ".json") {
    throw UsageError(
        fmt::format("--report {}: a file .html or .json is wanted, or nothing for the "
                    "terminal",
                    options.report));
  }
  check_output_file(path, options.model);
}

std::string range_text(const ValueRange& range) {
  if (range.low == 0 && range.high == 0) return "";
  return fmt::format("{:.4g} … {:.4g}", range.low, range.high);
}

std::string decibels_text(double value, bool kept) {
  if (kept) return "float";
  return std::isfinite(value) ? fmt::format("{:.1f}", value) : "exact";
}

void report_noise(const Options& options, const QuantizedModel& done) {
  const std::string name = std::filesystem::path(options.model).filename().string();
  if (!options.report.empty()) {
    write_output_file(options.report, ends_with_page(options.report)
                                          ? report::noise_html(done.nodes, name)
                                          : report::noise_json(done.nodes, name, 2) + "\n");
    return;
  }
  std::vector<std::vector<std::string>> rows = {
      {"node", "op", "alone dB", "weights dB", "reached dB", "reads"}};
  for (const NodeNoise& node : done.nodes) {
    rows.push_back({node.name, node.op, decibels_text(node.alone, node.kept),
                    decibels_text(node.weights, node.kept), decibels_text(node.reached, node.kept),
                    range_text(node.input)});
  }
  fmt::print("{}", table(rows, {2, 3, 4}));
}

int execute(const Options& options) {
  if (options.weights.given()) {
    if (!options.calibration.samples.folder.empty() || !options.calibration.table.empty() ||
        !options.data.source.path.empty()) {
      throw UsageError("--weights and --dynamic take neither samples nor a table");
    }
    quantize_without_samples(options.model, options.output, options.weights,
                             options.calibration.skip);
    return kOk;
  }
  const Accuracy accuracy = accuracy_of(options.accuracy);
  check_report(options);
  const std::string folder = options.calibration.samples.folder.string();
  const std::filesystem::path& table = options.calibration.table;
  const bool has_data = !options.data.source.path.empty();
  if (folder.empty() && table.empty() && !has_data) {
    throw UsageError(
        "ranges come from samples (--calibrate DIR, or --data DIR) or from a table (--table FILE); "
        "--weights and --dynamic need none");
  }
  if (!table.empty() && (!options.accuracy.empty() || options.reports)) {
    throw UsageError("--accuracy and --report are measured on samples: --calibrate");
  }
  if (accuracy.top_1_loss && !has_data) {
    throw UsageError("--accuracy top1 needs labelled data: --data DIR");
  }
  ProgramOptions program;
  if (!options.engine.empty()) program.engines = split_engines(options.engine);
  program.device = options.device;
  ModelQuantization how =
      model_quantization(options.quantizer, quantize_options(options.calibration),
                         options.engine.empty() ? ProgramOptions{.engines = {}} : program);
  how.clippings = clippings_of(options.calibration.clipping);
  how.decibels = accuracy.decibels;
  how.rank = options.reports;

  const BatchOptions batches = batch_options(options.data);
  std::unique_ptr<LabelledSet> set;
  if (has_data) set = open_labelled_set(options.data.source);
  Top1Bound bound;
  if (accuracy.top_1_loss) {
    const Progress progress("measuring top-1 in floating point");
    bound = bound_top_1(options.model, *set, batches, *accuracy.top_1_loss, program);
    how.judge = bound.judge;
    how.wanted = bound.wanted;
  }
  // Pictures of both kinds of samples become values alike.
  SampleFiles files = options.calibration.samples;
  files.image = batches.preparation.image;
  const SampleSource samples =
      folder.empty() && set != nullptr
          ? calibration_samples(*set, batches, options.calibrate_samples)
          : [&](const auto& inputs, const auto& use) { for_each_sample(files, inputs, use); };
  const QuantizedModel done =
      table.empty() ? quantize_model(options.model, options.output, samples, how)
                    : quantize_model(options.model, options.output, table, how.values);
  fmt::print("{}: {} of {} Conv, Gemm and MatMul nodes in int8, {} values with a scale, {}\n",
             options.output, done.summary.sums, done.summary.sums + done.summary.kept,
             done.summary.values, plural(done.samples, "sample"));
  if (how.clippings.size() > 1 && table.empty()) {
    fmt::print("clipping: {}\n", clipping_names()[static_cast<std::size_t>(done.clipping)]);
  }
  if (done.float_results) {
    fmt::print("results of convolutions are float32 where float ops read them\n");
  }
  for (const std::string& note : notes_of(done.summary)) fmt::print("{}\n", note);
  const std::string kept =
      done.kept.empty() ? ""
                        : fmt::format("; kept in floating point: {}", fmt::join(done.kept, ", "));
  if (accuracy.decibels > 0) fmt::print("{:.1f} dB{}\n", done.reached, kept);
  if (accuracy.top_1_loss) {
    fmt::print("top_1 {:.4f}, in floating point {:.4f}{}\n", done.reached, bound.plain, kept);
  }
  if (options.reports) report_noise(options, done);
  return kOk;
}

void add_labelled_options(CLI::App& app, Options& options) {
  add_data_options(app, options.data)
      ->description(
          "labelled samples, for --accuracy top1 and, without --calibrate, to calibrate "
          "with: as for xrt eval");
  add_label_options(app, options.data);
  const std::string group = "Data";
  app.add_option("--batch", options.data.batches.batch,
                 "samples of one run of the judged model; 0: as declared")
      ->check(from_zero())
      ->type_name("N")
      ->group(group);
  app.add_option("--calibrate-samples", options.calibrate_samples,
                 "how many of the data calibrate, without --calibrate")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  add_picture_options(app, options.data.wishes);
}

}  // namespace

void add_quantize(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand(
      "quantize", "Quantise a model to int8 by samples, or its weights to 4 or 8 bits");
  sub->footer(kFooter);
  sub->add_option("model", options->model, "an ONNX file, or a folder that OneFlow saved")
      ->required()
      ->type_name("MODEL");
  sub->add_option("-o,--output", options->output, "the ONNX file to write")->required();
  sub->add_option("-e,--engine", options->engine,
                  "engines that the model is for: they decide the form of activations, and "
                  "--accuracy top1 runs on them")
      ->type_name("ENGINES");
  sub->add_option("--device", options->device, "that the engines are for")->capture_default_str();
  sub->add_option("--accuracy", options->accuracy,
                  "what the result must reach; nodes that cost most stay in floating point, as few "
                  "as will do. DB: signal over noise of the outputs on the samples, in decibels; "
                  "top1:P: at most P percentage points of top-1 lost on --data")
      ->type_name("DB|top1:P");
  CLI::Option* report = sub->add_option_function<std::vector<std::string>>(
      "--report",
      [options](const std::vector<std::string>& files) {
        options->reports = true;
        if (!files.empty()) options->report = files.front();
      },
      "rank the nodes by the noise that each makes: in the terminal, or in a file .html or .json");
  report->type_name("FILE")->expected(0, 1);
  add_quantizer_options(*sub, options->quantizer);
  options->calibration.clipping = kAutoClipping;
  add_calibration_options(*sub, options->calibration);
  add_table_option(*sub, options->calibration);
  add_labelled_options(*sub, *options);
  add_weight_options(*sub, options->weights);
  sub->callback([options, &chosen] { chosen = [options] { return execute(*options); }; });
}

}  // namespace xrt::cli
