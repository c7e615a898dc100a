// SPDX-License-Identifier: Apache-2.0
#include "ir/lexer.h"

#include <algorithm>

#include "ir/text.h"

namespace xrt {
namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == ':' || c == '-';
}

bool is_number_character(char c) {
  return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

}  // namespace

void Lexer::fail(const std::string& message) const {
  const auto line =
      1 + std::count(text_.begin(), text_.begin() + static_cast<long>(position_), '\n');
  throw Error(ErrorCode::kInvalidModel,
              "graph text, line " + std::to_string(line) + ": " + message);
}

void Lexer::skip_space() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '#') {  // a comment, to the end of the line
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++position_;
    } else {
      return;
    }
  }
}

bool Lexer::accept(std::string_view sign) {
  if (!at(sign)) return false;
  advance(sign.size());
  return true;
}

void Lexer::expect(std::string_view sign) {
  if (!accept(sign)) fail("expected '" + std::string(sign) + "'");
}

std::string_view Lexer::peek_word() const {
  std::size_t end = position_;
  while (end < text_.size() && is_word_character(text_[end])) ++end;
  std::string_view word = text_.substr(position_, end - position_);
  word = word.substr(0, word.find("::"));
  while (word.ends_with(':')) word.remove_suffix(1);
  return word == "_" || text::is_word(word) ? word : std::string_view();
}

bool Lexer::accept_word(std::string_view word) {
  if (!at_word(word)) return false;
  advance(word.size());
  return true;
}

void Lexer::expect_word(std::string_view word) {
  if (!accept_word(word)) fail("expected '" + std::string(word) + "'");
}

std::string Lexer::name() {
  if (at_string()) return string();
  const std::string word(peek_word());
  if (word.empty() || word == "_") fail("expected a name");
  advance(word.size());
  return word;
}

std::string Lexer::string() {
  if (!at_string()) fail("expected a string");
  std::string out;
  std::size_t i = position_ + 1;
  for (; i < text_.size() && text_[i] != '"'; ++i) {
    if (text_[i] != '\\') {
      out += text_[i];
      continue;
    }
    ++i;
    const char c = i < text_.size() ? text_[i] : '\0';
    if (c == 'n') {
      out += '\n';
    } else if (c == 't') {
      out += '\t';
    } else if (c == '"' || c == '\\') {
      out += c;
    } else if (c == 'x') {
      const auto byte = text::from_hex(text_.substr(i + 1, 2));
      if (!byte || byte->size() != 1) fail("malformed \\x in a string");
      out += *byte;
      i += 2;
    } else {
      fail("unknown escape in a string");
    }
  }
  if (i >= text_.size()) fail("a string without its end");
  position_ = i;
  advance(1);
  return out;
}

bool Lexer::at_number() const {
  if (at_end()) return false;
  const char c = text_[position_];
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.';
}

std::string Lexer::number() {
  std::size_t end = position_;
  while (end < text_.size() && is_number_character(text_[end])) ++end;
  if (end == position_) fail("expected a number");
  const std::string digits(text_.substr(position_, end - position_));
  advance(end - position_);
  return digits;
}

std::string Lexer::raw_until(char end) {
  const std::size_t at = text_.find(end, position_);
  if (at == std::string_view::npos) fail(std::string("expected '") + end + "'");
  const std::string out(text_.substr(position_, at - position_));
  advance(at - position_ + 1);
  return out;
}

}  // namespace xrt
