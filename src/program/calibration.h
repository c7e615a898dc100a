// SPDX-License-Identifier: Apache-2.0
// Ranges of a model's values, by samples: of a model's file, sample by sample, in memory that does
// not grow with their number; of a graph, by samples that are at hand as a whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "xrt/calibration.h"
#include "xrt/export.h"
#include "xrt/program.h"
#include "xrt/quantize.h"

namespace xrt {

using UseSample = std::function<void(const std::vector<Tensor>&)>;
// Calls its second argument once per sample, with values in the order of `inputs`.
using SampleSource = std::function<void(const std::vector<Port>& inputs, const UseSample& use)>;

// A model's graph as calibration and quantize() see it: imported, its inputs as `sizes` refines
// them (shapes, ranges, max_batch_size), simplified. Throws kInvalidArgument for a node in
// options.skip that the model has not, and what importing and refining throw.
XRT_API Graph graph_to_quantize(const std::filesystem::path& model, const QuantizeOptions& options,
                                const ProgramOptions& sizes = {});

// The inputs as samples have them: an open first dimension is `batch`, or, where that is 0, 1.
// Throws kInvalidArgument for an input of unknown rank.
XRT_API std::vector<Port> sample_ports(const Graph& graph, std::int64_t batch = 0);

// The table of a model's file. Throws what graph_to_quantize(), sample_ports(), Calibrator and
// `samples` throw.
XRT_API CalibrationTable calibrate_model(const std::filesystem::path& model,
                                         const SampleSource& samples,
                                         const QuantizeOptions& options,
                                         const ProgramOptions& sizes = {}, std::int64_t batch = 0);

// A table for the model from a file: one of ours, or a calibration cache of TensorRT. Throws
// kInvalidModel for what is neither, and what table_of_cache() throws.
XRT_API CalibrationTable load_any_table(const std::filesystem::path& file, const Graph& graph,
                                        const QuantizeOptions& options);

// The table of a graph. What was found is kept in the disk cache (cache_entry.h): the same graph,
// names, samples and options are not run twice. A sample has one value per graph input, in order.
// `cache_dir`: empty for no cache; a folder that cannot be used is a warning. Throws as Calibrator,
// and kInvalidArgument where there is no sample.
XRT_API CalibrationTable calibrate(const Graph& graph,
                                   const std::vector<std::vector<Tensor>>& samples,
                                   const QuantizeOptions& options,
                                   const std::filesystem::path& cache_dir);

}  // namespace xrt
