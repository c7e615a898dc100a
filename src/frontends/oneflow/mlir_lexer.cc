// SPDX-License-Identifier: Apache-2.0
#include "frontends/oneflow/mlir_lexer.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "xrt/error.h"

namespace xrt::oneflow {
namespace {

constexpr std::size_t kMaxBrackets = 256;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '$' || c == '.'; }
bool is_suffix(char c) { return is_word(c) || c == '-'; }

std::string shown(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, 24)) result += c >= ' ' && c <= '~' ? c : '?';
  return result;
}

}  // namespace

std::string to_string(const Place& place) {
  return fmt::format("line {}, column {}", place.line, place.column);
}

void MlirLexer::fail_at(const Place& place, const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, to_string(place) + ": " + message);
}

void MlirLexer::fail(const std::string& message) const { fail_at(place_, message); }

void MlirLexer::advance(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i, ++position_) {
    if (text_[position_] == '\n') {
      ++place_.line;
      place_.column = 1;
    } else {
      ++place_.column;
    }
  }
}

void MlirLexer::skip_space() {
  while (position_ < text_.size()) {
    if (is_space(text_[position_])) {
      advance(1);
    } else if (at("//")) {
      while (position_ < text_.size() && text_[position_] != '\n') advance(1);
    } else {
      return;
    }
  }
}

bool MlirLexer::accept(std::string_view sign) {
  if (!at(sign)) return false;
  consume(sign.size());
  return true;
}

void MlirLexer::expect(std::string_view sign) {
  if (accept(sign)) return;
  fail(at_end() ? fmt::format("'{}' is wanted, but the text ends here", sign)
                : fmt::format("'{}' is wanted, not '{}'", sign, shown(text_.substr(position_))));
}

std::string_view MlirLexer::peek_word() const {
  if (at_end() || !is_letter(text_[position_])) return {};
  std::size_t end = position_;
  while (end < text_.size() && is_word(text_[end])) ++end;
  return text_.substr(position_, end - position_);
}

bool MlirLexer::accept_word(std::string_view word) {
  if (peek_word() != word) return false;
  consume(word.size());
  return true;
}

std::string MlirLexer::word(const char* what) {
  const std::string found(peek_word());
  if (found.empty()) {
    fail(fmt::format("{} is wanted, not '{}'", what, shown(text_.substr(position_))));
  }
  consume(found.size());
  return found;
}

std::string MlirLexer::suffix_id(const char* what) {
  if (at("\"")) return string();
  std::size_t end = position_;
  while (end < text_.size() && is_suffix(text_[end])) {
    // "%a->…" never happens, but "->" ends a name all the same.
    if (text_[end] == '-' && end + 1 < text_.size() && text_[end + 1] == '>') break;
    ++end;
  }
  if (end == position_) {
    fail(fmt::format("{} is wanted, not '{}'", what, shown(text_.substr(position_))));
  }
  std::string found(text_.substr(position_, end - position_));
  consume(found.size());
  return found;
}

std::string MlirLexer::string() {
  if (!at("\"")) fail(fmt::format("a string is wanted, not '{}'", shown(text_.substr(position_))));
  const Place start = place_;
  advance(1);
  std::string result;
  while (true) {
    if (position_ == text_.size() || text_[position_] == '\n') {
      fail_at(start, "this string has no end");
    }
    const char c = text_[position_];
    if (c == '"') break;
    if (c != '\\') {
      result += c;
      advance(1);
      continue;
    }
    // \n \t \\ \" or two hexadecimal digits.
    const std::string_view rest = text_.substr(position_ + 1, 2);
    if (rest.size() == 2 && is_hex(rest[0]) && is_hex(rest[1])) {
      int code = 0;
      std::from_chars(rest.data(), rest.data() + 2, code, 16);
      result += static_cast<char>(code);
      advance(3);
    } else if (!rest.empty() && std::string_view("nt\\\"").find(rest[0]) != std::string::npos) {
      result += rest[0] == 'n' ? '\n' : rest[0] == 't' ? '\t' : rest[0];
      advance(2);
    } else {
      fail("this escape is not known");
    }
  }
  consume(1);
  return result;
}

