// SPDX-License-Identifier: Apache-2.0
// xrt calibrate: tables of ranges for int8, made, merged, compared and converted.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/calibration_options.h"
#include "cli/command.h"
#include "cli/data_options.h"
#include "cli/interrupts.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "evaluation/calibration_samples.h"
#include "program/calibration.h"
#include "xrt/error.h"

namespace xrt::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    R"(DIR is what xrt eval reads, labels or not, or what xrt quantize --calibrate reads.

Examples:
  xrt calibrate resnet50.onnx --data imagenet/val --preset imagenet --limit 500 -o resnet50.table
  xrt quantize resnet50.onnx --table resnet50.table -o resnet50_int8.onnx
  xrt calibrate --merge monday.table tuesday.table -o both.table
  xrt calibrate --diff monday.table tuesday.table
  xrt calibrate --from resnet50.table -o resnet50.cache --tensorrt 100300
  xrt calibrate resnet50.onnx --from resnet50.cache -o resnet50.table)";

struct Options {
  std::string model;
  fs::path output, from;
  std::vector<fs::path> merge, diff;
  DataOptions data;
  CalibrationOptions calibration;
  PlacementOptions sizes;
  std::int64_t batch = 0;
  int tensorrt = 0;  // version of the cache to write; 0: a table
  std::size_t most = 20;
};

// Ctrl-C came; nothing is written.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

int write_table(const Options& options, const CalibrationTable& table) {
  if (options.tensorrt != 0) {
    write_output_file(options.output, format_tensorrt_cache(table, options.tensorrt));
  } else {
    save_table(table, options.output);
  }
  fmt::print("{}: ranges of {} by {}, {}{}\n", options.output.string(),
             plural(table.values.size(), "value"), table.observer, plural(table.samples, "run"),
             table.model.empty() ? "" : " of " + table.model);
  return kOk;
}

CalibrationTable calibrated(const Options& options) {
  const Interrupts interrupts;
  Progress progress("reading " + options.model);
  std::size_t done = 0;
  const SampleSource source = calibration_samples(options.data.source, batch_options(options.data),
                                                  options.data.batches.limit);
  return calibrate_model(
      options.model,
      [&](const std::vector<Port>& inputs, const UseSample& use) {
        progress.step("calibrating " + options.model);
        source(inputs, [&](const std::vector<Tensor>& sample) {
          if (interrupts.came()) {
            throw Interrupted(fmt::format("interrupted after {}: {} is not written",
                                          plural(done, "run"), options.output.string()));
          }
          use(sample);
          progress.step(fmt::format("calibrating {}: {}", options.model, plural(++done, "run")));
        });
      },
      quantize_options(options.calibration), options.sizes.program, options.batch);
}

// What --from names: a table needs no model, a cache of TensorRT does.
CalibrationTable converted(const Options& options) {
  if (options.model.empty()) {
    const std::string text = read_file(options.from);
    if (is_tensorrt_cache(text)) {
      throw UsageError(
          fmt::format("--from {}: a cache of TensorRT does not say which model it is "
                      "of: name the MODEL",
                      options.from.string()));
    }
    return parse_table(text, options.from.string());
  }
  const QuantizeOptions how = quantize_options(options.calibration);
  const Graph graph = graph_to_quantize(options.model, how, options.sizes.program);
  CalibrationTable table = load_any_table(options.from, graph, how);
  ranges_for(table, graph, how);  // that it is this model's
  table.model = fs::path(options.model).filename().string();
  return table;
}

CalibrationTable merged_tables(const std::vector<fs::path>& files) {
  CalibrationTable result = load_table(files.front());
  for (std::size_t i = 1; i < files.size(); ++i) {
    try {
      result = merged(result, load_table(files[i]));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;
      throw Error(error.code(), fmt::format("{}: {}", files[i].string(), error.what()));
    }
  }
  return result;
}

std::string range_text(const std::optional<ValueRange>& range) {
  return range ? fmt::format("{:.6g} to {:.6g}", range->low, range->high) : "-";
}

int print_difference(const Options& options) {
  const CalibrationTable first = load_table(options.diff[0]), second = load_table(options.diff[1]);
  const bool same_model = first.structure == second.structure && first.weights == second.weights;
  if (!same_model) fmt::print("of different models: {} and {}\n", first.model, second.model);
  const std::vector<RangeDifference> rows = difference(first, second);
  std::vector<std::vector<std::string>> cells = {
      {"value", options.diff[0].string(), options.diff[1].string(), "change"}};
  for (std::size_t i = 0; i < std::min(rows.size(), options.most); ++i) {
    cells.push_back({rows[i].name, range_text(rows[i].first), range_text(rows[i].second),
                     fmt::format("{:.1f} %", rows[i].change * 100)});
  }
  if (!rows.empty()) fmt::print("{}", table(cells, {3}));
  fmt::print("{} of {} differ\n", rows.size(),
             plural(std::max(first.values.size(), second.values.size()), "value"));
  return rows.empty() && same_model ? kOk : kMismatch;
}

int execute(const Options& options) {
  if (!options.diff.empty()) return print_difference(options);
  if (options.output.empty()) throw UsageError("--output FILE is missing: where the table goes");
  check_output_file(options.output, options.model);
  if (!options.merge.empty()) return write_table(options, merged_tables(options.merge));
  if (!options.from.empty()) return write_table(options, converted(options));
  if (options.model.empty() || options.data.source.path.empty()) {
    throw UsageError("MODEL and --data DIR are wanted, or --merge, --diff or --from");
  }
  try {
    return write_table(options, calibrated(options));
  } catch (const Interrupted& interrupted) {
    tell("xrt: {}\n", interrupted.what());
    return kInterrupted;
  }
}

}  // namespace

void add_calibrate(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub =
      app.add_subcommand("calibrate", "Find the ranges that int8 needs, and handle tables of them");
  sub->footer(kFooter);
  sub->add_option("model", options->model, "an ONNX file, or a folder that OneFlow saved")
      ->type_name("MODEL");
  sub->add_option("-o,--output", options->output, "the file to write")->type_name("FILE");
  CLI::Option* merge = sub->add_option("--merge", options->merge,
                                       "tables of one model: the ranges that hold those of all")
                           ->expected(2, 1'000'000)
                           ->type_name("TABLE TABLE ...");
  CLI::Option* diff =
      sub->add_option("--diff", options->diff, "print where two tables differ; exit code 4 if so")
          ->expected(2)
          ->type_name("TABLE TABLE");
  sub->add_option("--most", options->most, "values that --diff prints")->capture_default_str();
  sub->add_option("--from", options->from,
                  "convert a table, or a calibration cache of TensorRT for MODEL, instead of "
                  "calibrating")
      ->type_name("FILE")
      ->excludes(merge)
      ->excludes(diff);
  sub->add_option("--tensorrt", options->tensorrt,
                  "write a calibration cache of TensorRT of that version: 8601 for 8.6.1, 100300 "
                  "for 10.3.0")
      ->check(CLI::Range(1000, 10'000'000))
      ->type_name("VERSION");
  merge->excludes(diff);
  sub->add_option("--batch", options->batch,
                  "samples of a run where the model leaves the first dimension open")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  add_range_options(*sub, options->calibration);
  add_data_options(*sub, options->data);
  add_picture_options(*sub, options->data.wishes);
  add_size_options(*sub, options->sizes);
  sub->callback([options, &chosen] { chosen = [options] { return execute(*options); }; });
}

}  // namespace xrt::cli
