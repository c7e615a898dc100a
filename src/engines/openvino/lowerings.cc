// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/lowerings.h"

namespace xrt::openvino {

const std::vector<std::shared_ptr<ov::Extension>>& lowering_extensions() {
  static const std::vector<std::shared_ptr<ov::Extension>> extensions = {};
  return extensions;
}

std::vector<std::string> lowered_ops() { return {}; }

}  // namespace xrt::openvino
