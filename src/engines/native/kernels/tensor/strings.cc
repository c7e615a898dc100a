// SPDX-License-Identifier: Apache-2.0
// Ops on strings: StringConcat, StringSplit, StringNormalizer, RegexFullMatch, TfIdfVectorizer.
#include <re2/re2.h>
#include <utf8proc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/broadcast.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/text.h"
#include "engines/native/kernels/register.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

void run_concat(KernelContext& k) {
  const Tensor& a = k.input(0);
  const Tensor& b = k.input(1);
  Tensor& y = k.output(0, DType::kString, broadcast_dims(a.dims(), b.dims()));
  if (y.count() == 0) return;
  const Tensor* inputs[] = {&a, &b};
  const BroadcastLoop loop(y.dims(), inputs);
  loop.run(k, 64, [&](std::int64_t out, const auto& offsets, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::string& first = a.strings()[offsets[0] + (loop.dense(0) ? i : 0)];
      const std::string& second = b.strings()[offsets[1] + (loop.dense(1) ? i : 0)];
      WorkScope::charge_characters(first.size() + second.size());
      y.strings()[out + i] = first + second;
    }
  });
}

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

Scratch<std::string> split_at_spaces(const std::string& text, std::int64_t limit) {
  Scratch<std::string> parts;
  std::size_t at = 0;
  while (true) {
    while (at < text.size() && is_space(text[at])) ++at;
    if (at == text.size()) return parts;
    if (static_cast<std::int64_t>(parts.size()) == limit) {
      std::size_t end = text.size();
      while (is_space(text[end - 1])) --end;
      parts.push_back(text.substr(at, end - at));
      return parts;
    }
    std::size_t end = at;
    while (end < text.size() && !is_space(text[end])) ++end;
    parts.push_back(text.substr(at, end - at));
    at = end;
  }
}

Scratch<std::string> split_at(const std::string& text, const std::string& delimiter,
                              std::int64_t limit) {
  if (delimiter.empty()) return split_at_spaces(text, limit);
  Scratch<std::string> parts;
  if (text.empty()) return parts;
  std::size_t at = 0;
  while (static_cast<std::int64_t>(parts.size()) < limit) {
    const std::size_t end = text.find(delimiter, at);
    if (end == std::string::npos) break;
    parts.push_back(text.substr(at, end - at));
    at = end + delimiter.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

Created create_string_split(const KernelCreateContext& create) {
  const std::string delimiter = create.node().attr_string("delimiter", "");
  // A negative one is no limit, as in Python's str.split().
  const std::int64_t given = create.node().attr_int("maxsplit", -1);
  const std::int64_t limit = given < 0 ? INT64_MAX : given;
  return make_kernel([delimiter, limit](KernelContext& k) {
    const Tensor& x = k.input(0);
    Scratch<Scratch<std::string>> parts;
    std::size_t longest = 0;
    TimeCheck time;
    for (std::int64_t i = 0; i < x.count(); ++i) {
      time.spend(static_cast<std::int64_t>(x.strings()[i].size()) + 1);
      parts.push_back(split_at(x.strings()[i], delimiter, limit));
      longest = std::max(longest, parts.back().size());
    }
    Dims dims = x.dims();
    dims.push_back(static_cast<std::int64_t>(longest));
    Tensor& y = k.output(0, DType::kString, dims);
    Tensor& counts = k.output(1, DType::kInt64, x.dims());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      counts.data<std::int64_t>()[i] = static_cast<std::int64_t>(parts[i].size());
      std::string* row = y.strings() + i * longest;
      std::move(parts[i].begin(), parts[i].end(), row);
      std::fill(row + parts[i].size(), row + longest, std::string());
    }
  });
}

// --- case mapping of UTF-8 ----------------------------------------------------------------------

using CaseMap = utf8proc_int32_t (*)(utf8proc_int32_t);

// Of one letter one: Unicode has none for ß, utf8proc a capital one that no text uses.
utf8proc_int32_t upper_case(utf8proc_int32_t c) { return c == 0xDF ? c : utf8proc_toupper(c); }

// Bytes that are not UTF-8 are kept.
std::string map_code_points(std::string_view text, CaseMap map) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t length =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                         static_cast<utf8proc_ssize_t>(text.size()), &code_point);
    if (length <= 0) {
      result += text.front();
      text.remove_prefix(1);
      continue;
    }
    utf8proc_uint8_t encoded[4];
    const utf8proc_ssize_t written = utf8proc_encode_char(map(code_point), encoded);
    result.append(reinterpret_cast<const char*>(encoded), static_cast<std::size_t>(written));
    text.remove_prefix(static_cast<std::size_t>(length));
  }
  return result;
}

