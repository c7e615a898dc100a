// SPDX-License-Identifier: Apache-2.0
// The text of MLIR, as far as OneFlow writes its jobs in it, as plain data.
//
//   oneflow::Job job = oneflow::parse_job(text);
//
// Read are operations in MLIR's generic form ("dialect.op"(%a) {key = value} : (type) -> type) in
// one block, inside of `oneflow.job`, in its own form or the generic one. Attributes of other
// dialects are kept as text. Every value has one definition before its uses, and the types said at
// a use are those of the definition.
//
// The text may come from anyone: an error is kInvalidModel with line and column, nesting is
// bounded, and memory stays in proportion to the text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "xrt/export.h"
#include "xrt/type.h"

namespace xrt::oneflow {

struct Place {
  std::int64_t line = 1, column = 1;
};

// "line 3, column 7"
std::string to_string(const Place& place);

struct Attribute;
using AttributeList = std::vector<Attribute>;
// What only its own dialect understands: "#sbp.parallel<[] -> []>".
struct OpaqueText {
  std::string text;
};

// A number's type suffix is dropped; `unit` is std::monostate; dense<…> is a list of its elements,
// flat, a splat written out.
struct Attribute {
  std::variant<std::monostate, bool, std::int64_t, double, std::string, AttributeList, OpaqueText>
      value;
};

struct Operation {
  Place place;
  std::string name;                             // "oneflow.conv2d"
  std::vector<std::int32_t> operands, results;  // indices into Job::values
  std::map<std::string, Attribute, std::less<>> attributes;
};

struct Job {
  std::string name;
  std::vector<Type> values;             // of every value; a type that is no tensor has no dtype
  std::vector<std::int32_t> arguments;  // values
  std::vector<Operation> operations;    // in the order of the text
  std::vector<std::int32_t> returned;   // values
};

XRT_API Job parse_job(std::string_view text);

}  // namespace xrt::oneflow
