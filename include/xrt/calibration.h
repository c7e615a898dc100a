// SPDX-License-Identifier: Apache-2.0
// Calibration tables: the ranges of a model's values, kept apart from the model, so that they can
// be found once, looked at, joined and used again.
//
//   const CalibrationTable table = load_table("resnet50.table");
//   quantize(graph, ranges_for(table, graph, options), options);
//
// A table knows the graph that it is of by two digests: of its structure (the ops that are
// quantised and the shapes of their weights, in order) and of those weights. Sizes of inputs are no
// part of them. docs/reference/formats.md describes the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/quantize.h"

namespace xrt {

struct CalibratedValue {
  std::string name;
  std::string op;  // that makes it; empty for an input of the graph
  ValueRange range;
};

struct CalibrationTable {
  std::string model;               // for people: the name of the file, or of the graph
  std::string structure, weights;  // digests of the graph, 32 hexadecimal digits each
  std::string observer;            // what found the ranges: "percentile 99.99"
  std::size_t samples = 0;
  std::vector<CalibratedValue> values;  // in topological order
};

// The table of what a calibrator of that graph found, without a name of the model. Throws what
// Calibrator::ranges() throws.
XRT_API CalibrationTable make_table(const Graph& graph, const Calibrator& calibrator,
                                    const QuantizeOptions& options);

// Whose ranges a graph may take.
enum class TableMatch {
  kModel,      // those of a graph of the same structure and weights
  kStructure,  // also those of other weights: a network that is trained further
};

// The ranges of the values that quantize() needs, by the names of this graph. Where names differ,
// values of the same ops in the same order are taken for each other: frontends name some values
// after sizes. Throws kInvalidArgument, naming both models, where the table is of another graph or
// lacks a value.
XRT_API ValueRanges ranges_for(const CalibrationTable& table, const Graph& graph,
                               const QuantizeOptions& options,
                               TableMatch match = TableMatch::kModel);

// --- files
// ----------------------------------------------------------------------------------------

XRT_API std::string format_table(const CalibrationTable& table);
// `origin` names the text in errors: kInvalidModel for what is truncated, changed or no table.
XRT_API CalibrationTable parse_table(std::string_view text, const std::string& origin);
XRT_API CalibrationTable load_table(const std::filesystem::path& path);
// Readers see the old file or all of the new one; an error leaves the old one.
XRT_API void save_table(const CalibrationTable& table, const std::filesystem::path& path);

// --- two tables
// -----------------------------------------------------------------------------------

// The ranges that hold those of both, and the samples of both together. Throws kInvalidArgument
// where the two are of different graphs, values or observers.
XRT_API CalibrationTable merged(const CalibrationTable& a, const CalibrationTable& b);

// A value whose ranges differ, or that one of the tables lacks.
struct RangeDifference {
  std::string name;
  std::optional<ValueRange> first, second;
  // The larger of the distances between the ends, as a part of the wider range; 1 where a table
  // lacks the value.
  double change = 0;
};
// The largest change first. Tables of any two models may be compared.
XRT_API std::vector<RangeDifference> difference(const CalibrationTable& a,
                                                const CalibrationTable& b);

// --- TensorRT's calibration caches
// ----------------------------------------------------------------

// "TRT-<version>-EntropyCalibration2" and a line "name: <hex of the scale as float32>" a value. A
// scale is a 127th of the larger end. Throws kInvalidArgument for a version below 1000 and for a
// name with a line break.
XRT_API std::string format_tensorrt_cache(const CalibrationTable& table, int version);
// Whether the text begins as a cache of TensorRT.
XRT_API bool is_tensorrt_cache(std::string_view text);
// Scales by the names of values. `origin` names the text in errors: kInvalidModel for what is no
// cache.
XRT_API std::map<std::string, float> parse_tensorrt_cache(std::string_view text,
                                                          const std::string& origin);
// The table of a graph by what a cache holds: ranges as far below zero as above, but for values
// that have no element below (Relu, Sigmoid, …, and what moves their results). Throws
// kInvalidArgument, naming them, for values that the cache lacks.
XRT_API CalibrationTable table_of_cache(const std::map<std::string, float>& scales,
                                        const std::string& origin, const Graph& graph,
                                        const QuantizeOptions& options);

}  // namespace xrt
