// SPDX-License-Identifier: Apache-2.0
#include "engines/xla/user_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "engines/xla/lowering.h"

namespace xrt::xla {
namespace {

constexpr std::string_view kFunction = "func.func";

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '.';
}

[[noreturn]] void refuse(const std::string& what) { throw Refusal{"its StableHLO " + what}; }

// Walks over text in which strings and comments are skipped.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool done() const { return at_ >= text_.size(); }
  std::size_t position() const { return at_; }
  void go_to(std::size_t position) { at_ = position; }
  char peek() const { return text_[at_]; }
  bool sees(std::string_view word) const {
    return text_.substr(at_, word.size()) == word && !is_name_at(at_ + word.size()) &&
           (at_ == 0 || (!is_name_at(at_ - 1) && text_[at_ - 1] != '@'));
  }

  // One character, a whole string, or a whole comment.
  void next() {
    if (text_[at_] == '"') {
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
        if (text_[at_] == '\\') ++at_;
      }
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      ++at_;
    }
    at_ = std::min(at_, text_.size());
  }
  void skip_spaces() {
    while (!done() && (std::isspace(static_cast<unsigned char>(peek())) != 0 ||
                       text_.substr(at_, 2) == "//")) {
      next();
    }
  }
  std::string_view name() {
    const std::size_t begin = at_;
    while (!done() && is_name(peek())) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  // From an opening bracket to after the one that closes it.
  std::string_view bracketed(char open, char close) {
    const std::size_t begin = at_;
    int depth = 0;
    while (!done()) {
      if (peek() == open) ++depth;
      const bool ends = peek() == close && --depth == 0;
      next();
      if (ends) return text_.substr(begin, at_ - begin);
    }
    refuse(fmt::format("ends before a '{}' is closed", open));
  }

 private:
  bool is_name_at(std::size_t i) const { return i < text_.size() && is_name(text_[i]); }

  std::string_view text_;
  std::size_t at_ = 0;
};

// The tensor types of a list of parameters or results, without those inside of attributes.
std::vector<std::string> types_of(std::string_view list) {
  std::vector<std::string> types;
  Scanner scan(list);
  while (!scan.done()) {
    if (scan.peek() == '{') {
      scan.bracketed('{', '}');
    } else if (scan.sees("tensor")) {
      scan.name();
      if (scan.done() || scan.peek() != '<') refuse("has a parameter or result without a type");
      types.push_back("tensor" + std::string(scan.bracketed('<', '>')));
    } else {
      scan.next();
    }
  }
  return types;
}

struct Parsed {
  std::string name;
  std::string text;  // from '(' to the end of its body
  std::string_view inputs, outputs;
};

// At "func.func"; ends after the body.
Parsed read_function(Scanner& scan, std::string_view whole) {
  scan.go_to(scan.position() + kFunction.size());
  scan.skip_spaces();
  if (!scan.done() && scan.peek() != '@') scan.name();  // public, private
  scan.skip_spaces();
  if (scan.done() || scan.peek() != '@') refuse("has a function without a name");
  scan.next();
  Parsed function;
  function.name = scan.name();
  const std::size_t begin = scan.position();
  function.inputs = scan.bracketed('(', ')');
  scan.skip_spaces();
  if (whole.substr(scan.position(), 2) == "->") {
    scan.go_to(scan.position() + 2);
    scan.skip_spaces();
    const std::size_t results = scan.position();
    if (!scan.done() && scan.peek() == '(') {
      function.outputs = scan.bracketed('(', ')');
    } else {
      while (!scan.done() && scan.peek() != '{' && !scan.sees("attributes")) scan.next();
      function.outputs = whole.substr(results, scan.position() - results);
    }
    scan.skip_spaces();
  }
  if (!scan.done() && scan.sees("attributes")) {
    scan.name();
    scan.skip_spaces();
    scan.bracketed('{', '}');
    scan.skip_spaces();
  }
  if (scan.done() || scan.peek() != '{') {
    refuse(fmt::format("has a function @{} without a body", function.name));
  }
  scan.bracketed('{', '}');
  function.text = whole.substr(begin, scan.position() - begin);
  return function;
}

// `text` with "@name" of every function preceded by the prefix; the target of a custom call that
// happens to bear such a name stays.
std::string renamed(std::string_view text, const std::vector<Parsed>& functions,
                    std::string_view prefix) {
  std::string out;
  Scanner scan(text);
  bool after_custom_call = false;
  while (!scan.done()) {
    const std::size_t begin = scan.position();
    if (scan.peek() == '@') {
      scan.next();
      const std::string_view name = scan.name();
      const bool ours = std::any_of(functions.begin(), functions.end(),
                                    [&](const Parsed& f) { return f.name == name; });
      out += "@";
      if (ours && !after_custom_call) out += prefix;
      out += name;
      after_custom_call = false;
      continue;
    }
    if (is_name(scan.peek())) {
      after_custom_call = scan.name().ends_with("custom_call");
    } else {
      if (scan.peek() != ' ') after_custom_call = false;
      scan.next();
    }
    out += text.substr(begin, scan.position() - begin);
  }
  return out;
}

}  // namespace

UserCode read_user_code(std::string_view text, std::string_view prefix) {
  std::vector<Parsed> functions;
  Scanner scan(text);
  while (!scan.done()) {
    if (scan.peek() == '#') refuse("has aliases of attributes or locations, which cannot be moved");
    if (scan.sees(kFunction)) {
      functions.push_back(read_function(scan, text));
    } else {
      scan.next();
    }
  }
  const auto main = std::find_if(functions.begin(), functions.end(),
                                 [](const Parsed& f) { return f.name == "main"; });
  if (main == functions.end()) refuse("has no function @main");
  UserCode code;
  code.main = std::string(prefix) + "main";
  code.inputs = types_of(main->inputs);
  code.outputs = types_of(main->outputs);
  for (const Parsed& function : functions) {
    code.functions += fmt::format("func.func private @{}{}{}\n", prefix, function.name,
                                  renamed(function.text, functions, prefix));
  }
  return code;
}

}  // namespace xrt::xla
