// SPDX-License-Identifier: Apache-2.0
#include "ir/text.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace xrt::text {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void add_hex(std::string* out, std::uint8_t byte) {
  *out += kHexDigits[byte >> 4];
  *out += kHexDigits[byte & 15];
}

}  // namespace

bool is_word(std::string_view s) {
  if (s.empty() || s == "_" || !is_letter(s[0])) return false;
  // "::" separates a domain from an op.
  if (s.find("::") != std::string_view::npos || s.back() == ':') return false;
  return std::all_of(s.begin(), s.end(), [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '/' || c == ':' || c == '-';
  });
}

std::string word(std::string_view s) { return is_word(s) ? std::string(s) : quote(s); }

std::string quote(std::string_view s) {
  std::string out = "\"";
  for (const char c : s) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      add_hex(&out, byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) add_hex(&out, static_cast<std::uint8_t>(c));
  return out;
}

std::optional<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = hex_value(text[i]);
    const int low = hex_value(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (k < count ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= count ? kBase64Digits[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::array<int, 256> values;
  values.fill(-1);
  for (std::size_t i = 0; i < kBase64Digits.size(); ++i) {
    values[static_cast<std::uint8_t>(kBase64Digits[i])] = static_cast<int>(i);
  }
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool pad = i + padding >= text.size();
    const int value = pad ? 0 : values[static_cast<std::uint8_t>(text[i])];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if (i % 4 != 3) continue;
    out += static_cast<char>(bits >> 16 & 255);
    out += static_cast<char>(bits >> 8 & 255);
    out += static_cast<char>(bits & 255);
    bits = 0;
  }
  out.resize(out.size() - (text.empty() ? 0 : padding));
  return out;
}

}  // namespace xrt::text
