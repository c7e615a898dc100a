// SPDX-License-Identifier: Apache-2.0
// Samples along the first dimension of the arrays of .npz files. They are held in memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/labelled_formats.h"
#include "data/npy.h"
#include "xrt/error.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 5> kLabelNames = {"labels", "label", "y", "targets", "target"};

struct ArrayFile {
  fs::path path;
  std::map<std::string, Tensor> arrays;
  std::vector<std::int64_t> labels;
  std::size_t first = 0;  // number of its first sample in the set
};

[[noreturn]] void refuse_array(const fs::path& path, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", path.string(), what));
}

// Zeros, as many as there are samples.
Tensor no_labels(const ArrayFile& file) {
  const bool none = file.arrays.empty() || file.arrays.begin()->second.rank() == 0;
  Tensor labels =
      Tensor::allocate(DType::kInt64, {none ? 0 : file.arrays.begin()->second.dims()[0]});
  std::fill_n(labels.data<std::int64_t>(), labels.count(), 0);
  return labels;
}

ArrayFile read_arrays(const fs::path& path, bool without_labels) {
  ArrayFile file{path, read_npz(path), {}, 0};
  Tensor labels;
  std::string name;
  for (const char* each : kLabelNames) {
    if (!labels.defined() && file.arrays.contains(each)) {
      name = each;
      labels = file.arrays.at(each);
    }
  }
  if (!labels.defined() && without_labels) labels = no_labels(file);
  if (!labels.defined()) {
    refuse_array(path, fmt::format("there are no labels: an array called {} is wanted",
                                   fmt::join(kLabelNames, ", ")));
  }
  file.arrays.erase(name);
  const bool column = labels.rank() == 1 || (labels.rank() == 2 && labels.dims()[1] == 1);
  if (!is_integer(labels.dtype()) || !column) {
    refuse_array(path, fmt::format("'{}' is {}{}: an integer per sample is wanted", name,
                                   to_string(labels.dtype()), to_string(labels.dims())));
  }
  file.labels = labels.to_int64();
  if (file.arrays.empty()) refuse_array(path, "there are no arrays but labels");
  for (const auto& [each, values] : file.arrays) {
    if (values.rank() == 0 || values.dims()[0] != labels.dims()[0]) {
      refuse_array(path, fmt::format("'{}' is {}{} for {} labels", each, to_string(values.dtype()),
                                     to_string(values.dims()), labels.dims()[0]));
    }
    if (is_packed(values.dtype()) || values.dtype() == DType::kString) {
      refuse_array(
          path, fmt::format("'{}' is {}, which is not read here", each, to_string(values.dtype())));
    }
  }
  return file;
}

class LabelledArrays : public LabelledSet {
 public:
  LabelledArrays(const std::vector<fs::path>& files, std::vector<std::string> classes,
                 bool without_labels)
      : LabelledSet("arrays") {
    classes_ = std::move(classes);
    for (const fs::path& path : files) {
      files_.push_back(read_arrays(path, without_labels));
      files_.back().first = size_;
      size_ += files_.back().labels.size();
    }
  }

  std::size_t size() const override { return size_; }
  std::size_t parts() const override { return files_.size(); }

  std::string place(std::size_t index) const override {
    const ArrayFile& file = file_of(index);
    return fmt::format("{} sample {}", file.path.string(), index - file.first);
  }

  LabelledSample read(std::size_t index) const override {
    const ArrayFile& file = file_of(index);
    const std::size_t row = index - file.first;
    LabelledSample sample;
    sample.label = file.labels.at(row);
    for (const auto& [name, values] : file.arrays) {
      const Dims dims(values.dims().begin() + 1, values.dims().end());
      const std::size_t bytes = values.bytes() / file.labels.size();
      char* data = const_cast<char*>(values.data<char>()) + row * bytes;
      sample.arrays.push_back({name, Tensor::wrap(values.dtype(), dims, data, values.owner())});
    }
    return sample;
  }

 private:
  const ArrayFile& file_of(std::size_t index) const {
    auto at = files_.begin();
    while (index - at->first >= at->labels.size()) ++at;
    return *at;
  }

  std::vector<ArrayFile> files_;
  std::size_t size_ = 0;
};

}  // namespace

bool is_label_name(const std::string& name) {
  return std::find(kLabelNames.begin(), kLabelNames.end(), name) != kLabelNames.end();
}

std::unique_ptr<LabelledSet> open_arrays(const std::vector<fs::path>& files,
                                         std::vector<std::string> classes, bool without_labels) {
  return std::make_unique<LabelledArrays>(files, std::move(classes), without_labels);
}

}  // namespace xrt
