// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml: TreeEnsemble, and TreeEnsembleClassifier and TreeEnsembleRegressor of older opsets.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/ml/forest.h"
#include "engines/native/kernels/ml/ml_scores.h"
#include "engines/native/kernels/register.h"
#include "engines/native/scratch.h"

namespace xrt::native {

namespace {

// What an op's attributes say, and what is made of the sums.
struct Trees : TreesAsRead {
  PostTransform transform = PostTransform::kNone;
};

constexpr std::int64_t kMaxTargets = 1 << 24;
constexpr std::int64_t kMaxFeature = (std::int64_t{1} << 31) - 2;

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
    if (n.feature < 0 || n.feature > kMaxFeature) fail("a feature is negative or too large");
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
    trees.leaves.push_back({{weights[i], target}});
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
    if (n.feature < 0 || n.feature > kMaxFeature) fail("a feature is negative or too large");
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
    trees.leaves[found->second.index].push_back({weights[i], target});
  }
  return trees;
}

std::int64_t feature_count(const Trees& trees) {
  std::int64_t count = 0;
  for (const TreeNode& n : trees.nodes) count = std::max(count, n.feature + 1);
  return count;
}

// Whether floats are told apart by the trees as they are by the same trees in double.
bool are_splits_floats(const Trees& trees) {
  const auto is_float = [](double v) {
    return std::isnan(v) || static_cast<double>(static_cast<float>(v)) == v;
  };
  return std::all_of(trees.nodes.begin(), trees.nodes.end(), [&](const TreeNode& n) {
    return is_float(n.split) && std::all_of(n.members.begin(), n.members.end(), is_float);
  });
}

// The rows of a kernel through its trees.
class TreeRunner {
 public:
  // Of `input` are the features, as far as that is known.
  TreeRunner(const Trees& trees, DType input)
      : targets_(trees.targets),
        aggregate_(trees.aggregate),
        base_(trees.base),
        features_(feature_count(trees)) {
    const bool narrow = is_floating(input) && input != DType::kFloat64;
    const bool floats = are_splits_floats(trees);
    if (floats && (narrow || input == DType::kUndefined)) floats_.emplace(trees);
    if (!floats || !narrow) doubles_.emplace(trees);
  }

  // fn(row, scores) gets the scores of each row, with room for two at least; in parallel.
  template <typename F>
  void run(const KernelContext& k, const Tensor& x, F&& fn) const {
    if (column_count(x) < features_) fail("the input has too few features");
    if (floats_ && is_floating(x.dtype()) && x.dtype() != DType::kFloat64) {
      run_forest(k, *floats_, converted(x, DType::kFloat32), fn);
    } else if (doubles_) {
      run_forest(k, *doubles_, converted(x, DType::kFloat64), fn);
    } else {
      fail("the input has another element type than the graph says");
    }
  }

 private:
  static constexpr std::int64_t kStepsOfThread = 16384;  // worth a thread

