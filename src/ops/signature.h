// SPDX-License-Identifier: Apache-2.0
// What an op takes, as its schema says it: for programs that make nodes of every op by themselves.
//
//   for (const OpSignature& op : op_signatures("ai.onnx.ml")) …
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/type.h"

namespace xrt {

struct OpSignature {
  struct Operand {
    std::string type_variable;  // operands of one variable have one type
    std::vector<Type> types;    // that are allowed, without shapes; those of maps are left out
    bool optional = false;
    bool variadic = false;  // the last one: any number of them
  };
  struct NamedAttribute {
    std::string name;
    Attribute value;  // of the kind that is wanted: the schema's default, else an empty one
    bool required = false;
  };
  std::string domain, name;
  std::vector<Operand> inputs;
  std::vector<NamedAttribute> attributes;  // without those that are graphs
  bool has_graphs = false;
  int min_outputs = 0, max_outputs = 0;
};

// Those of every op of a domain at its newest version, deprecated ones left out, sorted by name.
XRT_API std::vector<OpSignature> op_signatures(std::string_view domain);

}  // namespace xrt
