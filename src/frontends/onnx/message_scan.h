// SPDX-License-Identifier: Apache-2.0
// What a serialised ModelProto becomes in memory, told before it is parsed: an empty message of two
// bytes is an object of hundreds.
//
//   const MessageScan scan(bytes, {.max_bytes = …, .max_nodes = …});
//   scan.parse(*model);
//
// The scan reads tags and lengths and steps over texts and lists of numbers. It takes a few bytes
// for each mebibyte of the file, looks at the clock, and never recurses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "onnx/proto.h"

namespace xrt {

struct MessageBounds {
  std::size_t max_bytes = std::numeric_limits<std::size_t>::max();  // of the parsed messages
  std::string_view max_bytes_text = {};                             // what that is, for the error
  std::size_t bytes_of_node = 0;  // that the caller makes of each node, besides
  std::int64_t max_nodes = std::numeric_limits<std::int64_t>::max();  // of the graph and its bodies
};

class MessageScan {
 public:
  // Throws kResource, naming the field that most bytes go to, where a bound is passed, and where
  // the thread's time is over. Bytes that are no ModelProto are scanned up to where protobuf
  // refuses them. `bytes` outlive the scan.
  MessageScan(std::string_view bytes, const MessageBounds& bounds);

  // What the messages take once they are parsed, heap blocks included: at least that much, and for
  // files that set no field twice, little more.
  std::size_t parsed_bytes() const { return parsed_bytes_; }

  // False where the bytes are no ModelProto. Throws kResource where the thread's time is over.
  bool parse(onnx::ModelProto& model) const;

 private:
  const std::string_view bytes_;
  // Where parse() looks at the clock: between fields, so that none of many bytes is cut.
  std::vector<std::size_t> looks_;
  const std::size_t parsed_bytes_;  // behind looks_, which the scan fills
};

}  // namespace xrt