// To change the case of one.
constexpr std::int64_t kLetterWork = 8;

Created create_normalizer(const KernelCreateContext& create) {
  const std::string action = need_string(create.node(), "case_change_action");
  if (action != "NONE" && action != "LOWER" && action != "UPPER") {
    fail("case_change_action '" + action + "' is not known");
  }
  const bool sensitive = need_int(create.node(), "is_case_sensitive") != 0;
  std::set<std::string> stop_words;
  for (const std::string& word : create.node().attr_strings("stopwords")) {
    stop_words.insert(sensitive ? word : map_code_points(word, utf8proc_tolower));
  }
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() < 1 || x.rank() > 2 || (x.rank() == 2 && x.dims()[0] != 1)) {
      fail("the input is neither [C] nor [1, C]");
    }
    Scratch<std::string> kept;
    TimeCheck time;
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const std::string& word = x.strings()[i];
      time.spend(kLetterWork * static_cast<std::int64_t>(word.size() + 1));
      if (stop_words.contains(sensitive ? word : map_code_points(word, utf8proc_tolower))) continue;
      kept.push_back(action == "LOWER"   ? map_code_points(word, utf8proc_tolower)
                     : action == "UPPER" ? map_code_points(word, upper_case)
                                         : word);
    }
    if (kept.empty()) kept.emplace_back();
    const auto count = static_cast<std::int64_t>(kept.size());
    Tensor& y = k.output(0, DType::kString, x.rank() == 1 ? Dims{count} : Dims{1, count});
    std::move(kept.begin(), kept.end(), y.strings());
  });
}

// Null with the reason in `error` where RE2 does not take the pattern.
std::shared_ptr<const RE2> make_regex(const std::string& pattern, std::string* error) {
  constexpr std::size_t kQuoted = 200;
  RE2::Options options;
  options.set_log_errors(false);
  // The time to make a program of a pattern grows with the square of its size. With RE2's default
  // of 8 MiB it takes a minute, with this half a second at most.
  options.set_max_mem(std::int64_t{1} << 20);
  auto regex = std::make_shared<const RE2>(pattern, options);
  if (regex->ok()) return regex;
  *error = "the pattern '" + pattern.substr(0, kQuoted) + (pattern.size() > kQuoted ? "…" : "") +
           "': " + regex->error().substr(0, kQuoted);
  return nullptr;
}

Created create_regex(const KernelCreateContext& create) {
  std::string error;
  const auto regex = make_regex(create.node().attr_string("pattern", ""), &error);
  if (regex == nullptr) throw Error(ErrorCode::kUnsupported, error);
  return make_kernel([regex](KernelContext& k) {
    const Tensor& x = k.input(0);
    Tensor& y = k.output(0, DType::kBool, x.dims());
    TimeCheck time;
    for (std::int64_t i = 0; i < x.count(); ++i) {
      time.spend(static_cast<std::int64_t>(x.strings()[i].size()) + 1);
      y.data<std::uint8_t>()[i] = RE2::FullMatch(x.strings()[i], *regex) ? 1 : 0;
    }
  });
}

// --- TfIdfVectorizer ----------------------------------------------------------------------------

class TfIdf {
 public:
  explicit TfIdf(const Node& node)
      : mode_(need_string(node, "mode")),
        shortest_(need_int(node, "min_gram_length")),
        longest_(need_int(node, "max_gram_length")),
        skips_(need_int(node, "max_skip_count")),
        indexes_(node.attr_ints("ngram_indexes")),
        weights_(node.attr_floats("weights")) {
    if (mode_ != "TF" && mode_ != "IDF" && mode_ != "TFIDF") fail("mode '" + mode_ + "'");
    if (shortest_ < 1 || longest_ < shortest_ || skips_ < 0) {
      fail("'min_gram_length', 'max_gram_length' and 'max_skip_count' are no lengths");
    }
    // Tokens of both kinds are compared as text.
    std::vector<std::string> pool = node.attr_strings("pool_strings");
    for (const std::int64_t token : node.attr_ints("pool_int64s")) {
      pool.push_back(std::to_string(token));
    }
    const std::vector<std::int64_t> starts = node.attr_ints("ngram_counts");
    std::size_t gram = 0;
    for (std::size_t n = 1; n <= starts.size(); ++n) {
      const auto begin = static_cast<std::size_t>(starts[n - 1]);
      const std::size_t end = n < starts.size() ? static_cast<std::size_t>(starts[n]) : pool.size();
      if (end > pool.size() || begin > end) fail("'ngram_counts' does not fit the pool");
      for (std::size_t at = begin; at + n <= end; at += n) {
        grams_[{pool.begin() + static_cast<std::ptrdiff_t>(at),
                pool.begin() + static_cast<std::ptrdiff_t>(at + n)}] = gram++;
      }
    }
    // Longer n-grams are not in the pool.
    longest_ = std::min(longest_, static_cast<std::int64_t>(starts.size()));
    if (gram != indexes_.size()) fail("'ngram_indexes' has not one entry per n-gram of the pool");
    if (!weights_.empty() && weights_.size() != gram) fail("'weights' has another length");
    for (const std::int64_t index : indexes_) {
      if (index < 0 || index > (1 << 28)) fail("an n-gram index is out of range");
      width_ = std::max(width_, index + 1);
    }
  }