bool MlirLexer::at_number() const {
  if (at_end()) return false;
  const std::size_t digit = position_ + (text_[position_] == '-' ? 1 : 0);
  return digit < text_.size() && is_digit(text_[digit]);
}

std::string MlirLexer::number() {
  if (!at_number()) {
    fail(fmt::format("a number is wanted, not '{}'", shown(text_.substr(position_))));
  }
  std::size_t end = position_ + (text_[position_] == '-' ? 1 : 0);
  const auto digits = [&] {
    while (end < text_.size() && is_digit(text_[end])) ++end;
  };
  if (text_.substr(end).starts_with("0x")) {
    end += 2;
    while (end < text_.size() && is_hex(text_[end])) ++end;
  } else {
    digits();
    if (end < text_.size() && text_[end] == '.') {
      ++end;
      digits();
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      ++end;
      if (end < text_.size() && (text_[end] == '+' || text_[end] == '-')) ++end;
      digits();
    }
  }
  std::string found(text_.substr(position_, end - position_));
  consume(found.size());
  return found;
}

std::int64_t MlirLexer::integer() { return to_integer(number()); }

std::int64_t MlirLexer::to_integer(const std::string& digits) const {
  const bool hex = digits.starts_with("0x");
  const char* end = digits.data() + digits.size();
  std::int64_t value = 0;
  const auto [at, error] = hex ? std::from_chars(digits.data() + 2, end, value, 16)
                               : std::from_chars(digits.data(), end, value);
  if (error == std::errc() && at == end) return value;
  // An unsigned number above the largest signed one keeps its bits.
  std::uint64_t bits = 0;
  const auto [unsigned_at, unsigned_error] = hex ? std::from_chars(digits.data() + 2, end, bits, 16)
                                                 : std::from_chars(digits.data(), end, bits);
  if (unsigned_error == std::errc() && unsigned_at == end) return static_cast<std::int64_t>(bits);
  fail(fmt::format("'{}' is not an integer of 64 bits", digits));
}

double MlirLexer::to_double(const std::string& digits) const {
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || at != end) fail(fmt::format("'{}' is not a number", digits));
  return value;
}

bool MlirLexer::shape_prefix(std::vector<std::int64_t>& dims) {
  if (at("*")) {
    advance(1);
    expect("x");
    return false;
  }
  while (!at_end() && (is_digit(text_[position_]) || text_[position_] == '?')) {
    if (text_[position_] == '?') {
      dims.push_back(-1);
      advance(1);
    } else {
      std::size_t end = position_;
      while (end < text_.size() && is_digit(text_[end])) ++end;
      const std::string digits(text_.substr(position_, end - position_));
      const std::int64_t size = to_integer(digits);
      if (size < 0) fail(fmt::format("{} is too large a dimension", digits));
      dims.push_back(size);
      advance(digits.size());
    }
    if (!at("x")) fail("'x' is wanted after a dimension");
    advance(1);
  }
  return true;
}

std::string MlirLexer::balanced() {
  const Place start = place_;
  std::string result, open;
  do {
    if (at_end()) fail_at(start, "this bracket is never closed");
    const char c = text_[position_];
    if (c == '"') {
      const std::size_t from = position_;
      string();
      result += text_.substr(from, position_ - from);
      continue;
    }
    if (at("->")) {
      result += "->";
      advance(2);
      continue;
    }
    if (c == '<' || c == '(' || c == '[' || c == '{') {
      open += c == '<' ? '>' : c == '(' ? ')' : c == '[' ? ']' : '}';
      if (open.size() > kMaxBrackets) fail("brackets are nested too deep");
    } else if (c == '>' || c == ')' || c == ']' || c == '}') {
      if (open.back() != c) fail(fmt::format("'{}' is wanted, not '{}'", open.back(), c));
      open.pop_back();
    }
    result += c;
    advance(1);
  } while (!open.empty());
  skip_space();
  return result;
}

}  // namespace xrt::oneflow
