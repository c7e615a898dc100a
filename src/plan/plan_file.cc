// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>

#include "partition/fold.h"
#include "plan/plan.h"
#include "xrt/error.h"

namespace xrt {
namespace {

void write_texts(FlatWriter& writer, const std::vector<std::string>& texts) {
  writer.number(static_cast<std::int64_t>(texts.size()));
  for (const std::string& text : texts) writer.text(text);
}

std::vector<std::string> read_texts(FlatReader& reader) {
  std::vector<std::string> texts(reader.count());
  for (std::string& text : texts) text = reader.text();
  return texts;
}

void write_precision(FlatWriter& writer, Precision precision) {
  writer.number(static_cast<std::int64_t>(precision));
}

Precision read_precision(FlatReader& reader) {
  const std::int64_t n = reader.number();
  if (n < 0 || n > static_cast<std::int64_t>(Precision::kF16)) {
    throw Error(ErrorCode::kInvalidModel, "plan: an unknown precision");
  }
  return static_cast<Precision>(n);
}

void write_row(FlatWriter& writer, const Explanation::NodeRow& row) {
  writer.text(row.name).text(row.op).text(row.engine).text(row.function);
  write_texts(writer, row.input_types);
  write_texts(writer, row.output_types);
  write_texts(writer, row.inputs);
  write_texts(writer, row.outputs);
  writer.number(static_cast<std::int64_t>(row.refusals.size()));
  for (const auto& [engine, reason] : row.refusals) writer.text(engine).text(reason);
}

Explanation::NodeRow read_row(FlatReader& reader) {
  Explanation::NodeRow row;
  row.name = reader.text();
  row.op = reader.text();
  row.engine = reader.text();
  row.function = reader.text();
  row.input_types = read_texts(reader);
  row.output_types = read_texts(reader);
  row.inputs = read_texts(reader);
  row.outputs = read_texts(reader);
  for (std::size_t n = reader.count(); n-- > 0;) {
    std::string engine = reader.text();
    row.refusals[std::move(engine)] = reader.text();
  }
  return row;
}

void write_candidate(FlatWriter& writer, const Explanation::CandidateRow& row) {
  writer.text(row.plan).text(row.note).number(row.chosen ? 1 : 0);
  write_precision(writer, row.precision);
  for (const double value : {row.estimated_us, row.measured_us, row.error}) {
    writer.number(std::bit_cast<std::int64_t>(value));
  }
}

Explanation::CandidateRow read_candidate(FlatReader& reader) {
  Explanation::CandidateRow row;
  row.plan = reader.text();
  row.note = reader.text();
  row.chosen = reader.number() != 0;
  row.precision = read_precision(reader);
  for (double* value : {&row.estimated_us, &row.measured_us, &row.error}) {
    *value = std::bit_cast<double>(reader.number());
  }
  return row;
}

std::size_t position(FlatReader& reader, std::size_t size) {
  const std::int64_t n = reader.number();
  if (n < 0 || static_cast<std::size_t>(n) >= size) {
    throw Error(ErrorCode::kInvalidModel, "plan: an alias names no value");
  }
  return static_cast<std::size_t>(n);
}

// Each node is the launch of a function of these operands and results.
void check_launches(const Graph& folded) {
  const auto are_alike = [&](const std::vector<ValueId>& outer, const Graph& body,
                             const std::vector<ValueId>& inner) {
    return std::equal(outer.begin(), outer.end(), inner.begin(), inner.end(),
                      [&](ValueId a, ValueId b) {
                        return a.valid() && b.valid() && folded.type(a) == body.type(b);
                      });
  };
  for (const NodeId id : folded.nodes()) {
    const Node& node = folded.node(id);
    const std::shared_ptr<const Graph> body = node.attr_graph("function");
    const bool is_launch = node.domain == kXrtDomain && node.op == kLaunchOp && body != nullptr &&
                           are_alike(node.inputs, *body, body->inputs()) &&
                           are_alike(node.outputs, *body, body->outputs());
    if (!is_launch) {
      throw Error(ErrorCode::kInvalidModel, "plan: a node is not the launch of a function");
    }
  }
}

}  // namespace

void write_plan(FlatWriter& writer, const Plan& draft) {
  writer.graph(draft.folded);
  write_texts(writer, draft.engines);
  write_texts(writer, draft.identities);
  write_texts(writer, draft.output_names);
  writer.number(static_cast<std::int64_t>(draft.aliases.size()));
  for (const auto& [input, output] : draft.aliases) {
    writer.number(static_cast<std::int64_t>(input)).number(static_cast<std::int64_t>(output));
  }
  write_precision(writer, draft.precision);
  write_texts(writer, draft.float32_nodes);
  write_texts(writer, draft.warnings);
  write_texts(writer, draft.keys);
  writer.text(draft.explanation.placement);
  write_texts(writer, draft.explanation.notes);
  writer.number(static_cast<std::int64_t>(draft.explanation.nodes.size()));
  for (const Explanation::NodeRow& row : draft.explanation.nodes) write_row(writer, row);
  writer.number(static_cast<std::int64_t>(draft.explanation.candidates.size()));
  for (const auto& row : draft.explanation.candidates) write_candidate(writer, row);
}

Plan read_plan(FlatReader& reader) {
  Plan draft;
  draft.folded = reader.graph();
  draft.engines = read_texts(reader);
  draft.identities = read_texts(reader);
  draft.output_names = read_texts(reader);
  for (std::size_t n = reader.count(); n-- > 0;) {
    const std::size_t input = position(reader, draft.folded.inputs().size());
    draft.aliases.emplace_back(input, position(reader, draft.folded.outputs().size()));
  }
  draft.precision = read_precision(reader);
  draft.float32_nodes = read_texts(reader);
  draft.warnings = read_texts(reader);
  draft.keys = read_texts(reader);
  draft.explanation.placement = reader.text();
  draft.explanation.precision = draft.precision;
  draft.explanation.notes = read_texts(reader);
  for (std::size_t n = reader.count(); n-- > 0;) {
    draft.explanation.nodes.push_back(read_row(reader));
    ++draft.explanation.nodes_per_engine[draft.explanation.nodes.back().engine];
  }
  for (std::size_t n = reader.count(); n-- > 0;) {
    draft.explanation.candidates.push_back(read_candidate(reader));
  }
  if (draft.output_names.size() != draft.folded.outputs().size() ||
      draft.identities.size() != draft.engines.size() ||
      draft.keys.size() != draft.folded.node_count()) {
    throw Error(ErrorCode::kInvalidModel, "plan: its lists have different lengths");
  }
  check_launches(draft.folded);
  return draft;
}

}  // namespace xrt
