// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "evaluation/batches.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Samples that are tried for one that is not damaged: where the model fits none of the set, all
// would be read in vain.
constexpr std::size_t kTried = 100;

[[noreturn]] void refuse_sample(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what);
}

Dims without_batch(const Shape& shape) {
  Dims dims;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    dims.push_back(shape[i].is_known() ? shape[i].value() : -1);
  }
  return dims;
}

bool fits(const Dims& wanted, const Dims& given) {
  return std::equal(wanted.begin(), wanted.end(), given.begin(), given.end(),
                    [](std::int64_t a, std::int64_t b) { return a < 0 || a == b; });
}

// An array of pixels, [height, width, 3] or [height, width], as a picture.
bool is_pixels(const Tensor& values) {
  return values.dtype() == DType::kUInt8 &&
         (values.rank() == 2 || (values.rank() == 3 && values.dims()[2] == 3)) &&
         values.count() > 0;
}

Image image_of(const Tensor& pixels) {
  Image image{pixels.dims()[1], pixels.dims()[0], {}};
  const auto* from = pixels.data<std::uint8_t>();
  if (pixels.rank() == 3) {
    image.pixels.assign(from, from + pixels.count());
  } else {
    image.pixels.reserve(static_cast<std::size_t>(pixels.count()) * 3);
    for (std::int64_t i = 0; i < pixels.count(); ++i)
      image.pixels.insert(image.pixels.end(), 3, from[i]);
  }
  return image;
}

std::string names_of_arrays(const LabelledSample& sample) {
  std::vector<std::string> names;
  for (const NamedArray& array : sample.arrays) names.push_back(array.name);
  return fmt::format("'{}'", fmt::join(names, "', '"));
}

char* row_of(Data& data, std::int64_t row, std::size_t bytes) {
  return data.tensor().data<char>() + static_cast<std::size_t>(row) * bytes;
}

}  // namespace

BatchShape::BatchShape(const LabelledSet& set, const std::vector<Port>& inputs,
                       const BatchOptions& options)
    : ports_(inputs), preparation_(options.preparation) {
  check_preparation(preparation_);
  std::int64_t declared = -1;
  for (const Port& port : inputs) {
    if (!port.type.has_rank() || port.type.rank() == 0) {
      refuse_sample(
          fmt::format("input '{}' is {}: samples need a tensor whose first dimension is "
                      "the batch",
                      port.name, to_string(port.type)));
    }
    const Dim& first = (*port.type.shape)[0];
    if (!first.is_known()) continue;
    if (declared >= 0 && declared != first.value()) {
      refuse_sample(fmt::format("input '{}' is {}: another input has a first dimension of {}",
                                port.name, to_string(port.type), declared));
    }
    declared = first.value();
  }
  open_batch_ = declared < 0;
  batch_ = options.batch > 0 ? options.batch : std::max<std::int64_t>(declared, 1);
  if (declared >= 0 && batch_ != declared) {
    refuse_sample(
        fmt::format("a batch of {} is asked for, and the model was made for {}: ask for "
                    "{}, or export the model with an open first dimension",
                    batch_, declared, declared));
  }
  if (options.batch < 0 || declared == 0) refuse_sample("a batch has 1 sample or more");

  const std::size_t count = options.skip_bad ? std::min(set.size(), kTried) : 1;
  for (std::size_t i = 0; i < count; ++i) {
    try {
      plan(set.read(i));
      return;
    } catch (const Error& e) {
      if (i + 1 < count) continue;
      const std::string text = fmt::format("{}: {}", set.place(i), e.what());
      throw Error(e.code(), count == 1
                                ? text
                                : fmt::format("none of the first {} samples can be used; the "
                                              "last of them: {}",
                                              count, text));
    }
  }
}

const NamedArray* BatchShape::array_of(const LabelledSample& sample, const Port& port) const {
  for (const NamedArray& array : sample.arrays) {
    if (array.name == port.name) return &array;
  }
  if (ports_.size() == 1 && sample.arrays.size() == 1) return &sample.arrays.front();
  return nullptr;
}

