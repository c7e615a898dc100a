// SPDX-License-Identifier: Apache-2.0
#include "quantize/op_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "xrt/error.h"

namespace xrt {
namespace {

bool fits(const OpRule& rule, const Node& node) {
  return rule.pattern == node.qualified_op() || quantization::matches(rule.pattern, node.name);
}

std::optional<Activations> form_of(std::string_view text) {
  if (text == "asymmetric") return Activations::kAsymmetric;
  if (text == "symmetric") return Activations::kSymmetric;
  return std::nullopt;
}

std::optional<Clipping> known_clipping(std::string_view text) {
  const std::vector<std::string>& names = clipping_names();
  if (std::find(names.begin(), names.end(), text) == names.end()) return std::nullopt;
  return clipping_of(text);
}

}  // namespace

Activations activations_of(std::string_view text) {
  if (const auto form = form_of(text)) return *form;
  if (text == "uint8") return Activations::kAsymmetric;
  if (text == "int8") return Activations::kSymmetric;
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("activations '{}': there are asymmetric (uint8) and symmetric (int8)", text));
}

OpRule op_rule_of(std::string_view text) {
  const std::size_t sign = text.rfind('=');
  if (sign == std::string_view::npos || sign == 0 || sign + 1 == text.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("rule '{}' is not of the form PATTERN=WORD,WORD", text));
  }
  OpRule rule{std::string(text.substr(0, sign))};
  std::string_view rest = text.substr(sign + 1);
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (word == "float" || word == "int8") {
      rule.int8 = word == "int8";
    } else if (const auto form = form_of(word)) {
      rule.form = form;
    } else if (const auto clipping = known_clipping(word)) {
      rule.clipping = clipping;
    } else {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("rule '{}': '{}' is none of float, int8, asymmetric, symmetric, {}",
                              text, word, fmt::join(clipping_names(), ", ")));
    }
  }
  return rule;
}

void check_rules(const Graph& graph, const std::vector<OpRule>& rules) {
  const std::vector<NodeId> nodes = graph.nodes();
  for (const OpRule& rule : rules) {
    if (std::any_of(nodes.begin(), nodes.end(),
                    [&](NodeId id) { return fits(rule, graph.node(id)); })) {
      continue;
    }
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("rule '{}': no node of graph '{}' has such a name or op type",
                            rule.pattern, graph.name()));
  }
}

namespace quantization {

bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = std::string_view::npos, behind = 0;  // the last '*', and where it ends in text
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      behind = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++behind;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

OpChoice choice_for(const Node& node, const QuantizeOptions& options) {
  OpChoice choice;
  for (const OpRule& rule : options.rules) {
    if (!fits(rule, node)) continue;
    if (rule.int8) {
      choice.int8 = rule.int8;
      choice.is_meant = rule.pattern == node.qualified_op() || rule.pattern == node.name;
    }
    if (rule.form) choice.form = rule.form;
    if (rule.clipping) choice.clipping = rule.clipping;
  }
  if (options.skip.contains(node.name)) choice.int8 = false;
  return choice;
}

}  // namespace quantization
}  // namespace xrt
