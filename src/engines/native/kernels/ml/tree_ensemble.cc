// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml: TreeEnsemble, and TreeEnsembleClassifier and TreeEnsembleRegressor of older opsets.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/ml/ml_scores.h"
#include "engines/native/kernels/register.h"

namespace xrt::native {

namespace {

enum class Branch : std::uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };
enum class Aggregate : std::uint8_t { kAverage, kSum, kMin, kMax };

struct TreeNode {
  Branch branch = Branch::kLeq;
  double split = 0;
  std::int64_t feature = 0;
  bool nan_is_true = false;
  std::size_t next[2] = {0, 0};  // if false, if true
  bool leaf[2] = {false, false};
  std::vector<double> members;
};

// What a leaf adds to one target.
struct Vote {
  std::size_t target = 0;
  double weight = 0;
};

struct Root {
  std::size_t at = 0;
  bool leaf = false;  // a tree that is one leaf
};

// Decision trees whose leaves add up, per target.
struct Trees {
  std::size_t targets = 1;
  Aggregate aggregate = Aggregate::kSum;
  PostTransform transform = PostTransform::kNone;
  std::vector<double> base;  // added to the targets, one for each or one for all
  std::vector<Root> roots;
  std::vector<TreeNode> nodes;
  std::vector<std::vector<Vote>> leaves;

  // How many features a row must have.
  std::int64_t features() const {
    std::int64_t count = 0;
    for (const TreeNode& n : nodes) count = std::max(count, n.feature + 1);
    return count;
  }

  // Without the transform.
  void run(const double* x, double* scores) const {
    const double start = aggregate == Aggregate::kMin   ? HUGE_VAL
                         : aggregate == Aggregate::kMax ? -HUGE_VAL
                                                        : 0;
    std::fill_n(scores, targets, start);
    for (const Root& root : roots) {
      for (const Vote& vote : leaves[find_leaf(root, x)]) {
        double& score = scores[vote.target];
        if (aggregate == Aggregate::kMin) {
          score = std::min(score, vote.weight);
        } else if (aggregate == Aggregate::kMax) {
          score = std::max(score, vote.weight);
        } else {
          score += vote.weight;
        }
      }
    }
    for (std::size_t t = 0; t < targets; ++t) {
      if (std::isinf(scores[t]) && start != 0) scores[t] = 0;  // no leaf of that target
      if (aggregate == Aggregate::kAverage) scores[t] /= static_cast<double>(roots.size());
      if (!base.empty()) scores[t] += base[base.size() == 1 ? 0 : t];
    }
  }

 private:
  std::size_t find_leaf(const Root& root, const double* x) const {
    if (root.leaf) return root.at;
    std::size_t at = root.at;
    // A path visits no node twice, or the nodes form no tree.
    for (std::size_t step = 0; step <= nodes.size(); ++step) {
      const TreeNode& n = nodes[at];
      const int side = follows(n, x[n.feature]) ? 1 : 0;
      at = n.next[side];
      if (n.leaf[side]) return at;
    }
    fail("the nodes form a cycle");
  }