void BatchShape::plan(const LabelledSample& sample) {
  std::vector<InputRow> rows;
  const bool picture = sample.arrays.empty();
  if (picture && ports_.size() != 1) {
    refuse_sample(fmt::format("a picture is one input, and the model has {}", ports_.size()));
  }
  for (const Port& port : ports_) {
    InputRow& row = rows.emplace_back();
    row.dtype = port.type.dtype;
    row.dims = without_batch(*port.type.shape);
    const NamedArray* array = picture ? nullptr : array_of(sample, port);
    if (!picture && array == nullptr) {
      if (!port.has_default) {
        refuse_sample(
            fmt::format("input '{}' is missing; there is {}", port.name, names_of_arrays(sample)));
      }
      row.absent = true;
      continue;
    }
    row.picture = picture || (is_pixels(array->values) && row.dtype != DType::kUInt8);
    if (row.picture) {
      if (port.type.rank() != 4) {
        refuse_sample(fmt::format("input '{}' is {}: a batch of pictures has rank 4", port.name,
                                  to_string(port.type)));
      }
      row.image = image_shape(port.type, port.name, preparation_.image);
      if (row.image.height < 0) row.image.height = preparation_.crop;
      if (row.image.width < 0) row.image.width = preparation_.crop;
      if (row.image.height == 0 || row.image.width == 0) {
        refuse_sample(fmt::format("input '{}' is {}: give the size of the pictures with crop",
                                  port.name, to_string(port.type)));
      }
      row.dims[row.image.channel - 1] = row.image.channels;
      row.dims[row.image.row - 1] = row.image.height;
      row.dims[row.image.column - 1] = row.image.width;
    } else if (fits(row.dims, array->values.dims())) {
      row.dims = array->values.dims();
    }
    for (const std::int64_t size : row.dims) {
      if (size < 0) {
        refuse_sample(fmt::format("input '{}' is {}, and its array {}{}", port.name,
                                  to_string(port.type), to_string(array->values.dtype()),
                                  to_string(array->values.dims())));
      }
    }
    row.bytes = byte_count(row.dtype, row.dims);
  }
  rows_ = std::move(rows);
  std::vector<Data> trial = allocate(1);
  store(sample, trial, 0);
}

std::vector<Data> BatchShape::allocate(std::int64_t batch) const {
  std::vector<Data> inputs;
  for (const InputRow& row : rows_) {
    if (row.absent) {
      inputs.emplace_back();
      continue;
    }
    Dims dims = row.dims;
    dims.insert(dims.begin(), batch);
    Tensor tensor = Tensor::allocate(row.dtype, dims);
    if (tensor.bytes() > 0) std::memset(tensor.raw(), 0, tensor.bytes());
    inputs.emplace_back(std::move(tensor));
  }
  return inputs;
}

std::vector<Data> BatchShape::first_of(const std::vector<Data>& inputs, std::int64_t count) const {
  std::vector<Data> result;
  for (const Data& data : inputs) {
    if (data.is_none()) {
      result.emplace_back();
      continue;
    }
    const Tensor& whole = data.tensor();
    Dims dims = whole.dims();
    dims[0] = count;
    result.emplace_back(
        Tensor::wrap(whole.dtype(), dims, const_cast<void*>(whole.raw()), whole.owner()));
  }
  return result;
}

void BatchShape::store_array(const NamedArray& array, const InputRow& row, const std::string& name,
                             char* to) const {
  const Tensor& values = array.values;
  // Lists of numbers in records have no shape of their own.
  const bool flat = values.rank() == 1 && values.count() == element_count(row.dims);
  if (values.dtype() != row.dtype || (!flat && !fits(row.dims, values.dims()))) {
    refuse_sample(fmt::format("input '{}' wants {}{} for a sample, not {}{}", name,
                              to_string(row.dtype), to_string(row.dims), to_string(values.dtype()),
                              to_string(values.dims())));
  }
  if (row.bytes > 0) std::memcpy(to, values.raw(), row.bytes);
}

void BatchShape::store(const LabelledSample& sample, std::vector<Data>& inputs,
                       std::int64_t at) const {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const InputRow& row = rows_[i];
    if (row.absent) continue;
    const NamedArray* array = sample.arrays.empty() ? nullptr : array_of(sample, ports_[i]);
    if (sample.picture.empty() && array == nullptr) {
      refuse_sample(fmt::format("there is nothing for input '{}'", ports_[i].name));
    }
    char* to = row_of(inputs[i], at, row.bytes);
    if (!row.picture) {
      if (array == nullptr) refuse_sample("it is a picture, and others are arrays");
      store_array(*array, row, ports_[i].name, to);
      continue;
    }
    if (array != nullptr && !is_pixels(array->values)) {
      refuse_sample("it is an array, and others are pictures");
    }
    const Image image = array == nullptr ? decode_image(sample.picture) : image_of(array->values);
    store_image(prepare_image(image, row.image, preparation_), row.image, row.dtype,
                preparation_.image, to);
  }
}

}  // namespace xrt
