// SPDX-License-Identifier: Apache-2.0
#include "base/message.h"

#include <algorithm>

namespace xrt {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t head = most / 4 * 3;
  std::size_t tail = text.size() - most / 4;
  while (head > 0 && continues_character(text[head])) --head;
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  std::string result(text.substr(0, head));
  result += " [… " + std::to_string(tail - head) + " bytes …] ";
  result += text.substr(tail);
  return result;
}

std::string told(std::string_view message) {
  constexpr std::string_view kBlanks = " \n\t";
  std::string result;
  for (std::size_t at = 0; at < message.size();) {
    const std::size_t word = std::min(message.find_first_not_of(kBlanks, at), message.size());
    const std::size_t end = std::min(message.find_first_of(kBlanks, word), message.size());
    result += message.substr(at, word - at);
    result += shortened(message.substr(word, end - word));
    at = end;
  }
  return shortened(result, kMostTold);
}

}  // namespace xrt
