// SPDX-License-Identifier: Apache-2.0
// A plan: all that placement, partition and folding found out about one graph. It is a plain value,
// which can be kept in the disk cache and taken up again; exec/executor.h compiles and runs it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/flat.h"
#include "xrt/explanation.h"
#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/precision.h"

namespace xrt {

struct Plan {
  Graph folded;                      // launch nodes only (partition/fold.h)
  std::vector<std::string> engines;  // in order of priority; "runtime" where it drives control flow
  std::vector<std::string> output_names;
  std::vector<std::pair<std::size_t, std::size_t>> aliases;  // position of input and of output
  std::vector<std::string> identities;  // of the engines when this was made; "": not to be kept
  Precision precision = Precision::kF32;
  std::vector<std::string> float32_nodes;  // see Decision
  std::vector<std::string> warnings;       // of which each is to be logged once per program
  // Names of the functions' entries in the compile cache, by launch; empty: not known yet.
  std::vector<std::string> keys;
  Explanation explanation;  // without the rows of launches
  // To be called before anybody reads elements of the graphs' constants, where they lie in memory
  // that was not checked yet: throws kInvalidModel if they are damaged. May be empty.
  std::function<void()> check_constants = {};
};

class Survey;
struct Decision;

// Places and partitions the survey's graph, which has inferred types, by its options.
Plan make_plan(Survey& survey, const Decision& decision);

// The values' names; "" where one is left out.
XRT_API std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& values);

void write_plan(FlatWriter& writer, const Plan& draft);
// Throws kInvalidModel where the block holds no draft.
Plan read_plan(FlatReader& reader);

}  // namespace xrt
