// SPDX-License-Identifier: Apache-2.0
// Words, strings, numbers and signs of the graph's text form.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "xrt/error.h"

namespace xrt {

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { skip_space(); }

  // kInvalidModel with the line.
  [[noreturn]] void fail(const std::string& message) const;

  bool at_end() const { return position_ == text_.size(); }
  // `sign` is punctuation, or a word of letters that need not stand alone ("f" after a number).
  bool at(std::string_view sign) const { return text_.substr(position_).starts_with(sign); }
  bool accept(std::string_view sign);
  void expect(std::string_view sign);

  // A whole word.
  bool at_word(std::string_view word) const { return peek_word() == word; }
  bool accept_word(std::string_view word);
  void expect_word(std::string_view word);

  bool at_string() const { return at("\""); }
  std::string string();
  // A word or a quoted string.
  std::string name();

  bool at_number() const;
  std::string number();
  std::int64_t integer() { return to_integer<std::int64_t>(number()); }
  // Everything up to `end`, which is consumed.
  std::string raw_until(char end);

  template <typename T>
  T to_integer(const std::string& digits) const {
    return convert<T>(digits, "an integer");
  }
  template <typename T>
  T to_float(const std::string& digits) const {
    return convert<T>(digits, "a number");
  }

  // What `make` returns; its errors get the line.
  template <typename Make>
  auto checked(Make make) const {
    try {
      return make();
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInvalidModel) throw;
      fail(e.what());
    }
  }

 private:
  template <typename T>
  T convert(const std::string& digits, const char* what) const {
    T value{};
    const char* end = digits.data() + digits.size();
    const auto result = std::from_chars(digits.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end) {
      fail("'" + digits + "' is not " + what + " of this size");
    }
    return value;
  }
  std::string_view peek_word() const;
  void skip_space();
  void advance(std::size_t count) {
    position_ += count;
    skip_space();
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace xrt
