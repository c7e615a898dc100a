// SPDX-License-Identifier: Apache-2.0
#include "onnx/contributed/ops.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "onnx/contributed/rewriting.h"

namespace xrt {
namespace {

using contributed::Entry;
using contributed::kMicrosoft;

constexpr std::string_view kGraphicsCard =
    "ONNX Runtime has it for graphics cards alone: export the model for the CPU";

// Ops that are left out, and why.
constexpr auto kLeftOut = std::to_array<ContributedOp>({
    {kMicrosoft, "AttnLSTM",
     "an LSTM with attention inside its steps, which no exporter writes any more: export it as an "
     "LSTM cell in a Loop"},
    {kMicrosoft, "DecoderMaskedSelfAttention", kGraphicsCard},
    {kMicrosoft, "DynamicTimeWarping",
     "its path is followed back element by element, which no op of the standard does: take the "
     "path from the costs outside the model"},
    {kMicrosoft, "PackedAttention", kGraphicsCard},
    {kMicrosoft, "PackedMultiHeadAttention", kGraphicsCard},
    {kMicrosoft, "Sampling",
     "its words are drawn with random numbers of ONNX Runtime's own: load the model itself and "
     "write "
     "the loop outside"},
    {kMicrosoft, "SparseAttention",
     "its mask lies in compressed rows whose length the data decide: export the attention with a "
     "plain mask"},
    {kMicrosoft, "SparseToDenseMatMul",
     "the product of a sparse tensor, which graphs here do not hold: store the matrix dense"},
    {kMicrosoft, "Tokenizer",
     "it cuts strings by regular expressions: cut them before they go into the model"},
    {kMicrosoft, "WhisperBeamSearch",
     "it runs an encoder and a decoder to the end of a text: load the two and write the loop "
     "outside"},
});

using OpName = std::pair<std::string_view, std::string_view>;

// Every rewriting by domain and op.
const std::map<OpName, const Entry*>& rewritings() {
  static const auto* const table = [] {
    auto* made = new std::map<OpName, const Entry*>;
    for (const auto entries :
         {contributed::linear_ops(), contributed::convolution_ops(), contributed::activation_ops(),
          contributed::normalisation_ops(), contributed::attention_ops(),
          contributed::quantised_ops(), contributed::weight_ops(), contributed::sequence_ops(),
          contributed::expert_ops(), contributed::generation_ops(), contributed::other_ops()}) {
      for (const Entry& entry : entries) (*made)[{entry.domain, entry.op}] = &entry;
    }
    return made;
  }();
  return *table;
}

const ContributedOp* left_out(std::string_view domain, std::string_view op) {
  const auto* it = std::find_if(kLeftOut.begin(), kLeftOut.end(), [&](const ContributedOp& o) {
    return o.domain == domain && o.op == op;
  });
  return it == kLeftOut.end() ? nullptr : it;
}

}  // namespace

bool is_contributed_op(std::string_view domain, std::string_view op, std::int64_t version) {
  if (!rewritings().contains({domain, op}) && left_out(domain, op) == nullptr) return false;
  return onnx::OpSchemaRegistry::Instance()->GetSchema(std::string(op), static_cast<int>(version),
                                                       std::string(domain)) == nullptr;
}

void translate_contributed_op(Graph& graph, NodeDraft& draft,
                              const std::function<void(Graph&, NodeId)>& infer) {
  if (const ContributedOp* op = left_out(draft.domain, draft.op)) {
    upgrade::unsupported(fmt::format("{} is not supported: {}", op->op, op->reason));
  }
  const auto it = rewritings().find({draft.domain, draft.op});
  if (it == rewritings().end()) return;
  contributed::Rewriting rewriting(graph, draft, infer);
  it->second->rewrite(rewriting);
}

std::vector<ContributedOp> contributed_ops() {
  std::vector<ContributedOp> ops(kLeftOut.begin(), kLeftOut.end());
  for (const auto& [name, entry] : rewritings()) ops.push_back({entry->domain, entry->op, {}});
  std::sort(ops.begin(), ops.end(), [](const ContributedOp& a, const ContributedOp& b) {
    return std::tie(a.domain, a.op) < std::tie(b.domain, b.op);
  });
  return ops;
}

}  // namespace xrt
