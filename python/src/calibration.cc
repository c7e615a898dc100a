// SPDX-License-Identifier: Apache-2.0
#include "calibration.h"

#include <fmt/format.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/interrupt.h"
#include "data/preparation.h"
#include "data/samples.h"
#include "evaluation/calibration_samples.h"
#include "gil.h"
#include "options.h"
#include "program/calibration.h"
#include "values/convert.h"
#include "xrt/calibration.h"
#include "xrt/error.h"
#include "xrt/graph_runner.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

using Colours = std::array<float, 3>;
using Ends = std::pair<float, float>;

std::optional<Ends> ends_of(const std::optional<ValueRange>& range) {
  if (!range) return std::nullopt;
  return Ends(range->low, range->high);
}

nb::dict ranges_of(const CalibrationTable& table) {
  nb::dict ranges;
  for (const CalibratedValue& value : table.values) {
    ranges[nb::str(value.name.data(), value.name.size())] =
        nb::make_tuple(value.range.low, value.range.high);
  }
  return ranges;
}

// New ends for values that the table has.
void set_ranges(CalibrationTable& table, const std::map<std::string, Ends>& ranges) {
  for (const auto& range : ranges) {
    const std::string& name = range.first;
    const Ends& ends = range.second;
    const auto found = std::find_if(table.values.begin(), table.values.end(),
                                    [&](const CalibratedValue& v) { return v.name == name; });
    const auto refuse = [&](const char* why) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("the range of '{}': {}", name, why));
    };
    if (found == table.values.end()) refuse("the table has no such value");
    if (!std::isfinite(ends.first) || !std::isfinite(ends.second)) {
      refuse("its ends are to be finite numbers of float32");
    }
    if (ends.first > ends.second) refuse("its low end is above the high one");
    found->range = {ends.first, ends.second};
  }
}

// A model's file, and what its samples have shown so far.
class PyCalibrator {
 public:
  PyCalibrator(const std::filesystem::path& model, const std::string& clipping, double percentile,
               double average_factor, std::set<std::string> keep_float, bool round_sums,
               const nb::dict& sizes, std::int64_t batch)
      : model_(model) {
    options_.clipping = clipping_of(clipping);
    options_.percentile = percentile;
    options_.average_factor = average_factor;
    options_.skip = std::move(keep_float);
    options_.round_sums = round_sums;
    ProgramOptions refined;
    set_options(refined, sizes);
    const ReleasedGil release;
    graph_ = graph_to_quantize(model, options_, refined);
    ports_ = sample_ports(graph_, batch);
    calibrator_.emplace(graph_, options_, program_runner());
  }

  void add(const nb::dict& sample) {
    ++given_;
    const std::string origin = fmt::format("sample {}", given_);
    std::vector<Tensor> values;
    for (const Port& port : ports_) {
      const nb::str name(port.name.data(), port.name.size());
      const std::string label = fmt::format("{}: input '{}'", origin, port.name);
      if (!sample.contains(name)) {
        throw Error(ErrorCode::kInvalidArgument, label + " is missing");
      }
      const Data data = to_data(sample[name], port.type, label, Access::kRead);
      if (!data.is_tensor()) {
        throw Error(ErrorCode::kInvalidArgument, label + " must be a tensor");
      }
      values.push_back(data.tensor());
    }
    for (auto [key, unused] : sample) {
      const auto name = nb::cast<std::string>(nb::str(key));
      const bool known = std::any_of(ports_.begin(), ports_.end(),
                                     [&](const Port& port) { return port.name == name; });
      if (known) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: the model has no input '{}'", origin, name));
    }
    const ReleasedGil release;
    for_each_sample_of(values, origin, ports_, [this](const std::vector<Tensor>& one) {
      calibrator_->add(one);
      throw_if_interrupted();
    });
  }

  void add_files(const std::filesystem::path& data, const std::string& format,
                 const PreparationWishes& wishes, std::size_t limit, bool skip_bad, int workers,
                 const nb::object& report) {
    BatchOptions batches;
    batches.skip_bad = skip_bad;
    batches.workers = workers;
    batches.preparation = make_preparation(wishes);
    LabelledSource source;
    source.path = data;
    source.format = format;
    const ReleasedGil release;
    calibration_samples(source, batches, limit)(ports_, [&](const std::vector<Tensor>& sample) {
      calibrator_->add(sample);
      throw_if_interrupted();
      if (report.is_none()) return;
      const Gil gil;
      report(calibrator_->samples());
    });
  }

  CalibrationTable table() const {
    CalibrationTable table = make_table(graph_, *calibrator_, options_);
    table.model = model_.filename().string();
    return table;
  }

 private:
  std::filesystem::path model_;
  QuantizeOptions options_;
  Graph graph_;
  std::vector<Port> ports_;
  std::optional<Calibrator> calibrator_;
  std::size_t given_ = 0;
};

CalibrationTable table_of_tensorrt(const std::filesystem::path& cache,
                                   const std::filesystem::path& model,
                                   std::set<std::string> keep_float, bool round_sums) {
  QuantizeOptions options;
  options.skip = std::move(keep_float);
  options.round_sums = round_sums;
  const ReleasedGil release;
  const Graph graph = graph_to_quantize(model, options);
  CalibrationTable table = load_any_table(cache, graph, options);
  ranges_for(table, graph, options);  // that it is this model's
  table.model = model.filename().string();
  return table;
}

