// SPDX-License-Identifier: Apache-2.0
#include "evaluation/text_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/file.h"
#include "evaluation/scores.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Bytes that continue a character belong to the one before; what is no UTF-8 counts byte by byte.
std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> found;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    const bool leads = (static_cast<unsigned char>(text[at]) & 0xC0U) == 0xC0U;
    while (leads && end < text.size() && end < at + 4 &&
           (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
      ++end;
    }
    found.push_back(text.substr(at, end - at));
    at = end;
  }
  return found;
}

std::vector<std::string_view> tokens_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  std::vector<std::string_view> found;
  for (std::size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    found.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  return found;
}

// Levenshtein's distance.
std::size_t distance(const std::vector<std::string_view>& a,
                     const std::vector<std::string_view>& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

double rate(std::size_t errors, std::size_t all) {
  return all == 0 ? 0 : static_cast<double>(errors) / static_cast<double>(all);
}

}  // namespace

Alphabet read_alphabet(const std::string& file) {
  const std::string text = read_file(file);
  Alphabet alphabet;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string symbol = text.substr(at, end - at);
    if (symbol.ends_with('\r')) symbol.pop_back();
    if (symbol.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} line {}: there is no symbol", file, alphabet.symbols.size() + 1));
    }
    alphabet.symbols.push_back(std::move(symbol));
    at = end + 1;
  }
  if (alphabet.symbols.empty()) {
    throw Error(ErrorCode::kInvalidArgument, file + ": there are no symbols");
  }
  return alphabet;
}

std::string read_line(const Tensor& output, std::int64_t row, const Alphabet& alphabet) {
  const auto symbols = static_cast<std::int64_t>(alphabet.symbols.size());
  const bool fits =
      output.rank() == 3 && (output.dims()[2] == symbols + 1 || output.dims()[2] == symbols + 2);
  if (!fits) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the scores are {}{}: [batch, steps, {}] is wanted, a blank and the {} "
                    "symbols of the alphabet, or one more for a space",
                    to_string(output.dtype()), to_string(output.dims()), symbols + 1, symbols));
  }
  const std::int64_t steps = output.dims()[1];
  // The steps of the row, one after the other.
  const Scores scores = scores_of_steps(output, row);
  std::string text;
  std::int64_t last = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (has_no_order(scores, step)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the model's scores hold NaN or infinity, in which no symbol is the best");
    }
    const std::int64_t best = best_class(scores, step);
    if (best != last && best > 0) {
      text += best <= symbols ? alphabet.symbols[static_cast<std::size_t>(best - 1)] : " ";
    }
    last = best;
  }
  return text;
}

void TextErrors::add(std::string_view wanted, std::string_view found) {
  ++texts;
  exact += wanted == found ? 1 : 0;
  const auto letters = characters_of(wanted);
  characters += letters.size();
  character_errors += distance(letters, characters_of(found));
  const auto words = tokens_of(wanted);
  tokens += words.size();
  token_errors += distance(words, tokens_of(found));
}

double TextErrors::character_rate() const { return rate(character_errors, characters); }
double TextErrors::token_rate() const { return rate(token_errors, tokens); }

}  // namespace xrt
