// SPDX-License-Identifier: Apache-2.0
// Names of a file that are no UTF-8: some exporters write them as their system encodes text.
#pragma once

#include "onnx/proto.h"

namespace xrt {

// Writes each byte that is not part of a UTF-8 character as \xNN, in all names of the model and its
// other text: these are shown, and Python gives them as strings. Values of attributes and names of
// external files are left as they are.
void make_names_text(onnx::ModelProto& model);

}  // namespace xrt