  static bool follows(const TreeNode& n, double value) {
    if (std::isnan(value)) return n.nan_is_true;
    switch (n.branch) {
      case Branch::kLeq:
        return value <= n.split;
      case Branch::kLt:
        return value < n.split;
      case Branch::kGte:
        return value >= n.split;
      case Branch::kGt:
        return value > n.split;
      case Branch::kEq:
        return value == n.split;
      case Branch::kNeq:
        return value != n.split;
      case Branch::kMember:
        return std::find(n.members.begin(), n.members.end(), value) != n.members.end();
    }
    return false;
  }
};

constexpr std::int64_t kMaxTargets = 1 << 24;

std::vector<double> numbers(const Node& node, const char* name) {
  const Tensor* tensor = node.attr_tensor(name);
  std::vector<double> values;
  if (tensor != nullptr) {
    values.resize(static_cast<std::size_t>(tensor->count()));
    load_double(tensor->dtype(), tensor->raw(), 0, tensor->count(), values.data());
  }
  return values;
}

// An attribute of floats that since opset 3 may be a tensor of doubles instead.
std::vector<double> floats_or_tensor(const Node& node, const std::string& name) {
  const std::vector<double> values = numbers(node, (name + "_as_tensor").c_str());
  return values.empty() ? to_doubles(node.attr_floats(name)) : values;
}

std::size_t checked_index(std::int64_t index, std::size_t limit, const char* complaint) {
  if (index < 0 || static_cast<std::size_t>(index) >= limit) fail(complaint);
  return static_cast<std::size_t>(index);
}

// TreeEnsemble: leaves have lists of their own, branches name the index of a node or leaf.
Trees read_trees(const Node& node) {
  Trees trees;
  const std::int64_t targets = node.attr_int("n_targets", 1);
  const std::int64_t aggregate = node.attr_int("aggregate_function", 1);
  const std::int64_t transform = node.attr_int("post_transform", 0);
  const auto leaf_targets = node.attr_ints("leaf_targetids");
  const std::vector<double> weights = numbers(node, "leaf_weights");
  const std::vector<double> modes = numbers(node, "nodes_modes");
  const std::vector<double> splits = numbers(node, "nodes_splits");
  const std::vector<double> members = numbers(node, "membership_values");
  const auto features = node.attr_ints("nodes_featureids");
  const auto missing = node.attr_ints("nodes_missing_value_tracks_true");
  const std::vector<std::int64_t> next[2] = {node.attr_ints("nodes_falsenodeids"),
                                             node.attr_ints("nodes_truenodeids")};
  const std::vector<std::int64_t> leaf[2] = {node.attr_ints("nodes_falseleafs"),
                                             node.attr_ints("nodes_trueleafs")};
  const std::size_t count = modes.size();
  if (splits.size() != count || features.size() != count ||
      (!missing.empty() && missing.size() != count) || leaf_targets.size() != weights.size() ||
      targets < 1 || targets > kMaxTargets) {
    fail("the attributes of nodes or leaves differ in length");
  }
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4) {
    fail("the aggregate function or the post transform is not known");
  }
  trees.targets = static_cast<std::size_t>(targets);
  trees.aggregate = static_cast<Aggregate>(aggregate);
  trees.transform = static_cast<PostTransform>(transform);
  std::size_t member = 0;
  trees.nodes.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    TreeNode& n = trees.nodes[i];
    if (!(modes[i] >= 0 && modes[i] <= 6)) fail("a node's mode is not known");
    n.branch = static_cast<Branch>(static_cast<int>(modes[i]));
    n.split = splits[i];
    n.feature = features[i];
    if (n.feature < 0) fail("a feature is negative");
    n.nan_is_true = !missing.empty() && missing[i] != 0;
    for (int side = 0; side < 2; ++side) {
      if (next[side].size() != count || leaf[side].size() != count) {
        fail("the attributes of nodes differ in length");
      }
      n.leaf[side] = leaf[side][i] != 0;
      n.next[side] = checked_index(next[side][i], n.leaf[side] ? weights.size() : count,
                                   "a branch leads outside the trees");
    }
    if (n.branch != Branch::kMember) continue;
    while (member < members.size() && !std::isnan(members[member])) {
      n.members.push_back(members[member++]);
    }
    ++member;  // the NaN after each set
  }
  for (const std::int64_t root : node.attr_ints("tree_roots")) {
    trees.roots.push_back({checked_index(root, count, "a root is no node"), false});
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t target =
        checked_index(leaf_targets[i], trees.targets, "a leaf's target is out of range");
    trees.leaves.push_back({{target, weights[i]}});
  }
  return trees;
}

