// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml.TreeEnsemble: decision trees whose leaves add up, per target.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/native/kernels/convert.h"
#include "engines/native/kernels/register.h"

namespace xrt::native {

namespace {

enum class Branch : std::uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };
enum class Aggregate : std::uint8_t { kAverage, kSum, kMin, kMax };
enum class Transform : std::uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };

struct TreeNode {
  Branch branch = Branch::kLeq;
  double split = 0;
  std::int64_t feature = 0;
  bool nan_is_true = false;
  std::int64_t next[2] = {0, 0};  // if false, if true
  bool leaf[2] = {false, false};
  std::vector<double> members;
};

std::vector<double> numbers(const Node& node, const char* name) {
  const Tensor* tensor = node.attr_tensor(name);
  std::vector<double> values;
  if (tensor != nullptr) {
    values.resize(static_cast<std::size_t>(tensor->count()));
    load_double(tensor->dtype(), tensor->raw(), 0, tensor->count(), values.data());
  }
  return values;
}

// The inverse of the normal distribution's cumulative function, by bisection.
double probit(double p) {
  if (p <= 0) return -std::numeric_limits<double>::infinity();
  if (p >= 1) return std::numeric_limits<double>::infinity();
  double low = -40, high = 40;
  for (int i = 0; i < 200 && high - low > 1e-13; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

class Ensemble {
 public:
  explicit Ensemble(const Node& node)
      : targets_(node.attr_int("n_targets", 1)),
        aggregate_(static_cast<Aggregate>(node.attr_int("aggregate_function", 1))),
        transform_(static_cast<Transform>(node.attr_int("post_transform", 0))),
        roots_(node.attr_ints("tree_roots")),
        leaf_targets_(node.attr_ints("leaf_targetids")),
        leaf_weights_(numbers(node, "leaf_weights")) {
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
        (!missing.empty() && missing.size() != count) ||
        leaf_targets_.size() != leaf_weights_.size() || targets_ < 1 || targets_ > (1 << 24)) {
      fail("the attributes of nodes or leaves differ in length");
    }
    std::size_t member = 0;
    nodes_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      TreeNode& n = nodes_[i];
      if (!(modes[i] >= 0 && modes[i] <= 6)) fail("a node's mode is not known");
      n.branch = static_cast<Branch>(static_cast<int>(modes[i]));
      n.split = splits[i];
      n.feature = features[i];
      n.nan_is_true = !missing.empty() && missing[i] != 0;
      for (int side = 0; side < 2; ++side) {
        if (next[side].size() != count || leaf[side].size() != count) {
          fail("the attributes of nodes differ in length");
        }
        n.next[side] = next[side][i];
        n.leaf[side] = leaf[side][i] != 0;
        const std::size_t limit = n.leaf[side] ? leaf_weights_.size() : count;
        if (n.next[side] < 0 || static_cast<std::size_t>(n.next[side]) >= limit) {
          fail("a branch leads outside the trees");
        }
      }
      if (n.branch != Branch::kMember) continue;
      while (member < members.size() && !std::isnan(members[member])) {
        n.members.push_back(members[member++]);
      }
      ++member;  // the NaN after each set
    }
    for (const std::int64_t root : roots_) {
      if (root < 0 || static_cast<std::size_t>(root) >= count) fail("a root is no node");
    }
    for (const std::int64_t target : leaf_targets_) {
      if (target < 0 || target >= targets_) fail("a leaf's target is out of range");
    }
    for (const TreeNode& n : nodes_) {
      if (n.feature < 0) fail("a feature is negative");
      features_ = std::max(features_, n.feature + 1);
    }
  }

  std::int64_t targets() const { return targets_; }
  std::int64_t features() const { return features_; }

  void run(const double* x, double* scores) const {
    const double start = aggregate_ == Aggregate::kMin   ? HUGE_VAL
                         : aggregate_ == Aggregate::kMax ? -HUGE_VAL
                                                         : 0;
    std::fill_n(scores, targets_, start);
    for (const std::int64_t root : roots_) {
      const std::size_t leaf = find_leaf(static_cast<std::size_t>(root), x);
      double& score = scores[leaf_targets_[leaf]];
      const double weight = leaf_weights_[leaf];
      if (aggregate_ == Aggregate::kMin)
        score = std::min(score, weight);
      else if (aggregate_ == Aggregate::kMax)
        score = std::max(score, weight);
      else
        score += weight;
    }
    for (std::int64_t t = 0; t < targets_; ++t) {
      if (std::isinf(scores[t]) && start != 0) scores[t] = 0;  // no leaf of that target
      if (aggregate_ == Aggregate::kAverage) scores[t] /= static_cast<double>(roots_.size());
    }
    transform(scores);
  }

 private:
  std::size_t find_leaf(std::size_t at, const double* x) const {
    // A path visits no node twice, or the nodes form no tree.
    for (std::size_t step = 0; step <= nodes_.size(); ++step) {
      const TreeNode& n = nodes_[at];
      const int side = follows(n, x[n.feature]) ? 1 : 0;
      at = static_cast<std::size_t>(n.next[side]);
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

  void transform(double* scores) const {
    double* const end = scores + targets_;
    switch (transform_) {
      case Transform::kNone:
        return;
      case Transform::kLogistic:
        std::transform(scores, end, scores, [](double v) { return 1 / (1 + std::exp(-v)); });
        return;
      case Transform::kProbit:
        std::transform(scores, end, scores, probit);
        return;
      case Transform::kSoftmax:
      case Transform::kSoftmaxZero: {
        // The second leaves zeros as they are.
        const bool zeros = transform_ == Transform::kSoftmaxZero;
        const double highest = *std::max_element(scores, end);
        double sum = 0;
        for (double* s = scores; s != end; ++s) {
          if (zeros && *s == 0) continue;
          sum += * s = std::exp(*s - highest);
        }
        for (double* s = scores; s != end; ++s) *s /= sum;
        return;
      }
    }
  }

  std::int64_t targets_;
  Aggregate aggregate_;
  Transform transform_;
  std::vector<std::int64_t> roots_, leaf_targets_;
  std::vector<double> leaf_weights_;
  std::vector<TreeNode> nodes_;
  std::int64_t features_ = 0;
};

std::unique_ptr<Kernel> create_tree_ensemble(const KernelCreateContext& create) {
  return make_kernel([trees = Ensemble(create.node())](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() != 2 || x.dims()[1] < trees.features()) fail("the input has too few features");
    Tensor& y = k.output(0, x.dtype(), {x.dims()[0], trees.targets()});
    const std::int64_t width = x.dims()[1];
    k.parallel_for(x.dims()[0], 64, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> row(static_cast<std::size_t>(width));
      std::vector<double> scores(static_cast<std::size_t>(trees.targets()));
      for (std::int64_t i = begin; i < end; ++i) {
        load_double(x.dtype(), x.raw(), i * width, width, row.data());
        trees.run(row.data(), scores.data());
        store_double(y.dtype(), scores.data(), trees.targets(), y.raw(), i * trees.targets());
      }
    });
  });
}

}  // namespace

void register_tree_ensemble_kernels(KernelRegistry& registry) {
  registry.add({.domain = "ai.onnx.ml",
                .op = "TreeEnsemble",
                .supports = [](const NodeView& n) { return n.check_input(0, kFloatTypes); },
                .create = create_tree_ensemble});
}

}  // namespace xrt::native
