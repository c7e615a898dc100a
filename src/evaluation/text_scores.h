// SPDX-License-Identifier: Apache-2.0
// Scores of characters along a line as text, and how far texts are from the right ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/tensor.h"

namespace xrt {

// The characters that a model of text lines knows. Class 0 is the blank of connectionist temporal
// classification, class i is symbols[i - 1]; where the model has one class more, the last is a
// space.
struct Alphabet {
  std::vector<std::string> symbols;  // UTF-8
};

// One symbol a line; line ends are "\n" or "\r\n". Throws kNotFound, kIo, kInvalidArgument (empty).
Alphabet read_alphabet(const std::string& file);

// The text of one row of an output [batch, steps, classes]: the best class of each step, repeats
// taken once, blanks left out. Throws kInvalidArgument for another rank or number of classes, and
// for scores of which none is the best.
std::string read_line(const Tensor& output, std::int64_t row, const Alphabet& alphabet);

// Sums over texts; an error is a symbol inserted, left out or replaced.
struct TextErrors {
  std::size_t texts = 0, exact = 0;
  std::size_t characters = 0, character_errors = 0;  // code points
  std::size_t tokens = 0, token_errors = 0;          // words between white space

  void add(std::string_view wanted, std::string_view found);
  // Errors over what is wanted; 0 of nothing.
  double character_rate() const;
  double token_rate() const;
};

}  // namespace xrt
