// SPDX-License-Identifier: Apache-2.0
// A flat binary form of graphs, for files that this library writes for itself: caches and the blobs
// of engines. It is read where it lies: the data of tensors begin at multiples of 64 bytes and stay
// in the file's mapping.
//
//   FlatWriter writer;
//   writer.text("name").graph(graph);
//   const FlatWriter::Pieces pieces = writer.finish();   // one after the other they are the block
//   …
//   FlatReader reader(block);                            // uint8, aligned to 64 bytes
//   const std::string name = reader.text();
//   const Graph graph = reader.graph();
//   reader.end();
//
// Tensors may also lie in other blocks that the reader will have (a file of external data): see
// DataBlock. Dead ids are dropped: values and nodes are numbered anew, in the same order as after
// Graph::compact().
//
// Reading checks every count, offset and id: a block of any content gives a graph or an xrt::Error
// (kInvalidModel). Not portable between byte orders, and no format for exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// Memory that tensors need not be copied from: it will be there, with the same content, when the
// block is read.
struct DataBlock {
  // Addresses now, with what they will be in the block then: {address, {bytes, offset}}.
  std::map<const void*, std::pair<std::size_t, std::size_t>> tensors = {};
  // A range of addresses whose order is kept, e.g. a mapped file.
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;

  std::optional<std::size_t> offset_of(const Tensor& tensor) const;
};

class XRT_API FlatWriter {
 public:
  // Pieces point into the writer and into the tensors that were written.
  using Pieces = std::vector<std::string_view>;

  FlatWriter() = default;
  explicit FlatWriter(std::vector<DataBlock> others) : others_(std::move(others)) {}
  FlatWriter(const FlatWriter&) = delete;
  FlatWriter& operator=(const FlatWriter&) = delete;

  FlatWriter& number(std::int64_t value);
  FlatWriter& real(float value);
  FlatWriter& text(std::string_view value);
  FlatWriter& tensor(const Tensor& value);
  // dtype and shape of a tensor whose elements nobody will read.
  FlatWriter& hollow_tensor(const Tensor& value);
  FlatWriter& type(const Type& value);
  // Constants for which `is_hollow` says so are written without their elements.
  FlatWriter& graph(const Graph& value, const std::vector<bool>& is_hollow = {});
  // Bytes without a shape, aligned as tensors are.
  FlatWriter& bytes(std::string_view value);

  // Once, at the end.
  Pieces finish();
  // Where the tensors written lie in the finished block; after finish().
  DataBlock data_block() const;

 private:
  std::size_t place(const void* data, std::size_t bytes);
  void shape(const Tensor& value);
  void attribute(const Attribute& value, const std::vector<std::int64_t>& numbers);
  void graph_around(const Graph& value, const std::vector<std::int64_t>* outer,
                    const std::vector<bool>& is_hollow);

  std::vector<DataBlock> others_;
  std::string fields_;
  std::string head_;
  std::vector<std::pair<const void*, std::size_t>> data_;  // in order of their places
  std::vector<Tensor> kept_;
  std::map<std::pair<const void*, std::size_t>, std::size_t> placed_;  // to offset in the data
  std::size_t data_bytes_ = 0;
  std::size_t data_begin_ = 0;  // in the finished block
};

class XRT_API FlatReader {
 public:
  // `block` is uint8; tensors that are read keep it and the others alive. `others` as the writer's.
  explicit FlatReader(Tensor block, std::vector<Tensor> others = {});
  // The other blocks, where the beginning of this one tells which they are.
  void lend(std::vector<Tensor> others) { others_ = std::move(others); }

  std::int64_t number();
  float real();
  std::string text();
  Tensor tensor();
  Type type();
  Graph graph();
  Tensor bytes();  // uint8
  // A number from 0 to `limit`, for counts; every item takes at least one byte of the block.
  std::size_t count();
  // Throws if something is left.
  void end() const;

 private:
  std::string_view take(std::size_t bytes);
  Tensor data(DType dtype, Dims dims, std::size_t bytes);
  Dims dims();
  DType dtype();
  Attribute attribute(const std::vector<ValueId>& outer, int depth);
  Graph graph_at(const std::vector<ValueId>* outer, int depth);
  Type type_at(int depth);
  template <typename T, typename Read>
  std::vector<T> list(Read&& read) {
    std::vector<T> items;
    const std::size_t n = count();
    for (std::size_t i = 0; i < n; ++i) items.push_back(read());
    return items;
  }

  Tensor block_;
  std::vector<Tensor> others_;
  std::string_view fields_;
  std::size_t data_begin_ = 0;
};

}  // namespace xrt
