// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "engines/cuda/chains.h"
#include "engines/cuda/channel_windows.h"
#include "engines/cuda/integers.h"
#include "engines/cuda/lowering.h"
#include "engines/cuda/planner.h"

namespace xrt::cuda {
namespace {

// Of a fused kernel: operands that it reads and results that it writes, and how much it computes.
constexpr std::size_t kMostOperands = 16;
constexpr std::size_t kMostResults = 4;
constexpr std::size_t kMostNodes = 48;
// And nodes among them of which an element is computed again for each that reads it.
constexpr std::size_t kMostRepeated = 4;

class Grouping {
 public:
  Grouping(const GraphView& graph, const PlanOptions& options)
      : graph_(graph), options_(options), nodes_(graph.nodes()) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) position_[nodes_[i]] = i;
  }

  std::vector<Group> run() {
    for (const NodeId id : nodes_) {
      if (graph_.node(id).qualified_op() != kIntegerOp) continue;
      std::vector<NodeId> chain{id};
      add_elements_behind(chain, /*through_bytes=*/false);
      add(Group::Kind::kIntegers, chain);
    }
    // What bytes are dequantised for belongs first to those whose sums it reads.
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      std::vector<NodeId> chain = groups_[g].nodes;
      add_elements_behind(chain, /*through_bytes=*/true);
      extend(g, chain);
    }
    for (const NodeId id : nodes_) {
      const NodeView node = graph_.node(id);
      if (of_node_.contains(id) || !is_depthwise(graph_, node)) continue;
      std::vector<NodeId> chain{id};
      const std::vector<NodeId> norm = norm_behind(graph_, node);
      chain.insert(chain.end(), norm.begin(), norm.end());
      add_elements_behind(chain, /*through_bytes=*/false);
      add(Group::Kind::kChannels, chain);
    }
    for (const NodeId id : nodes_) {
      if (of_node_.contains(id)) continue;
      const std::vector<NodeId> chain =
          chain_from(graph_, id, options_, [&](NodeId node) { return of_node_.contains(node); });
      if (chain.empty()) continue;
      const bool is_convolution = graph_.node(id).op() == "Conv";
      add(is_convolution ? Group::Kind::kConvolution : Group::Kind::kProduct, chain);
    }
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      const NodeId id = nodes_[i];
      if (of_node_.contains(id)) continue;
      const Lowering* lowering = LoweringRegistry::get().find(graph_.node(id));
      const bool is_fused = lowering != nullptr && (lowering->expression || lowering->over_rows);
      if (is_fused && join(id, lowering->over_rows)) continue;
      add(is_fused ? Group::Kind::kFused : Group::Kind::kSingle, {id});
      if (is_fused && lowering->over_rows) over_rows_.insert(groups_.size() - 1);
    }
    std::vector<Group> result;
    for (Group& group : groups_) {
      std::sort(group.nodes.begin(), group.nodes.end(),
                [&](NodeId a, NodeId b) { return position_.at(a) < position_.at(b); });
      result.push_back(std::move(group));
    }
    std::sort(result.begin(), result.end(), [&](const Group& a, const Group& b) {
      return position_.at(a.nodes.back()) < position_.at(b.nodes.back());
    });
    return result;
  }

 private:
  void add(Group::Kind kind, const std::vector<NodeId>& nodes) {
    for (const NodeId id : nodes) of_node_[id] = groups_.size();
    std::size_t place = 0;
    for (const NodeId id : nodes) place = std::max(place, position_.at(id));
    places_.push_back(place);
    groups_.push_back({kind, nodes});
  }

  void extend(std::size_t group, const std::vector<NodeId>& nodes) {
    for (const NodeId id : nodes) {
      of_node_[id] = group;
      places_[group] = std::max(places_[group], position_.at(id));
    }
    groups_[group].nodes = nodes;
  }

  // Behind the last of `nodes`, those that compute elements of its result and of nothing else's but
  // what is there; up to the first bytes, or beyond.
  void add_elements_behind(std::vector<NodeId>& nodes, bool through_bytes) const {
    while (nodes.size() < kMostNodes) {
      const NodeView last = graph_.node(nodes.back());
      if (last.op() == "QuantizeLinear" && !through_bytes) break;
      const std::vector<Use> uses = graph_.uses(last.output(0));
      if (uses.size() == 1 && of_node_.contains(uses.front().node)) {
        // Its reader takes the bytes.
        if (last.op() == "DequantizeLinear") nodes.pop_back();
        break;
      }
      if (!add_readers(nodes)) break;
    }
  }

  // The nodes that read the last one's result, as far as to where one alone is left whose result
  // others may read: one node, or those of x · sigmoid(x). Whether there are such.
  bool add_readers(std::vector<NodeId>& nodes) const {
    constexpr std::size_t kMostBeside = 4;
    std::vector<NodeId> more = nodes;
    std::set<NodeId> readers;  // that are to come
    const auto add_readers_of = [&](NodeId id) {
      const ValueId value = graph_.node(id).output(0);
      if (graph_.is_output(value) || graph_.uses(value).empty()) return false;
      for (const Use& use : graph_.uses(value)) readers.insert(use.node);
      return true;
    };
    if (!add_readers_of(more.back())) return false;
    const Dims dims = graph_.type(graph_.node(nodes.back()).output(0)).dims();
    while (!readers.empty() && more.size() < nodes.size() + kMostBeside) {
      const NodeId id = *std::min_element(readers.begin(), readers.end(), [&](NodeId a, NodeId b) {
        return position_.at(a) < position_.at(b);
      });
      readers.erase(id);
      const NodeView node = graph_.node(id);
      const Lowering* lowering = LoweringRegistry::get().find(node);
      if (of_node_.contains(id) || lowering == nullptr || !lowering->expression ||
          graph_.type(node.output(0)).dims() != dims) {
        return false;
      }
      more.push_back(id);
      if (readers.empty()) break;
      if (node.op() == "QuantizeLinear") return false;
      if (!add_readers_of(id)) return false;
    }
    if (!readers.empty() || !fits({Group::Kind::kIntegers, more})) return false;
    nodes = std::move(more);
    return true;
  }

  // Into the group that reads the node's result first, if it computes elements of the same shape.
  // Others that read the result come behind that group, which then writes it, too. Or of far more
  // elements, where nobody else reads it.
  bool join(NodeId id, bool over_rows) {
    const ValueId result = graph_.node(id).output(0);
    std::optional<std::size_t> first;
    for (const Use& use : graph_.uses(result)) {
      const std::size_t group = of_node_.at(use.node);
      if (!first || places_[group] < places_[*first]) first = group;
    }
    if (!first) return false;
    Group& group = groups_[*first];
    // A product of bytes is in the order in which it is computed: what belongs to others stays
    // there.
    const bool is_integers = group.kind == Group::Kind::kIntegers;
    if (is_integers &&
        (over_rows || graph_.is_output(result) || graph_.node(id).op() != "DequantizeLinear" ||
         !is_read_within(group, result))) {
      return false;
    }
    if ((!is_integers && group.kind != Group::Kind::kFused) || group.nodes.size() >= kMostNodes) {
      return false;
    }
    if (over_rows && over_rows_.contains(*first)) return false;
    const NodeView root = graph_.node(group.nodes.front());
    const Dims dims = graph_.type(root.output(0)).dims();
    const bool is_whole = dims == graph_.type(result).dims();
    if (!is_whole && (over_rows || is_integers || over_rows_.contains(*first) ||
                      repeated_[*first] == kMostRepeated || !is_read_within(group, result) ||
                      graph_.is_output(result) || !repeats(graph_.type(result).dims(), dims))) {
      return false;
    }
    group.nodes.push_back(id);
    if (!reads_it_whole(group, result) || !fits(group)) {
      group.nodes.pop_back();
      return false;
    }
    of_node_[id] = *first;
    repeated_[*first] += is_whole ? 0 : 1;
    if (over_rows) over_rows_.insert(*first);
    return true;
  }

  // Whether few elements are operands of many, as the factors of channels are: it is cheaper to
  // compute each again than to launch a kernel for them.
  static bool repeats(const Dims& few, const Dims& many) {
    constexpr std::int64_t kFarFewer = 16;
    if (few.size() != many.size()) return false;
    for (std::size_t i = 0; i < few.size(); ++i) {
      if (few[i] != many[i] && few[i] != 1) return false;
    }
    return element_count(few) * kFarFewer <= element_count(many);
  }

  bool is_read_within(const Group& group, ValueId value) const {
    const std::vector<Use> uses = graph_.uses(value);
    return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
      return std::find(group.nodes.begin(), group.nodes.end(), use.node) != group.nodes.end();
    });
  }

  // Not as an operand that repeats along a row op's axes, as the scale of a normalisation does:
  // that is never of the result's shape unless the row is all there is.
  bool reads_it_whole(const Group& group, ValueId value) const {
    for (const NodeId id : group.nodes) {
      const NodeView node = graph_.node(id);
      const Lowering* lowering = LoweringRegistry::get().find(node);
      if (lowering == nullptr || !lowering->over_rows) continue;
      const std::vector<ValueId> inputs = node.inputs();
      if (std::find(inputs.begin() + 1, inputs.end(), value) != inputs.end()) return false;
    }
    return true;
  }

  bool fits(const Group& group) const {
    const std::set<NodeId> members(group.nodes.begin(), group.nodes.end());
    std::set<ValueId> operands;
    std::size_t results = 0;
    for (const NodeId id : group.nodes) {
      const NodeView node = graph_.node(id);
      for (const ValueId input : node.inputs()) {
        if (!input.valid()) continue;
        const NodeId producer = graph_.producer(input);
        if (!producer.valid() || !members.contains(producer)) operands.insert(input);
      }
      bool is_read = graph_.is_output(node.output(0));
      for (const Use& use : graph_.uses(node.output(0))) {
        is_read = is_read || !members.contains(use.node);
      }
      results += is_read ? 1 : 0;
    }
    return operands.size() <= kMostOperands && results <= kMostResults;
  }

  const GraphView& graph_;
  const PlanOptions& options_;
  std::vector<NodeId> nodes_;
  std::map<NodeId, std::size_t> position_, of_node_;
  std::vector<Group> groups_;
  std::vector<std::size_t> places_;              // of groups
  std::set<std::size_t> over_rows_;              // groups with an op over rows
  std::map<std::size_t, std::size_t> repeated_;  // such nodes of each group
};

}  // namespace

std::vector<Group> make_groups(const GraphView& graph, const PlanOptions& options) {
  return Grouping(graph, options).run();
}

}  // namespace xrt::cuda