// The older ops: nodes and leaves in one list, each known by the numbers of its tree and of itself;
// the first of a tree is its root. `votes` is "class" or "target".
Trees read_classic_trees(const Node& node, const std::string& votes, std::size_t targets) {
  Trees trees;
  trees.targets = targets;
  trees.transform = post_transform(node);
  trees.base = floats_or_tensor(node, "base_values");
  if (trees.base.size() > 1 && trees.base.size() != targets) {
    fail("base_values are neither one for each target nor one for all");
  }
  const auto tree_ids = node.attr_ints("nodes_treeids");
  const auto node_ids = node.attr_ints("nodes_nodeids");
  const auto features = node.attr_ints("nodes_featureids");
  const auto modes = node.attr_strings("nodes_modes");
  const auto splits = floats_or_tensor(node, "nodes_values");
  const auto missing = node.attr_ints("nodes_missing_value_tracks_true");
  const std::vector<std::int64_t> next[2] = {node.attr_ints("nodes_falsenodeids"),
                                             node.attr_ints("nodes_truenodeids")};
  const std::size_t count = tree_ids.size();
  for (const std::size_t size : {node_ids.size(), features.size(), modes.size(), splits.size(),
                                 next[0].size(), next[1].size()}) {
    if (size != count) fail("the attributes of nodes differ in length");
  }
  if (!missing.empty() && missing.size() != count) {
    fail("the attributes of nodes differ in length");
  }
  struct Place {
    std::size_t index;
    bool leaf;
  };
  using Id = std::pair<std::int64_t, std::int64_t>;  // of the tree, of the node
  std::map<Id, Place> places;
  std::set<std::int64_t> seen;
  std::vector<std::size_t> branches;  // entries that are no leaves, in the order of trees.nodes
  for (std::size_t i = 0; i < count; ++i) {
    const bool leaf = modes[i] == "LEAF";
    const Place place{leaf ? trees.leaves.size() : branches.size(), leaf};
    if (!places.emplace(Id(tree_ids[i], node_ids[i]), place).second) {
      fail("two nodes of a tree have one number");
    }
    if (leaf) {
      trees.leaves.emplace_back();
    } else {
      branches.push_back(i);
    }
    if (seen.insert(tree_ids[i]).second) trees.roots.push_back({place.index, leaf});
  }
  constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                         "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  for (const std::size_t i : branches) {
    TreeNode n;
    const auto* const mode = std::find(std::begin(kModes), std::end(kModes), modes[i]);
    if (mode == std::end(kModes)) fail("the node mode '" + modes[i] + "' is not known");
    n.branch = static_cast<Branch>(mode - std::begin(kModes));
    n.split = splits[i];
    n.feature = features[i];
    if (n.feature < 0) fail("a feature is negative");
    n.nan_is_true = !missing.empty() && missing[i] != 0;
    for (int side = 0; side < 2; ++side) {
      const auto found = places.find(Id(tree_ids[i], next[side][i]));
      if (found == places.end()) fail("a branch leads to a node that is not there");
      n.next[side] = found->second.index;
      n.leaf[side] = found->second.leaf;
    }
    trees.nodes.push_back(std::move(n));
  }
  const auto vote_trees = node.attr_ints(votes + "_treeids");
  const auto vote_nodes = node.attr_ints(votes + "_nodeids");
  const auto vote_targets = node.attr_ints(votes + "_ids");
  const auto weights = floats_or_tensor(node, votes + "_weights");
  if (vote_nodes.size() != vote_trees.size() || vote_targets.size() != vote_trees.size() ||
      weights.size() != vote_trees.size()) {
    fail("the attributes of leaves differ in length");
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto found = places.find(Id(vote_trees[i], vote_nodes[i]));
    if (found == places.end() || !found->second.leaf) fail("a weight belongs to no leaf");
    const std::size_t target =
        checked_index(vote_targets[i], targets, "a leaf's target is out of range");
    trees.leaves[found->second.index].push_back({target, weights[i]});
  }
  return trees;
}

// Runs all rows; `fn(row, scores)` gets the scores of each before the transform.
template <typename F>
void run_trees(KernelContext& k, const Trees& trees, F&& fn) {
  const Tensor& x = k.input(0);
  if (column_count(x) < trees.features()) fail("the input has too few features");
  for_each_row(k, x, [&](std::int64_t row, const double* features) {
    std::vector<double> scores(trees.targets);
    trees.run(features, scores.data());
    fn(row, scores);
  });
}

