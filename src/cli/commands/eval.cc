// SPDX-License-Identifier: Apache-2.0
// xrt eval: how often a model is right on labelled data, and how fast.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "cli/command.h"
#include "cli/data_options.h"
#include "cli/interrupts.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "evaluation/calibration_samples.h"
#include "evaluation/evaluate.h"
#include "program/int8_form.h"
#include "program/quantize_model.h"
#include "xrt/error.h"

namespace xrt::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    R"(DIR holds part files of OneFlow's OFRecord (part-00000), a folder of pictures per class, .npz files
with an array 'labels', or a .csv of paths and labels.

Examples:
  xrt eval resnet50.onnx --data imagenet/val --preset imagenet --top 1,5 --batch 64 -e native
  xrt eval resnet50.onnx --data ofrecord/validation --preset oneflow --int8 --compare f32
  xrt eval resnet50.onnx --data imagenet/val --preset imagenet --batch max --devices cuda:0,cuda:1
  xrt eval digits.onnx --data digits.npz --json result.json --confusion 5)";

struct Options {
  std::string model, engine = "auto";
  PlacementOptions placement;
  DataOptions data;
  std::string batch, scores, compare, json, text;
  std::filesystem::path table;
  std::vector<int> top = {1};
  bool int8 = false;
  std::size_t calibrate_samples = 100, confusion = 0;
  int print_every = 1;
};

// --batch: a number, or "max", which is 0 here.
std::int64_t batch_of(const std::string& text) {
  if (text == "max" || text.empty()) return 0;
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end || value < 1) {
    throw UsageError(fmt::format("--batch '{}': a number from 1 on, or max", text));
  }
  return value;
}

// The model in int8, in a folder that goes with the object.
class Int8Model {
 public:
  Int8Model(const Options& options, const LabelledSet& set, const BatchOptions& batches,
            const ProgramOptions& program)
      : folder_("eval") {
    const Progress progress("calibrating");
    // As xrt quantize does it, so that its file is what was evaluated.
    ModelQuantization how;
    how.clippings = clippings_of("auto");
    int8_form_for(program).set(how.values);
    const QuantizedModel done =
        options.table.empty()
            ? quantize_model(options.model, path(),
                             calibration_samples(set, batches, options.calibrate_samples), how)
            : quantize_model(options.model, path(), options.table, how.values);
    fmt::print("int8: {} of {} Conv, Gemm and MatMul nodes, calibrated with {}\n",
               done.summary.sums, done.summary.sums + done.summary.kept,
               options.table.empty()
                   ? fmt::format("{}, clipping {}", plural(done.samples, "batch of samples"),
                                 clipping_names()[static_cast<std::size_t>(done.clipping)])
                   : options.table.string());
  }
  std::string path() const { return (folder_.path() / "int8.onnx").string(); }

 private:
  TemporaryFolder folder_;
};

const std::vector<std::string>& devices_given(const Options& options) {
  return options.placement.program.devices;
}

// The model on each device, one program each.
std::vector<Loaded> load_on_devices(const Options& options, const std::string& model,
                                    ProgramOptions program) {
  std::vector<Loaded> loaded;
  program.devices.clear();  // they take turns with the batches
  if (devices_given(options).empty()) loaded.push_back(load_program(model, program));
  for (const std::string& device : devices_given(options)) {
    program.device = device;
    loaded.push_back(load_program(model, program));
  }
  return loaded;
}

void check_devices(const Options& options) {
  const std::vector<std::string>& devices = devices_given(options);
  if (!devices.empty() && options.placement.program.device != ProgramOptions().device) {
    throw UsageError("--device and --devices: one of them");
  }
  for (const std::string& device : devices) {
    if (std::count(devices.begin(), devices.end(), device) == 1) continue;
    throw UsageError(fmt::format(
        "--devices: '{}' is there twice; --streams has a device do more at once", device));
  }
}

Loaded load_reference(const Options& options, ProgramOptions program) {
  program.devices.clear();
  if (!devices_given(options).empty()) program.device = devices_given(options).front();
  if (options.compare == "f32") {
    program.precision = Precision::kF32;
    return load_program(options.model, program);
  }
  return load_program(options.compare, program);
}

std::string class_name(const LabelledSet& set, std::int64_t label) {
  const auto index = static_cast<std::size_t>(label);
  return index < set.classes().size() ? fmt::format("{} ({})", label, set.classes()[index])
                                      : fmt::format("{}", label);
}

