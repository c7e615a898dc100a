// SPDX-License-Identifier: Apache-2.0
// Model files of other kinds, told by what they hold.
#pragma once

#include <string>
#include <string_view>

#include "xrt/export.h"

namespace xrt {

// What a file is that is no ONNX model, and what to do with it: "it is a TensorFlow Lite model: …";
// empty where it is of no kind that is known. Files whose first bytes could not begin an ONNX model
// are told by these, protocol buffers by the fields that they have, which takes a look at the first
// few: ask about those only where the ONNX parser found no graph.
XRT_API std::string foreign_kind(std::string_view bytes);
XRT_API std::string foreign_message_kind(std::string_view bytes);

}  // namespace xrt
