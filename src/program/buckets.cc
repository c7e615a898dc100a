// SPDX-License-Identifier: Apache-2.0
#include "program/buckets.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "passes/row_wise.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// A tensor as `outer` pieces of rows of `row_bytes` each, along an axis.
struct RowLayout {
  std::size_t outer = 1, row_bytes = 0;
};

RowLayout row_layout(const Tensor& tensor, std::size_t axis) {
  RowLayout layout;
  std::int64_t row = 1;
  for (std::size_t d = 0; d < tensor.rank(); ++d) {
    if (d < axis) layout.outer *= static_cast<std::size_t>(tensor.dims()[d]);
    if (d > axis) row *= tensor.dims()[d];
  }
  layout.row_bytes = byte_count(tensor.dtype(), Dims{row});
  return layout;
}

// Copies the first `rows` rows of each piece; the target has at least as many.
void copy_rows(const Tensor& from, Tensor& to, std::size_t axis, std::size_t rows) {
  const RowLayout layout = row_layout(from, axis);
  const std::size_t from_piece = static_cast<std::size_t>(from.dims()[axis]) * layout.row_bytes;
  const std::size_t to_piece = static_cast<std::size_t>(to.dims()[axis]) * layout.row_bytes;
  for (std::size_t i = 0; i < layout.outer && layout.row_bytes > 0; ++i) {
    std::memcpy(to.data<std::byte>() + i * to_piece, from.data<std::byte>() + i * from_piece,
                rows * layout.row_bytes);
  }
}

Tensor padded(const Tensor& tensor, std::size_t axis, std::int64_t size) {
  Dims dims = tensor.dims();
  const auto rows = static_cast<std::size_t>(dims[axis]);
  dims[axis] = size;
  Tensor result = Tensor::allocate(tensor.dtype(), std::move(dims));
  copy_rows(tensor, result, axis, rows);
  const RowLayout layout = row_layout(result, axis);
  for (std::size_t i = 0; i < layout.outer && layout.row_bytes > 0; ++i) {
    std::byte* piece =
        result.data<std::byte>() + i * static_cast<std::size_t>(size) * layout.row_bytes;
    const std::byte* last = piece + (rows - 1) * layout.row_bytes;
    for (std::size_t r = rows; r < static_cast<std::size_t>(size); ++r) {
      std::memcpy(piece + r * layout.row_bytes, last, layout.row_bytes);
    }
  }
  return result;
}

// Whether rows can be copied by their bytes.
bool has_whole_bytes(DType dtype) { return dtype != DType::kString && bit_width(dtype) >= 8; }

}  // namespace

void PaddedRun::deliver(std::span<const Data> results, std::span<Data> outputs,
                        const std::vector<Port>& ports) const {
  for (std::size_t i = 0; i < results.size(); ++i) {
    Tensor cut;
    if (cuts_[i].axis < 0 || !results[i].is_tensor()) {
      if (outputs[i].is_none()) {
        outputs[i] = results[i];
        continue;
      }
      cut = results[i].tensor();
    } else {
      const Tensor& whole = results[i].tensor();
      const auto axis = static_cast<std::size_t>(cuts_[i].axis);
      Dims dims = whole.dims();
      dims[axis] = cuts_[i].size;
      if (outputs[i].is_none()) {
        Tensor own = Tensor::allocate(whole.dtype(), std::move(dims));
        copy_rows(whole, own, axis, static_cast<std::size_t>(cuts_[i].size));
        outputs[i] = std::move(own);
        continue;
      }
      cut = Tensor::allocate(whole.dtype(), std::move(dims));
      copy_rows(whole, cut, axis, static_cast<std::size_t>(cuts_[i].size));
    }
    Tensor& given = outputs[i].tensor();
    if (given.dtype() != cut.dtype() || given.dims() != cut.dims()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "output '" + ports[i].name + "' has shape " + to_string(cut.dims()) +
                      ", memory was given for " + to_string(given.dims()));
    }
    copy_elements(cut, given);
  }
}

std::unique_ptr<Buckets> Buckets::of(const Graph& graph, const std::vector<NamedRange>& ranges,
                                     std::string& why_not) {
  auto buckets = std::make_unique<Buckets>();
  for (const NamedRange& range : ranges) {
    const RowWise found = row_wise(graph, range.name);
    if (!found) {
      why_not += (why_not.empty() ? "" : "; ") + found.why_not;
      continue;
    }
    Rows rows{range.name, {}, found.output_axes};
    bool fits = true;
    for (const ValueId v : graph.inputs()) {
      const Type& type = graph.type(v);
      int axis = -1;
      for (std::size_t d = 0; d < type.rank(); ++d) {
        if ((*type.shape)[d] == Dim(range.name)) axis = static_cast<int>(d);
      }
      fits = fits && (axis < 0 || has_whole_bytes(type.dtype));
      rows.inputs.push_back(axis);
    }
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      const Type& type = graph.type(graph.outputs()[i]);
      fits = fits && (rows.outputs[i] < 0 || has_whole_bytes(type.dtype));
    }
    if (fits) {
      buckets->rows_.push_back(std::move(rows));
    } else {
      why_not += (why_not.empty() ? "" : "; ") + std::string("elements smaller than a byte");
    }
  }
  if (buckets->rows_.empty()) return nullptr;
  return buckets;
}

std::int64_t Buckets::bucket_of(std::int64_t size, const NamedRange& range) {
  std::int64_t bucket = std::max<std::int64_t>(range.least, 1);
  while (bucket < size && bucket <= range.most / 2) bucket *= 2;
  if (bucket < size) bucket = range.most;
  if (range.usual >= size) bucket = std::min(bucket, range.usual);
  return bucket;
}

std::optional<PaddedRun> Buckets::pad(std::span<const Data> inputs,
                                      const std::vector<NamedRange>& ranges) const {
  std::vector<Data> own(inputs.begin(), inputs.end());
  std::vector<PaddedRun::Cut> cuts;
  bool any = false;
  for (const Rows& rows : rows_) {
    const auto range = std::find_if(ranges.begin(), ranges.end(),
                                    [&](const NamedRange& r) { return r.name == rows.dimension; });
    cuts.resize(rows.outputs.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (rows.inputs[i] < 0 || !own[i].is_tensor()) continue;
      const auto axis = static_cast<std::size_t>(rows.inputs[i]);
      const Tensor& tensor = own[i].tensor();
      const std::int64_t size = tensor.dims()[axis];
      // Nothing to repeat, or beyond all ranges.
      if (size < 1 || size > range->most) return std::nullopt;
      const std::int64_t bucket = bucket_of(size, *range);
      if (bucket == size) continue;
      any = true;
      for (std::size_t o = 0; o < cuts.size(); ++o) {
        // Rows of two dimensions in one output are cut one after the other: not done.
        if (rows.outputs[o] < 0) continue;
        if (cuts[o].axis >= 0 && cuts[o].axis != rows.outputs[o]) return std::nullopt;
        cuts[o] = {rows.outputs[o], size};
      }
      own[i] = padded(tensor, axis, bucket);
    }
  }
  if (!any) return std::nullopt;
  return PaddedRun(std::move(own), std::move(cuts));
}

}  // namespace xrt
