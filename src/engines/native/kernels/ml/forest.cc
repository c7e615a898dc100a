// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/ml/forest.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/native/kernels/common/axes.h"

namespace xrt::native {

namespace {

constexpr std::uint32_t kNanBit = std::uint32_t{1} << 31;
constexpr int kLanes = 8;

}  // namespace

template <typename T>
Forest<T>::Forest(const TreesAsRead& trees) : targets_(trees.targets), aggregate_(trees.aggregate) {
  vote_begin_.push_back(0);
  for (const std::vector<Vote>& votes : trees.leaves) {
    votes_.insert(votes_.end(), votes.begin(), votes.end());
    vote_begin_.push_back(static_cast<std::uint32_t>(votes_.size()));
  }
  const auto alone = [](const std::vector<Vote>& votes) { return votes.size() == 1; };
  if (targets_ == 1 && (aggregate_ == Aggregate::kSum || aggregate_ == Aggregate::kAverage) &&
      std::all_of(trees.leaves.begin(), trees.leaves.end(), alone)) {
    for (const Vote& vote : votes_) weights_.push_back(vote.weight);
  }
  // A node that several lead to is copied for each; a cycle would be copied without end.
  const std::size_t limit = 8 * (trees.nodes.size() + trees.roots.size()) + 16;
  struct Pending {
    std::size_t index;
    bool leaf;
    std::size_t at;
    std::uint32_t depth;
  };
  std::vector<Pending> level, following;
  for (const Root& root : trees.roots) {
    Start start{static_cast<std::uint32_t>(nodes_.size()), 0};
    nodes_.emplace_back();
    level = {{root.at, root.leaf, start.at, 0}};
    // Level by level: what is visited most lies close together.
    for (; !level.empty(); level.swap(following)) {
      following.clear();
      for (const Pending& p : level) {
        start.depth = std::max(start.depth, p.depth);
        place(trees, p.index, p.leaf, p.at);
        if (p.leaf) continue;
        const TreeNode& n = trees.nodes[p.index];
        // Where "greater" is true the test "at most" is not.
        const bool swapped = n.branch == Branch::kGt || n.branch == Branch::kGte;
        for (int side = 0; side < 2; ++side) {
          const int from = swapped && !std::isnan(n.split) ? 1 - side : side;
          following.push_back({n.next[from], n.leaf[from], nodes_.size(), p.depth + 1});
          nodes_.emplace_back();
        }
        if (nodes_.size() > limit) fail("the nodes form a cycle");
      }
    }
    roots_.push_back(start);
    steps_ += start.depth;
  }
}

// The node at `at` becomes that of `index`; its children will be the next two that are made.
template <typename T>
void Forest<T>::place(const TreesAsRead& trees, std::size_t index, bool leaf, std::size_t at) {
  constexpr T kNever = std::numeric_limits<T>::quiet_NaN();  // nothing is at most that
  Node& to = nodes_[at];
  if (leaf) {
    to = {kNever, 0, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(index)};
    return;
  }
  const TreeNode& n = trees.nodes[index];
  constexpr T kLeast = -std::numeric_limits<T>::infinity();
  T split = static_cast<T>(n.split);
  bool nan_side = n.nan_is_true;
  std::uint32_t detail = kAtMost;
  switch (n.branch) {
    case Branch::kLeq:
      break;
    case Branch::kLt:
    case Branch::kGte:  // less than is at most the next number below
      split = split == kLeast ? kNever : std::nextafter(split, kLeast);
      break;
    case Branch::kGt:
      break;
    case Branch::kEq:
      detail = kEqual;
      break;
    case Branch::kNeq:
      detail = kUnequal;
      nan_side = true;  // a NaN is unequal to everything
      break;
    case Branch::kMember:
      detail = kMember | static_cast<std::uint32_t>(sets_.size()) << 2;
      sets_.emplace_back(n.members.begin(), n.members.end());
      break;
  }
  const bool swapped = n.branch == Branch::kGt || n.branch == Branch::kGte;
  if (swapped && !std::isnan(n.split)) nan_side = !nan_side;
  has_tests_ = has_tests_ || detail != kAtMost;
  to = {split, static_cast<std::uint32_t>(n.feature), static_cast<std::uint32_t>(nodes_.size()),
        detail | (nan_side ? kNanBit : 0)};
}

template <typename T>
template <bool kNan>
std::uint32_t Forest<T>::step(std::uint32_t at, const T* x) const {
  const Node& n = nodes_.data()[at];
  const T value = x[n.feature];
  if constexpr (kNan) {
    if (std::isnan(value)) return n.next + (n.detail >> 31);
  }
  return n.next + (value <= n.split ? 1 : 0);
}

// kLanes places go down `depth` levels: of one row, or of rows beside each other.
template <typename T>
template <bool kNan, bool kSameRow>
void Forest<T>::descend(const T* x, std::int64_t width, std::uint32_t depth,
                        std::uint32_t* places) const {
  std::uint32_t at[kLanes];
  std::copy_n(places, kLanes, at);
  for (std::uint32_t level = 0; level < depth; ++level) {
    std::uint32_t moved = 0;  // deep trees are rarely deep everywhere
#pragma GCC unroll 8
    for (int l = 0; l < kLanes; ++l) {
      const std::uint32_t next = step<kNan>(at[l], kSameRow ? x : x + l * width);
      moved |= next ^ at[l];
      at[l] = next;
    }
    if (moved == 0) break;
  }
  std::copy_n(at, kLanes, places);
}

// One place, whatever is compared.
template <typename T>
std::uint32_t Forest<T>::walk(std::uint32_t at, const T* x) const {
  for (;;) {
    const Node& n = nodes_.data()[at];
    if (n.next == at) return at;
    const T value = x[n.feature];
    bool side = false;
    if (std::isnan(value)) {
      side = n.detail >> 31 != 0;
    } else if ((n.detail & 3) == kAtMost) {
      side = value <= n.split;
    } else if ((n.detail & 3) == kMember) {
      const std::vector<T>& set = sets_[(n.detail & ~kNanBit) >> 2];
      side = std::find(set.begin(), set.end(), value) != set.end();
    } else {
      side = (value == n.split) == ((n.detail & 3) == kEqual);
    }
    at = n.next + (side ? 1 : 0);
  }
}

template <typename T>
void Forest<T>::vote(std::uint32_t at, double* scores) const {
  const std::uint32_t leaf = nodes_.data()[at].detail;
  const Vote* const end = votes_.data() + vote_begin_.data()[leaf + 1];
  for (const Vote* v = votes_.data() + vote_begin_.data()[leaf]; v != end; ++v) {
    double& score = scores[v->target];
    if (aggregate_ == Aggregate::kMin) {
      score = std::min(score, v->weight);
    } else if (aggregate_ == Aggregate::kMax) {
      score = std::max(score, v->weight);
    } else {
      score += v->weight;
    }
  }
}

template <typename T>
template <bool kNan>
void Forest<T>::add_rows(const T* x, std::int64_t rows, std::int64_t width, std::size_t first,
                         std::size_t last, double* scores) const {
  std::uint32_t at[kLanes];
  const std::int64_t even = rows / kLanes * kLanes;
  if (even > 0) {
    for (std::size_t t = first; t < last; ++t) {
      for (std::int64_t r = 0; r < even; r += kLanes) {
        std::fill_n(at, kLanes, roots_[t].at);
        descend<kNan, false>(x + r * width, width, roots_[t].depth, at);
        if (!weights_.empty()) {
          for (int l = 0; l < kLanes; ++l) {
            scores[r + l] += weights_.data()[nodes_.data()[at[l]].detail];
          }
          continue;
        }
        for (int l = 0; l < kLanes; ++l) {
          vote(at[l], scores + static_cast<std::size_t>(r + l) * targets_);
        }
      }
    }
  }
  for (std::int64_t r = even; r < rows; ++r) {
    for (std::size_t t = first; t < last; t += kLanes) {
      const auto count = static_cast<int>(std::min<std::size_t>(last - t, kLanes));
      std::uint32_t depth = 0;
      for (int l = 0; l < kLanes; ++l) {
        const Start& start = roots_[t + static_cast<std::size_t>(std::min(l, count - 1))];
        at[l] = start.at;
        depth = std::max(depth, start.depth);
      }
      descend<kNan, true>(x + r * width, width, depth, at);
      for (int l = 0; l < count; ++l) vote(at[l], scores + static_cast<std::size_t>(r) * targets_);
    }
  }
}

template <typename T>
void Forest<T>::add(const T* x, std::int64_t rows, std::int64_t width, std::size_t first,
                    std::size_t last, double* scores) const {
  if (has_tests_) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::size_t t = first; t < last; ++t) {
        vote(walk(roots_[t].at, x + r * width), scores + static_cast<std::size_t>(r) * targets_);
      }
    }
    return;
  }
  bool nan = false;
  for (std::int64_t i = 0; i < rows * width; ++i) nan |= x[i] != x[i];
  if (nan) {
    add_rows<true>(x, rows, width, first, last, scores);
  } else {
    add_rows<false>(x, rows, width, first, last, scores);
  }
}

template <typename T>
std::size_t Forest<T>::bytes() const {
  return nodes_.size() * sizeof(Node) + votes_.size() * sizeof(Vote) +
         vote_begin_.size() * sizeof(std::uint32_t) + weights_.size() * sizeof(double);
}

template class Forest<float>;
template class Forest<double>;

}  // namespace xrt::native
