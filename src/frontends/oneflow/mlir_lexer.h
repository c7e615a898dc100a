// SPDX-License-Identifier: Apache-2.0
// Characters, words, strings and numbers of MLIR's text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontends/oneflow/mlir.h"

namespace xrt::oneflow {

class MlirLexer {
 public:
  explicit MlirLexer(std::string_view text) : text_(text) { skip_space(); }

  // kInvalidModel with line and column.
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] static void fail_at(const Place& place, const std::string& message);
  const Place& place() const { return place_; }

  bool at_end() const { return position_ == text_.size(); }
  bool at(std::string_view sign) const { return text_.substr(position_).starts_with(sign); }
  bool accept(std::string_view sign);
  void expect(std::string_view sign);

  // A bare word: a letter or '_', then letters, digits, '_', '$' and '.'. "" if there is none.
  std::string_view peek_word() const;
  bool accept_word(std::string_view word);
  std::string word(const char* what);
  // What follows '%', '@', '^' or '#': letters, digits and any of "_$.-"; @ may have a string.
  std::string suffix_id(const char* what);
  std::string string();

  // A number as it is written: digits, sign, point, exponent, or 0x….
  bool at_number() const;
  std::string number();
  std::int64_t integer();
  std::int64_t to_integer(const std::string& digits) const;
  double to_double(const std::string& digits) const;

  // The dimensions of a shape: "2x3x" in front of an element type; -1 for '?'. False for "*x".
  bool shape_prefix(std::vector<std::int64_t>& dims);

  // From an opening bracket to the one that closes it, as text. "->" is no bracket.
  std::string balanced();

 private:
  void skip_space();
  void advance(std::size_t count);  // without skipping space
  void consume(std::size_t count) {
    advance(count);
    skip_space();
  }

  std::string_view text_;
  std::size_t position_ = 0;
  Place place_;
};

}  // namespace xrt::oneflow