  std::int64_t width() const { return width_; }

  void run(const Scratch<std::string>& tokens, float* out, TimeCheck& time) const {
    std::vector<float> counts(indexes_.size());
    const auto size = static_cast<std::int64_t>(tokens.size());
    for (std::int64_t skip = 0; skip <= std::min(skips_, size); ++skip) {
      for (std::int64_t n = shortest_; n <= longest_; ++n) {
        // Without neighbours there is nothing to skip.
        if (n == 1 && skip > 0) continue;
        const std::int64_t step = skip + 1;
        for (std::int64_t first = 0; first + (n - 1) * step < size; ++first) {
          time.spend(kTokenWork * n);
          std::vector<std::string> gram;
          for (std::int64_t i = 0; i < n; ++i) gram.push_back(tokens[first + i * step]);
          const auto found = grams_.find(gram);
          if (found != grams_.end()) counts[found->second] += 1;
        }
      }
    }
    std::fill_n(out, width_, 0.0F);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const float weight = weights_.empty() ? 1.0F : weights_[i];
      float value = counts[i];
      if (mode_ == "IDF") value = counts[i] > 0 ? weight : 0.0F;
      if (mode_ == "TFIDF") value = counts[i] * weight;
      out[indexes_[i]] += value;
    }
  }

 private:
  static constexpr std::int64_t kTokenWork = 16;  // to copy one, and to compare it

  std::string mode_;
  std::int64_t shortest_, longest_, skips_;
  std::vector<std::int64_t> indexes_;
  std::vector<float> weights_;
  std::map<std::vector<std::string>, std::size_t> grams_;
  std::int64_t width_ = 0;
};

Created create_tf_idf(const KernelCreateContext& create) {
  return make_kernel([tf = TfIdf(create.node())](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() > 2) fail("the input is not of rank 1 or 2");
    const bool matrix = x.rank() == 2;
    const std::int64_t rows = matrix ? x.dims()[0] : 1;
    const std::int64_t columns = rows == 0 ? 0 : x.count() / rows;
    Tensor& y = k.output(0, DType::kFloat32, matrix ? Dims{rows, tf.width()} : Dims{tf.width()});
    if (y.count() == 0) return;
    Scratch<std::string> tokens(static_cast<std::size_t>(columns));
    TimeCheck time;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < columns; ++i) {
        if (x.dtype() == DType::kString) {
          tokens[i] = x.strings()[row * columns + i];
        } else {
          std::int64_t value = 0;
          load_int64(x.dtype(), x.raw(), row * columns + i, 1, &value);
          tokens[i] = std::to_string(value);
        }
      }
      tf.run(tokens, y.data<float>() + row * tf.width(), time);
    }
  });
}

}  // namespace

void register_string_kernels(KernelRegistry& registry) {
  const auto strings = [](const NodeView& n) { return n.check_input(0, kStringType); };
  registry.add({.op = "StringConcat", .supports = strings, .create = [](const auto&) {
                  return make_kernel(run_concat);
                }});
  registry.add({.op = "StringSplit", .supports = strings, .create = create_string_split});
  registry.add({.op = "StringNormalizer", .supports = strings, .create = create_normalizer});
  registry.add({.op = "RegexFullMatch",
                .supports =
                    [](const NodeView& n) {
                      std::string error;
                      if (make_regex(n.node().attr_string("pattern", ""), &error) == nullptr) {
                        return Support::no(error);
                      }
                      return n.check_input(0, kStringType);
                    },
                .create = create_regex});
  registry.add({.op = "TfIdfVectorizer",
                .supports =
                    [](const NodeView& n) {
                      return n.check_input(0, kStringType | DTypeSet{DType::kInt32, DType::kInt64});
                    },
                .create = create_tf_idf});
}

}  // namespace xrt::native