  template <typename T, typename F>
  void run_forest(const KernelContext& k, const Forest<T>& forest, const Tensor& x, F& fn) const {
    const T* in = x.data<T>();
    const std::int64_t rows = row_count(x);
    const std::int64_t width = column_count(x);
    const std::int64_t steps = std::max<std::int64_t>(forest.steps(), 1);
    // Few rows and many trees: the trees are divided, and their sums are added at the end.
    constexpr std::int64_t kFewRows = 16, kMostParts = 16;
    const std::int64_t parts =
        rows > kFewRows ? 1 : std::min(rows * steps / kStepsOfThread, kMostParts);
    if (parts > 1) {
      const std::size_t size = static_cast<std::size_t>(rows) * targets_;
      Scratch<double> partial(size * static_cast<std::size_t>(parts) + 2, start());
      const std::size_t trees = forest.trees();
      k.parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
        for (auto p = static_cast<std::size_t>(begin); p < static_cast<std::size_t>(end); ++p) {
          const auto count = static_cast<std::size_t>(parts);
          forest.add(in, rows, width, trees * p / count, trees * (p + 1) / count,
                     partial.data() + p * size);
        }
      });
      for (std::size_t i = size; i < size * static_cast<std::size_t>(parts); ++i) {
        double& sum = partial[i % size];
        sum = aggregate_ == Aggregate::kMin   ? std::min(sum, partial[i])
              : aggregate_ == Aggregate::kMax ? std::max(sum, partial[i])
                                              : sum + partial[i];
      }
      std::vector<double> scores(targets_ + 2);
      for (std::int64_t r = 0; r < rows; ++r) {
        std::copy_n(partial.data() + static_cast<std::size_t>(r) * targets_, targets_,
                    scores.data());
        finish(forest.trees(), scores.data());
        fn(r, scores.data());
      }
      return;
    }
    // Rows that go through the trees together, while these and the sums are in the cache.
    const std::int64_t block =
        std::clamp<std::int64_t>(16384 / static_cast<std::int64_t>(targets_), 8, 64);
    const std::int64_t grain = (std::max<std::int64_t>(kStepsOfThread / steps, 1) + 7) / 8 * 8;
    k.parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
      constexpr std::size_t kFew = 512;
      double few[kFew];
      const std::size_t wanted =
          static_cast<std::size_t>(std::min(block, end - begin)) * targets_ + 2;
      Scratch<double> many(wanted > kFew ? wanted : 0);
      double* const scores = wanted > kFew ? many.data() : few;
      for (std::int64_t first = begin; first < end; first += block) {
        const std::int64_t count = std::min(block, end - first);
        std::fill_n(scores, static_cast<std::size_t>(count) * targets_, start());
        forest.add(in + first * width, count, width, 0, forest.trees(), scores);
        // From the last row on: fn may write two scores where there is one target.
        for (std::int64_t r = count; r-- > 0;) {
          double* const own = scores + static_cast<std::size_t>(r) * targets_;
          finish(forest.trees(), own);
          fn(first + r, own);
        }
      }
    });
  }

  double start() const {
    if (aggregate_ == Aggregate::kMin) return HUGE_VAL;
    return aggregate_ == Aggregate::kMax ? -HUGE_VAL : 0;
  }

  void finish(std::size_t trees, double* scores) const {
    for (std::size_t t = 0; t < targets_; ++t) {
      if (std::isinf(scores[t]) && start() != 0) scores[t] = 0;  // no leaf of that target
      if (aggregate_ == Aggregate::kAverage) scores[t] /= static_cast<double>(trees);
      if (!base_.empty()) scores[t] += base_[base_.size() == 1 ? 0 : t];
    }
  }

  std::size_t targets_;
  Aggregate aggregate_;
  std::vector<double> base_;
  std::int64_t features_;
  std::optional<Forest<float>> floats_;
  std::optional<Forest<double>> doubles_;
};

void store_scores(Tensor& y, std::int64_t row, const double* scores, std::int64_t count) {
  if (y.dtype() == DType::kFloat32) {
    std::copy_n(scores, count, y.data<float>() + row * count);
  } else {
    store_double(y.dtype(), scores, count, y.raw(), row * count);
  }
}

std::unique_ptr<Kernel> make_regressor(const KernelCreateContext& create, const Trees& trees,
                                       bool keeps_dtype) {
  return make_kernel([runner = TreeRunner(trees, create.input_dtype(0)), targets = trees.targets,
                      transform = trees.transform, keeps_dtype](KernelContext& k) {
    const Tensor& x = k.input(0);
    const auto width = static_cast<std::int64_t>(targets);
    Tensor& y = k.output(0, keeps_dtype ? x.dtype() : DType::kFloat32, {row_count(x), width});
    runner.run(k, x, [&](std::int64_t row, double* scores) {
      apply(transform, scores, targets);
      store_scores(y, row, scores, width);
    });
  });
}

std::unique_ptr<Kernel> create_tree_ensemble(const KernelCreateContext& create) {
  return make_regressor(create, read_trees(create.node()), true);
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
  return make_regressor(create, trees, false);
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
  const Trees trees = read_classic_trees(node, "class", labels.size());
  return make_kernel([runner = TreeRunner(trees, create.input_dtype(0)),
                      transform = trees.transform, labels, alone, voted,
                      classes](KernelContext& k) {
    const Tensor& x = k.input(0);
    const auto width = static_cast<std::int64_t>(classes);
    Tensor& y = k.output(0, labels.dtype(), {row_count(x)});
    Tensor& z = k.output(1, DType::kFloat32, {row_count(x), width});
    // Probabilities add up to 1; what is still to be made probabilities has opposite signs.
    const bool complement =
        transform == PostTransform::kNone || transform == PostTransform::kProbit;
    runner.run(k, x, [&](std::int64_t row, double* scores) {
      if (voted) {
        const double score = scores[*voted];
        scores[0] = complement ? 1 - score : -score;
        scores[1] = score;
      }
      apply(transform, scores, classes);
      store_scores(z, row, scores, width);
      const auto best =
          static_cast<std::size_t>(std::max_element(scores, scores + classes) - scores);
      if (alone) {
        y.data<std::int64_t>()[row] = static_cast<std::int64_t>(best);
      } else {
        labels.write(best, y, row);
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
