// SPDX-License-Identifier: Apache-2.0
// What int8 costs, node by node (rank_nodes() of xrt/quantize.h), as JSON and as one HTML page that
// needs no network.
#pragma once

#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/quantize.h"

namespace xrt::report {

// An object: "model", and "nodes", a list of {name, op, kept, alone_db, weights_db, reached_db,
// input, output}, the noisiest first; decibels are null where there is no noise, the ranges where
// there is none. `indent` as of nlohmann's dump(). Any bytes are accepted in names.
XRT_API std::string noise_json(const std::vector<NodeNoise>& nodes, const std::string& model,
                               int indent = -1);
XRT_API std::string noise_html(const std::vector<NodeNoise>& nodes, const std::string& model);

}  // namespace xrt::report
