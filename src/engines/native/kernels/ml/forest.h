// SPDX-License-Identifier: Apache-2.0
// Decision trees as they are run: nodes of 16 bytes, of which each leads to two neighbours.
//
// A step needs no branch of the processor: the next node is `next` plus whether the feature is at
// most `split`, and a leaf leads to itself. So eight rows, or eight trees where there are few rows,
// go down together, and none waits for the memory of another.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engines/native/kernel.h"

namespace xrt::native {

enum class Branch : std::uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };
enum class Aggregate : std::uint8_t { kAverage, kSum, kMin, kMax };

// A node as the standard writes it.
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
  double weight = 0;
  std::size_t target = 0;
};

struct Root {
  std::size_t at = 0;
  bool leaf = false;  // a tree that is one leaf
};

// What an op's attributes say.
struct TreesAsRead {
  std::size_t targets = 1;
  Aggregate aggregate = Aggregate::kSum;
  std::vector<double> base;  // added to the targets, one for each or one for all
  std::vector<Root> roots;
  std::vector<TreeNode> nodes;
  std::vector<std::vector<Vote>> leaves;
};

// T is what features are compared as: float or double.
template <typename T>
class Forest {
 public:
  // Throws where the nodes form a cycle.
  explicit Forest(const TreesAsRead& trees);

  // Adds what the trees [first, last) say of each row to scores[rows][targets].
  void add(const T* x, std::int64_t rows, std::int64_t width, std::size_t first, std::size_t last,
           double* scores) const;

  std::size_t trees() const { return roots_.size(); }
  // Steps from all roots to their deepest leaves.
  std::int64_t steps() const { return steps_; }
  std::size_t bytes() const;

 private:
  struct Node {
    T split;
    std::uint32_t feature;
    std::uint32_t next;    // itself: a leaf
    std::uint32_t detail;  // of a leaf its number, else a Test and which way a NaN goes
  };
  // The lowest two bits of `detail`; a set's number is above them, the highest bit is for a NaN.
  enum Test : std::uint32_t { kAtMost, kEqual, kUnequal, kMember };
  struct Start {
    std::uint32_t at;
    std::uint32_t depth;
  };

  void place(const TreesAsRead& trees, std::size_t index, bool leaf, std::size_t at);
  template <bool kNan>
  std::uint32_t step(std::uint32_t at, const T* x) const;
  template <bool kNan, bool kSameRow>
  void descend(const T* x, std::int64_t width, std::uint32_t depth, std::uint32_t* at) const;
  template <bool kNan>
  void add_rows(const T* x, std::int64_t rows, std::int64_t width, std::size_t first,
                std::size_t last, double* scores) const;
  std::uint32_t walk(std::uint32_t at, const T* x) const;
  void vote(std::uint32_t leaf, double* scores) const;

  std::size_t targets_;
  Aggregate aggregate_;
  bool has_tests_ = false;  // besides kAtMost
  std::vector<Node> nodes_;
  std::vector<Start> roots_;
  std::vector<std::vector<T>> sets_;
  // Votes of leaf i: [vote_begin_[i], vote_begin_[i + 1]).
  std::vector<std::uint32_t> vote_begin_;
  std::vector<Vote> votes_;
  std::vector<double> weights_;  // of the leaves, where each adds one number to the only target
  std::int64_t steps_ = 0;
};

extern template class Forest<float>;
extern template class Forest<double>;

}  // namespace xrt::native
