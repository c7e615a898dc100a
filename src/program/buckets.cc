// SPDX-License-Identifier: Apache-2.0
#include "program/buckets.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "device/caller_stream.h"
#include "passes/row_wise.h"
#include "program/rows.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// What the caller has queued on a device is done before its memory is copied by the host's order.
void wait_for_caller(const Tensor& tensor) {
  CallerStream* stream = CallerStream::current();
  if (!tensor.on_host() && stream != nullptr) stream->wait();
}

Tensor padded(const Tensor& tensor, std::size_t axis, std::int64_t size) {
  wait_for_caller(tensor);
  Dims dims = tensor.dims();
  const auto rows = static_cast<std::size_t>(dims[axis]);
  const auto wanted = static_cast<std::size_t>(size);
  dims[axis] = size;
  Tensor result = Tensor::allocate(tensor.dtype(), std::move(dims), tensor.device());
  copy_rows(tensor, result, axis, 0, static_cast<std::int64_t>(rows));
  const RowLayout layout = row_layout(result, axis);
  for (std::size_t i = 0; i < layout.outer; ++i) {
    // The last row, then as many as there are of it already.
    const std::size_t last = i * wanted + rows - 1;
    for (std::size_t have = 1, end = wanted - rows + 1; have < end;) {
      const std::size_t more = std::min(have, end - have);
      copy_bytes(result, last * layout.row_bytes, result, (last + have) * layout.row_bytes,
                 more * layout.row_bytes);
      have += more;
    }
  }
  return result;
}

// The first `size` rows. On a device nothing is moved where they lie together.
Tensor first_rows(const Tensor& whole, std::size_t axis, std::int64_t size) {
  if (!whole.on_host() && row_layout(whole, axis).outer == 1) return rows_of(whole, axis, 0, size);
  wait_for_caller(whole);
  Dims dims = whole.dims();
  dims[axis] = size;
  Tensor own = Tensor::allocate(whole.dtype(), std::move(dims), whole.device());
  copy_rows(whole, own, axis, 0, size);
  return own;
}

}  // namespace

void PaddedRun::deliver(std::span<const Data> results, std::span<Data> outputs,
                        const std::vector<Port>& ports) const {
  for (std::size_t i = 0; i < results.size(); ++i) {
    Data made = results[i];
    if (cuts_[i].axis >= 0 && results[i].is_tensor()) {
      made =
          first_rows(results[i].tensor(), static_cast<std::size_t>(cuts_[i].axis), cuts_[i].size);
    }
    if (outputs[i].is_none()) {
      outputs[i] = std::move(made);
      continue;
    }
    const Tensor& cut = made.tensor();
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
