// SPDX-License-Identifier: Apache-2.0
// openxrt._core.LabelledSet.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "data/labelled_set.h"
#include "evaluation/batches.h"
#include "gil.h"

namespace xrt::python {

using Colours = std::array<float, 3>;

// A labelled set and how its samples become batches.
class PyLabelledSet {
 public:
  PyLabelledSet(const std::filesystem::path& data, const std::string& format,
                const std::optional<std::filesystem::path>& classes,
                const std::string& picture_field, const std::string& label_field,
                const std::string& preset, const std::optional<std::int64_t>& resize_shorter,
                const std::optional<std::int64_t>& crop, const std::optional<Colours>& mean,
                const std::optional<Colours>& deviation, const std::optional<int>& scale,
                const std::string& layout, const std::string& channels, std::size_t limit,
                std::int64_t label_offset, bool skip_bad, int workers) {
    batches_.preparation =
        make_preparation({preset, resize_shorter, crop, mean, deviation, scale, layout, channels});
    batches_.limit = limit;
    batches_.label_offset = label_offset;
    batches_.skip_bad = skip_bad;
    batches_.workers = workers;
    const ReleasedGil release;
    set_ = open_labelled_set(
        {data, format, classes.value_or(std::filesystem::path()), picture_field, label_field});
  }

  const LabelledSet& set() const { return *set_; }
  const BatchOptions& batches() const { return batches_; }

 private:
  std::unique_ptr<LabelledSet> set_;
  BatchOptions batches_;
};

}  // namespace xrt::python