struct Confused {
  std::int64_t label, answer;
  std::size_t count;
};

// Wrong answers, most frequent first.
std::vector<Confused> confused(const Evaluation& done) {
  std::vector<Confused> pairs;
  for (const auto& [pair, count] : done.confusion) {
    if (pair.first != pair.second) pairs.push_back({pair.first, pair.second, count});
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Confused& a, const Confused& b) { return a.count > b.count; });
  return pairs;
}

std::vector<std::string> devices_of(const Options& options) {
  if (!devices_given(options).empty()) return devices_given(options);
  return {options.placement.program.device};
}

nlohmann::ordered_json top_json(const std::map<int, double>& top) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [k, part] : top) json[std::to_string(k)] = part;
  return json;
}

std::string json_text(const Options& options, const LabelledSet& set, const Evaluation& done,
                      const Explanation& explanation, int streams, double load_seconds) {
  nlohmann::ordered_json json = {{"model", options.model},
                                 {"data", options.data.source.path.string()},
                                 {"format", set.format()},
                                 {"top_1", done.top_1},
                                 {"top_k", done.top_k},
                                 {"top", top_json(done.top)},
                                 {"samples", done.samples},
                                 {"skipped", done.skipped},
                                 {"skipped_because", done.complaints},
                                 {"samples_per_s", done.samples_per_s},
                                 {"busy", done.busy},
                                 {"seconds", done.seconds},
                                 {"batch", done.batch},
                                 {"devices", devices_of(options)},
                                 {"streams", streams},
                                 {"classes", done.classes},
                                 {"class_names", set.classes()},
                                 {"precision", to_string(explanation.precision)},
                                 {"int8", options.int8},
                                 {"nodes_per_engine", explanation.nodes_per_engine},
                                 {"load_ms", load_seconds * 1e3},
                                 {"confusion", nlohmann::json::array()}};
  for (const auto& [pair, count] : done.confusion) {
    json["confusion"].push_back({{"label", pair.first}, {"answer", pair.second}, {"count", count}});
  }
  if (done.text) {
    json["char_error_rate"] = done.text->character_rate();
    json["token_error_rate"] = done.text->token_rate();
    json["exact"] = done.text->exact;
  }
  if (!options.compare.empty()) {
    json["compare"] = {{"with", options.compare},
                       {"agreement", done.agreement},
                       {"cosine", done.cosine},
                       {"top", top_json(done.reference_top)}};
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

constexpr const char* kBar = "==================================================================\n";
constexpr const char* kLine =
    "------------------------------------------------------------------\n";

void print_setting(const char* key, const std::string& value) {
  fmt::print("{} = {}\n", key, value);
}

std::string batch_setting(const Options& options) {
  if (options.batch == "max") return "the largest that fits";
  return options.batch.empty() ? "as the model declares it, else 1" : options.batch;
}

std::string int8_setting(const Options& options) {
  if (!options.int8) return "False";
  return options.table.empty() ? fmt::format("True, ranges of the first {}",
                                             plural(options.calibrate_samples, "sample"))
                               : fmt::format("True, ranges of {}", options.table.string());
}

std::string precision_setting(const ProgramOptions& program) {
  return program.precision ? std::string(to_string(*program.precision)) : "auto";
}

// What is asked for, before the model is loaded. The keys are those of OneFlow-Benchmark's
// validation script where it has the same thing.
void print_settings(const Options& options, const ProgramOptions& program, const LabelledSet& set,
                    const BatchOptions& batches) {
  const Preparation& how = batches.preparation;
  const std::vector<std::string> devices = devices_of(options);
  fmt::print("{}Running {}: {}, {} on each, engines {}.\n{}", kBar,
             fs::path(options.model).filename().string(), plural(devices.size(), "device"),
             plural(static_cast<std::size_t>(std::max(program.streams, 1)), "stream"),
             fmt::join(program.engines, ", "), kBar);
  print_setting("dtype", precision_setting(program));
  print_setting("use_int8", int8_setting(options));
  print_setting("engines", fmt::format("{}", fmt::join(program.engines, ", ")));
  print_setting("devices", fmt::format("{}", fmt::join(devices, ", ")));
  print_setting("model", options.model);
  print_setting("batch_size_per_device", batch_setting(options));
  if (!set.classes().empty()) print_setting("num_classes", std::to_string(set.classes().size()));
  const std::size_t samples = batches.limit > 0 ? std::min(batches.limit, set.size()) : set.size();
  print_setting("num_val_examples", fmt::format("{} of {}", samples, set.size()));
  print_setting("val_data_dir", options.data.source.path.string());
  print_setting("val_data_format", set.format());
  if (set.parts() > 0) print_setting("val_data_part_num", std::to_string(set.parts()));
  if (how.resize_shorter > 0) print_setting("resize_shorter", std::to_string(how.resize_shorter));
  if (how.crop > 0) print_setting("image_size", std::to_string(how.crop));
  print_setting("rgb_mean", fmt::format("[{}]", fmt::join(how.image.mean, ", ")));
  print_setting("rgb_std", fmt::format("[{}]", fmt::join(how.image.std, ", ")));
  print_setting("scale", how.image.divisor == 1 ? "255" : "1");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  fmt::print("{}Time stamp: {:%Y-%m-%d-%H:%M:%S}\n", kLine, local);
  fmt::print("Restoring model from {}.\n", options.model);
  fmt::print("Loading data from {}.\n", options.data.source.path.string());
  std::fflush(stdout);
}

// What only the loaded program says.
void print_program(Program& program, std::int64_t batch, double load_seconds) {
  for (const Port& port : program.inputs()) {
    print_setting("input", fmt::format("'{}' {}", port.name, to_string(port.type)));
  }
  print_setting("batch_size", std::to_string(batch));
  fmt::print("{}; loaded in {}\n\n", placement_summary(program.explain()), time_text(load_seconds));
  std::fflush(stdout);
}

void print_iteration(const EvaluationProgress& progress) {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (progress.text != nullptr) {
    fmt::print(
        "validation: epoch 0, iter {}, char_error_rate: {:.6f}, token_error_rate: {:.6f}, "
        "samples/s: {:.3f} {:.3f}\n",
        progress.iteration, progress.text->character_rate(), progress.text->token_rate(),
        progress.samples_per_s, now);
    std::fflush(stdout);
    return;
  }
  fmt::print(
      "validation: epoch 0, iter {}, top_1: {:.6f}, top_k: {:.6f}, samples/s: {:.3f} {:.3f}\n",
      progress.iteration, progress.top_1, progress.top_k, progress.samples_per_s, now);
  std::fflush(stdout);
}

void print_result(const Options& options, const LabelledSet& set, const Evaluation& done,
                  const Explanation& explanation) {
  fmt::print("\n{}", plural(done.samples, "sample"));
  for (const auto& [k, part] : done.top) fmt::print(", top_{} {:.4f}", k, part);
  if (done.text) {
    fmt::print(", char_error_rate {:.4f}, token_error_rate {:.4f}, {} exact",
               done.text->character_rate(), done.text->token_rate(), done.text->exact);
  }
  fmt::print(", {:.1f} samples/s, engines busy {:.0f} %\n", done.samples_per_s, done.busy * 100);
  if (!options.compare.empty()) {
    fmt::print("{}: the same answer for {:.2f} % of the samples, mean cosine of the scores {:.6f}",
               options.compare, done.agreement * 100, done.cosine);
    for (const auto& [k, part] : done.reference_top) fmt::print(", top_{} {:.4f}", k, part);
    fmt::print("\n");
  }
  if (done.skipped > 0) {
    fmt::print("{} skipped:\n", plural(done.skipped, "sample"));
    for (const std::string& text : done.complaints) fmt::print("  {}\n", text);
    if (done.skipped > done.complaints.size()) fmt::print("  ...\n");
  }
  if (options.confusion > 0) {
    std::vector<std::vector<std::string>> rows = {{"label", "answer", "samples"}};
    for (const Confused& pair : confused(done)) {
      if (rows.size() > options.confusion) break;
      rows.push_back(
          {class_name(set, pair.label), class_name(set, pair.answer), std::to_string(pair.count)});
    }
    if (rows.size() > 1) fmt::print("{}", table(rows, {2}));
  }
  fmt::print("{}\n", placement_summary(explanation));
  for (const std::string& note : explanation.notes) fmt::print("note: {}\n", note);
}

// `samples` follows how many were judged.
int run_eval(const Options& options, std::size_t& samples) {
  BatchOptions batches = batch_options(options.data);
  batches.batch = batch_of(options.batch);
  const std::unique_ptr<LabelledSet> set = open_labelled_set(options.data.source);

  const ProgramOptions wanted = program_options(options.placement, split_engines(options.engine));
  print_settings(options, wanted, *set, batches);
  std::optional<Int8Model> int8;
  if (options.int8) int8.emplace(options, *set, batches, wanted);
  const std::vector<Loaded> loaded =
      load_on_devices(options, int8 ? int8->path() : options.model, wanted);
  std::vector<Program*> programs;
  double load_seconds = 0;
  for (const Loaded& each : loaded) {
    programs.push_back(each.program.get());
    load_seconds += each.seconds;
  }
  Program& program = *programs.front();
  Loaded reference;
  if (!options.compare.empty()) reference = load_reference(options, wanted);
  if (options.batch == "max") {
    const Progress progress("finding the largest batch");
    batches.batch = largest_batch(programs, *set, batches);
  }

  EvaluationOptions how;
  how.batches = batches;
  how.top = options.top;
  if (!options.text.empty()) {
    how.alphabet = read_alphabet(options.text);
    how.top.clear();
  }
  how.scores = options.scores;
  how.reference = reference.program.get();
  how.begin = [&](std::int64_t batch) { print_program(program, batch, load_seconds); };
  how.report = [&](const EvaluationProgress& progress) {
    samples = progress.samples;
    const auto every = static_cast<std::size_t>(options.print_every);
    if (every > 0 && (progress.iteration + 1) % every == 0) print_iteration(progress);
  };
  const Evaluation done = evaluate(programs, *set, how);
  const Explanation explanation = program.explain();
  print_result(options, *set, done, explanation);
  if (!options.json.empty()) {
    write_output_file(options.json,
                      json_text(options, *set, done, explanation, program.streams(), load_seconds));
  }
  return kOk;
}

int execute_eval(const Options& options) {
  if (!options.json.empty()) check_output_file(options.json, options.model);
  check_devices(options);
  const Interrupts interrupts;
  std::size_t samples = 0;
  try {
    return run_eval(options, samples);
  } catch (const Error&) {
    if (!interrupts.came()) throw;
    tell("xrt: interrupted after {}{}\n", plural(samples, "sample"),
         options.json.empty() ? "" : fmt::format(": {} is not written", options.json));
    return kInterrupted;
  }
}

}  // namespace

void add_eval(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("eval", "Measure accuracy and speed on labelled data");
  sub->footer(kFooter);
  add_model_options(*sub, options->model, options->engine);
  sub->add_option("--top", options->top, "a label among the K best answers is right: 1,5")
      ->delimiter(',')
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("K,...")
      ->capture_default_str();
  sub->add_option("--batch", options->batch,
                  "samples of one run, or max: the largest power of 2 that fits; else what the "
                  "model declares, or 1")
      ->type_name("N|max");
  sub->add_option("--scores", options->scores,
                  "the output with a score per class, where there are several")
      ->type_name("NAME");
  sub->add_option(
         "--text", options->text,
         "outputs are lines of text in these symbols, one a line of the file: prints error "
         "rates of characters and words instead of --top")
      ->type_name("FILE");
  sub->add_option("--compare", options->compare,
                  "f32, or another model: how often its answers are the same")
      ->type_name("f32|MODEL");
  sub->add_flag("--int8", options->int8,
                "quantise the model first, calibrated with the first samples of the data");
  sub->add_option("--calibrate-samples", options->calibrate_samples, "how many, for --int8")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N")
      ->capture_default_str();
  sub->add_option("--table", options->table,
                  "for --int8: a calibration table of xrt calibrate, or a cache of TensorRT, "
                  "instead of samples")
      ->type_name("FILE")
      ->needs("--int8");
  sub->add_option("--confusion", options->confusion,
                  "print the N most frequent pairs of label and wrong answer")
      ->type_name("N");
  sub->add_option("--print-every", options->print_every, "print a line every N batches; 0: none")
      ->check(from_zero())
      ->type_name("N")
      ->capture_default_str();
  sub->add_option("--json", options->json, "write the result to a file")->type_name("FILE");
  add_data_options(*sub, options->data)->required();
  add_label_options(*sub, options->data);
  add_picture_options(*sub, options->data.wishes);
  add_placement_options(*sub, options->placement, {"use_int8", "int8_calibration"});
  sub->callback([options, &chosen] { chosen = [options] { return execute_eval(*options); }; });
}

}  // namespace xrt::cli