nb::list differences(const CalibrationTable& a, const CalibrationTable& b) {
  nb::list rows;
  for (const RangeDifference& row : difference(a, b)) {
    rows.append(nb::make_tuple(row.name, ends_of(row.first), ends_of(row.second), row.change));
  }
  return rows;
}

void bind_table(nb::module_& module) {
  nb::class_<CalibrationTable>(module, "CalibrationTable",
                               "The ranges of a model's values, as int8 needs them.")
      .def_static("load", load_table, nb::arg("path"),
                  "Reads a table. Raises InvalidModel for what is truncated, damaged or none.")
      .def_static("parse", parse_table, nb::arg("text"), nb::arg("origin") = "text",
                  "A table from its text.")
      .def_static("of_tensorrt", table_of_tensorrt, nb::arg("cache"), nb::arg("model"),
                  nb::kw_only(), nb::arg("keep_float") = std::set<std::string>(),
                  nb::arg("round_sums") = false,
                  "The table of a model by a calibration cache of TensorRT. Raises "
                  "InvalidArgument, with their names, for values that the cache lacks.")
      .def("save", save_table, nb::arg("path"),
           "Writes the table: the old file stays until all of the new one is there.")
      .def("text", format_table, "What save() writes.")
      .def("to_tensorrt", format_tensorrt_cache, nb::arg("version"),
           "The text of a calibration cache of TensorRT: version 8601 for 8.6.1, 100300 for "
           "10.3.0. A scale is a 127th of the larger end.")
      .def("merge", merged, nb::arg("other"),
           "The ranges that hold those of both. Raises InvalidArgument for tables of different "
           "models or observers.")
      .def("diff", differences, nb::arg("other"),
           "Where two tables differ, the largest change first: (name, (low, high), (low, high), "
           "change as a part of the wider range); None for a range that a table lacks.")
      .def("set_ranges", set_ranges, nb::arg("ranges"), "Gives values other ends, by name.")
      .def_ro("model", &CalibrationTable::model, "The name of the model, for people.")
      .def_ro("structure", &CalibrationTable::structure,
              "A digest of the ops that are quantised and of their weights' shapes.")
      .def_ro("weights", &CalibrationTable::weights, "A digest of the weights.")
      .def_ro("observer", &CalibrationTable::observer, "What found the ranges.")
      .def_ro("samples", &CalibrationTable::samples, "How many runs it saw.")
      .def_prop_ro("ranges", ranges_of, "(low, high) by the names of values.")
      .def("__eq__",
           [](const CalibrationTable& self, nb::handle other) {
             const CalibrationTable* table = nullptr;
             return nb::try_cast(other, table) && table != nullptr &&
                    format_table(self) == format_table(*table);
           })
      .def("__getstate__", format_table)
      .def("__setstate__",
           [](CalibrationTable& self, const std::string& text) {
             new (&self) CalibrationTable(parse_table(text, "pickle"));
           })
      .def("__repr__", [](const CalibrationTable& self) {
        return fmt::format("<CalibrationTable of '{}': {} values by {}, {} samples>", self.model,
                           self.values.size(), self.observer, self.samples);
      });
}

}  // namespace

void bind_calibration(nb::module_& module) {
  bind_table(module);
  nb::class_<PyCalibrator>(module, "Calibrator",
                           "What samples show of a model's values, in memory that does not grow "
                           "with their number. openxrt.quantize.calibrate() is its user.")
      .def(nb::init<const std::filesystem::path&, const std::string&, double, double,
                    std::set<std::string>, bool, const nb::dict&, std::int64_t>(),
           nb::arg("model"), nb::kw_only(), nb::arg("clipping"), nb::arg("percentile"),
           nb::arg("average_factor"), nb::arg("keep_float"), nb::arg("round_sums"),
           nb::arg("sizes"), nb::arg("batch"))
      .def("add", &PyCalibrator::add, nb::arg("sample"), "Arrays by the names of inputs.")
      .def(
          "add_files",
          [](PyCalibrator& self, const std::filesystem::path& data, const std::string& format,
             const std::string& preset, const std::optional<std::int64_t>& resize_shorter,
             const std::optional<std::int64_t>& crop, const std::optional<Colours>& mean,
             const std::optional<Colours>& deviation, const std::optional<int>& scale,
             const std::string& layout, const std::string& channels, std::size_t limit,
             bool skip_bad, int workers, const nb::object& report) {
            self.add_files(data, format,
                           {preset, resize_shorter, crop, mean, deviation, scale, layout, channels},
                           limit, skip_bad, workers, report);
          },
          nb::arg("data"), nb::kw_only(), nb::arg("format"), nb::arg("preset"),
          nb::arg("resize_shorter").none(), nb::arg("crop").none(), nb::arg("mean").none(),
          nb::arg("std").none(), nb::arg("scale").none(), nb::arg("layout"), nb::arg("channels"),
          nb::arg("limit"), nb::arg("skip_bad"), nb::arg("workers"), nb::arg("report").none(),
          "The samples of a folder or file.")
      .def("table", &PyCalibrator::table, "The ranges so far.");
}

}  // namespace xrt::python