std::unique_ptr<Kernel> make_regressor(Trees given, bool keeps_dtype) {
  return make_kernel([trees = std::move(given), keeps_dtype](KernelContext& k) {
    const Tensor& x = k.input(0);
    const auto targets = static_cast<std::int64_t>(trees.targets);
    Tensor& y = k.output(0, keeps_dtype ? x.dtype() : DType::kFloat32, {row_count(x), targets});
    run_trees(k, trees, [&](std::int64_t row, std::vector<double>& scores) {
      apply(trees.transform, scores.data(), scores.size());
      store_double(y.dtype(), scores.data(), targets, y.raw(), row * targets);
    });
  });
}

std::unique_ptr<Kernel> create_tree_ensemble(const KernelCreateContext& create) {
  return make_regressor(read_trees(create.node()), true);
}

std::unique_ptr<Kernel> create_tree_regressor(const KernelCreateContext& create) {
  const Node& node = create.node();
  const std::int64_t targets = node.attr_int("n_targets", 1);
  if (targets < 1 || targets > kMaxTargets) fail("n_targets cannot be that");
  Trees trees = read_classic_trees(node, "target", static_cast<std::size_t>(targets));
  constexpr std::string_view kNames[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const std::string name = node.attr_string("aggregate_function", "SUM");
  const auto* const known = std::find(std::begin(kNames), std::end(kNames), name);
  if (known == std::end(kNames)) fail("aggregate_function '" + name + "' is not known");
  trees.aggregate = static_cast<Aggregate>(known - std::begin(kNames));
  return make_regressor(std::move(trees), false);
}

std::unique_ptr<Kernel> create_tree_classifier(const KernelCreateContext& create) {
  const Node& node = create.node();
  const ClassLabels labels(node, "classlabels_int64s", "classlabels_strings");
  if (labels.size() == 0) fail("there are no classes");
  // A class alone is told apart from none; only the integer 1 has an opposite, 0.
  const bool alone = labels.size() == 1;
  if (alone && (!labels.strings.empty() || labels.integers[0] != 1)) {
    throw Error(ErrorCode::kUnsupported, "one class alone that is not the integer 1");
  }
  const std::size_t classes = alone ? 2 : labels.size();
  const auto ids = node.attr_ints("class_ids");
  const std::set<std::int64_t> named(ids.begin(), ids.end());
  // Where all leaves vote for one class, its score tells two classes apart.
  std::optional<std::size_t> voted;
  if (named.size() == 1 && classes == 2) voted = static_cast<std::size_t>(*named.begin());
  return make_kernel([trees = read_classic_trees(node, "class", labels.size()), labels, alone,
                      voted, classes](KernelContext& k) {
    const Tensor& x = k.input(0);
    const auto width = static_cast<std::int64_t>(classes);
    Tensor& y = k.output(0, labels.dtype(), {row_count(x)});
    Tensor& z = k.output(1, DType::kFloat32, {row_count(x), width});
    // Probabilities add up to 1; what is still to be made probabilities has opposite signs.
    const bool complement =
        trees.transform == PostTransform::kNone || trees.transform == PostTransform::kProbit;
    run_trees(k, trees, [&](std::int64_t row, std::vector<double>& scores) {
      if (voted) {
        const double score = scores[*voted];
        scores = {complement ? 1 - score : -score, score};
      }
      apply(trees.transform, scores.data(), scores.size());
      store_double(z.dtype(), scores.data(), width, z.raw(), row * width);
      if (alone) {
        y.data<std::int64_t>()[row] = static_cast<std::int64_t>(highest(scores));
      } else {
        labels.write(highest(scores), y, row);
      }
    });
  });
}

}  // namespace

void register_tree_ensemble_kernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, DTypeSet types, auto create) {
    registry.add({.domain = "ai.onnx.ml",
                  .op = op,
                  .supports = [types](const NodeView& n) { return n.check_input(0, types); },
                  .create = create});
  };
  add("TreeEnsemble", kFloatTypes, create_tree_ensemble);
  add("TreeEnsembleClassifier", kNumericTypes, create_tree_classifier);
  add("TreeEnsembleRegressor", kNumericTypes, create_tree_regressor);
}

}  // namespace xrt::native
