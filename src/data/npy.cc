// SPDX-License-Identifier: Apache-2.0
// The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include "data/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "xrt/error.h"

namespace xrt {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";

[[noreturn]] void fail(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", origin, what));
}

// --- the header, a Python dictionary literal ----------------------------------------------------

struct Header {
  std::string descr;
  bool fortran_order = false;
  Dims shape;
};

std::string_view value_of(std::string_view header, std::string_view key,
                          const std::string& origin) {
  const std::string quoted = fmt::format("'{}'", key);
  std::size_t at = header.find(quoted);
  if (at != std::string_view::npos) at = header.find(':', at + quoted.size());
  if (at == std::string_view::npos) fail(origin, fmt::format("the .npy header lacks {}", quoted));
  header.remove_prefix(at + 1);
  while (!header.empty() && header.front() == ' ') header.remove_prefix(1);
  return header;
}

Header parse_header(std::string_view text, const std::string& origin) {
  Header header;
  std::string_view descr = value_of(text, "descr", origin);
  if (descr.empty() || descr.front() != '\'') {
    fail(origin, "structured arrays are not tensors");
  }
  descr.remove_prefix(1);
  header.descr = descr.substr(0, descr.find('\''));
  header.fortran_order = value_of(text, "fortran_order", origin).starts_with("True");
  std::string_view shape = value_of(text, "shape", origin);
  const std::size_t end = shape.find(')');
  if (shape.empty() || shape.front() != '(' || end == std::string_view::npos) {
    fail(origin, "the .npy header has no shape");
  }
  const char* at = shape.data() + 1;
  const char* last = shape.data() + end;
  while (at < last) {
    if (*at == ' ' || *at == ',' || *at == 'L') {
      ++at;
      continue;
    }
    std::int64_t size = 0;
    const auto [next, error] = std::from_chars(at, last, size);
    if (error != std::errc() || size < 0) fail(origin, "the .npy header has a damaged shape");
    header.shape.push_back(size);
    at = next;
  }
  return header;
}

struct ElementType {
  DType dtype = DType::kUndefined;
  std::size_t size = 0;  // bytes in the file
  char text = 0;         // 'U' or 'S'
  bool swapped = false;
};

DType number_dtype(char kind, std::size_t size) {
  struct Row {
    char kind;
    std::size_t size;
    DType dtype;
  };
  constexpr std::array<Row, 14> kRows = {{{'b', 1, DType::kBool},
                                          {'i', 1, DType::kInt8},
                                          {'i', 2, DType::kInt16},
                                          {'i', 4, DType::kInt32},
                                          {'i', 8, DType::kInt64},
                                          {'u', 1, DType::kUInt8},
                                          {'u', 2, DType::kUInt16},
                                          {'u', 4, DType::kUInt32},
                                          {'u', 8, DType::kUInt64},
                                          {'f', 2, DType::kFloat16},
                                          {'f', 4, DType::kFloat32},
                                          {'f', 8, DType::kFloat64},
                                          {'c', 8, DType::kComplex64},
                                          {'c', 16, DType::kComplex128}}};
  for (const Row& row : kRows) {
    if (row.kind == kind && row.size == size) return row.dtype;
  }
  return DType::kUndefined;
}

ElementType parse_descr(const std::string& descr, const std::string& origin, DType wanted) {
  std::string_view text = descr;
  ElementType type;
  if (!text.empty() && std::string_view("<>|=").find(text.front()) != std::string_view::npos) {
    type.swapped = text.front() == '>';
    text.remove_prefix(1);
  }
  if (text.empty()) fail(origin, "the .npy header has no element type");
  const char kind = text.front();
  text.remove_prefix(1);
  constexpr std::size_t kMaxSize = 1U << 30U;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, type.size);
  if (kind != 'O' &&
      (error != std::errc() || at != end || type.size == 0 || type.size > kMaxSize)) {
    fail(origin, fmt::format("the element type '{}' is damaged", descr));
  }
  if (kind == 'O') fail(origin, "object arrays are pickles, which are never read");
  if (kind == 'U' || kind == 'S') {
    type.dtype = DType::kString;
    type.text = kind;
    if (kind == 'U') type.size *= 4;
    return type;
  }
  type.dtype = number_dtype(kind, type.size);
  // ml_dtypes stores most of its types as void ("V2") and float8_e5m2 as "f1".
  const auto width = static_cast<std::size_t>((bit_width(wanted) + 7) / 8);
  if (type.dtype == DType::kUndefined && (kind == 'V' || kind == 'f') && width == type.size) {
    type.dtype = wanted;
  }
  if (type.dtype == DType::kUndefined && kind == 'V') {
    fail(origin, fmt::format("elements of type '{}' do not say what they are", descr));
  }
  if (type.dtype == DType::kUndefined) {
    fail(origin, fmt::format("no tensor has elements of NumPy type '{}'", descr));
  }
  return type;
}

// --- elements -----------------------------------------------------------------------------------

void append_utf8(std::string& text, std::uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0U | (code >> 6U));
    text += static_cast<char>(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0U | (code >> 12U));
    text += static_cast<char>(0x80U | ((code >> 6U) & 0x3FU));
    text += static_cast<char>(0x80U | (code & 0x3FU));
  } else {
    text += static_cast<char>(0xF0U | (code >> 18U));
    text += static_cast<char>(0x80U | ((code >> 12U) & 0x3FU));
    text += static_cast<char>(0x80U | ((code >> 6U) & 0x3FU));
    text += static_cast<char>(0x80U | (code & 0x3FU));
  }
}

std::uint32_t swap32(std::uint32_t value) { return __builtin_bswap32(value); }

std::string read_text(const char* element, const ElementType& type) {
  std::string text;
  if (type.text == 'S') {
    text.assign(element, type.size);
    text.erase(text.find_last_not_of('\0') + 1);
    return text;
  }
  for (std::size_t i = 0; i < type.size / 4; ++i) {
    std::uint32_t code = 0;
    std::memcpy(&code, element + 4 * i, 4);
    if (type.swapped) code = swap32(code);
    if (code == 0) break;
    append_utf8(text, code);
  }
  return text;
}

// Decodes one code point; malformed bytes come out as U+FFFD.
std::uint32_t next_code(const std::string& text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC0 ? 1 : 0;
  if (more == 0) return 0xFFFD;
  std::uint32_t code = first & (0x3FU >> static_cast<unsigned>(more));
  for (int i = 0; i < more; ++i) {
    if (at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U) return 0xFFFD;
    code = (code << 6U) | (static_cast<unsigned char>(text[at++]) & 0x3FU);
  }
  return code;
}

void swap_bytes(char* data, std::size_t bytes, std::size_t unit) {
  for (std::size_t i = 0; i + unit <= bytes; i += unit) std::reverse(data + i, data + i + unit);
}

Tensor pack_elements(DType dtype, const Dims& dims, const char* from) {
  Tensor packed = Tensor::allocate(dtype, dims);
  auto* to = packed.data<std::uint8_t>();
  std::memset(to, 0, packed.bytes());
  const int bits = bit_width(dtype);
  const int per_byte = 8 / bits;
  const unsigned mask = (1U << static_cast<unsigned>(bits)) - 1U;
  for (std::int64_t i = 0; i < packed.count(); ++i) {
    const auto shift = static_cast<unsigned>((i % per_byte) * bits);
    to[i / per_byte] |=
        static_cast<std::uint8_t>((static_cast<unsigned char>(from[i]) & mask) << shift);
  }
  return packed;
}

// Fortran order to C order: the element at file position p has its first index varying fastest.
std::vector<char> to_c_order(const char* from, const Dims& dims, std::size_t unit,
                             std::int64_t count) {
  std::vector<char> to(static_cast<std::size_t>(count) * unit);
  std::vector<std::int64_t> index(dims.size());
  for (std::int64_t p = 0; p < count; ++p) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) at = at * dims[i] + index[i];
    std::memcpy(to.data() + static_cast<std::size_t>(at) * unit,
                from + static_cast<std::size_t>(p) * unit, unit);
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
  return to;
}

std::string descr_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return fmt::format("<f{}", bit_width(dtype) / 8);
    case DType::kComplex64:
    case DType::kComplex128:
      return fmt::format("<c{}", bit_width(dtype) / 8);
    default:
      break;
  }
  const char sign = is_signed_integer(dtype) ? 'i' : 'u';
  if (is_integer(dtype)) {
    if (bit_width(dtype) <= 8) return fmt::format("|{}1", sign);
    return fmt::format("<{}{}", sign, bit_width(dtype) / 8);
  }
  return fmt::format("{}V{}", bit_width(dtype) > 8 ? '<' : '|', (bit_width(dtype) + 7) / 8);
}

std::string string_elements(const Tensor& tensor, std::string& descr) {
  std::vector<std::vector<std::uint32_t>> codes(static_cast<std::size_t>(tensor.count()));
  std::size_t longest = 1;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::string& text = tensor.strings()[i];
    for (std::size_t at = 0; at < text.size();) codes[i].push_back(next_code(text, at));
    longest = std::max(longest, codes[i].size());
  }
  descr = fmt::format("<U{}", longest);
  std::vector<std::uint32_t> padded(codes.size() * longest, 0);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    std::copy(codes[i].begin(), codes[i].end(),
              padded.begin() + static_cast<std::ptrdiff_t>(i * longest));
  }
  return {reinterpret_cast<const char*>(padded.data()), padded.size() * sizeof(std::uint32_t)};
}

// One element per byte, sign-extended where the type is signed.
std::string unpacked_elements(const Tensor& tensor) {
  const int bits = bit_width(tensor.dtype());
  const int per_byte = 8 / bits;
  const unsigned mask = (1U << static_cast<unsigned>(bits)) - 1U;
  const unsigned sign =
      is_signed_integer(tensor.dtype()) ? 1U << static_cast<unsigned>(bits - 1) : 0;
  std::string elements(static_cast<std::size_t>(tensor.count()), '\0');
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const auto shift = static_cast<unsigned>((i % per_byte) * bits);
    const unsigned value = (tensor.data<std::uint8_t>()[i / per_byte] >> shift) & mask;
    elements[static_cast<std::size_t>(i)] = static_cast<char>((value ^ sign) - sign);
  }
  return elements;
}

}  // namespace

Tensor parse_npy(std::string_view content, const std::string& origin, DType wanted) {
  if (!content.starts_with(kMagic) || content.size() < 10) fail(origin, "it is no .npy file");
  const auto version = static_cast<unsigned char>(content[6]);
  std::size_t header_size = 0;
  std::size_t start = 0;
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(content[i]));
  };
  if (version == 1) {
    header_size = byte(8) | byte(9) << 8U;
    start = 10;
  } else if ((version == 2 || version == 3) && content.size() >= 12) {
    header_size = byte(8) | byte(9) << 8U | byte(10) << 16U | byte(11) << 24U;
    start = 12;
  } else {
    fail(origin, fmt::format(".npy version {} is not known (1 to 3 are)", version));
  }
  if (content.size() - start < header_size) fail(origin, "the .npy header is cut off");
  const Header header = parse_header(content.substr(start, header_size), origin);
  const ElementType type = parse_descr(header.descr, origin, wanted);
  content.remove_prefix(start + header_size);

  const std::int64_t count = element_count(header.shape);
  if (static_cast<std::size_t>(count) > content.size() / type.size) {
    fail(origin, fmt::format("{} elements of {} bytes are declared, {} bytes are there", count,
                             type.size, content.size()));
  }
  std::vector<char> reordered;
  const char* elements = content.data();
  if (header.fortran_order && header.shape.size() > 1 && count > 0) {
    reordered = to_c_order(elements, header.shape, type.size, count);
    elements = reordered.data();
  }
  if (type.text != 0) {
    std::vector<std::string> texts;
    texts.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      texts.push_back(read_text(elements + static_cast<std::size_t>(i) * type.size, type));
    }
    return Tensor::from_strings(header.shape, std::move(texts));
  }
  if (is_packed(type.dtype)) return pack_elements(type.dtype, header.shape, elements);
  Tensor tensor = Tensor::allocate(type.dtype, header.shape);
  if (tensor.bytes() > 0) std::memcpy(tensor.raw(), elements, tensor.bytes());
  if (type.swapped) {
    const bool complex = type.dtype == DType::kComplex64 || type.dtype == DType::kComplex128;
    swap_bytes(tensor.data<char>(), tensor.bytes(), complex ? type.size / 2 : type.size);
  }
  return tensor;
}

std::string format_npy(const Tensor& tensor) {
  std::string descr;
  std::string elements;
  if (tensor.dtype() == DType::kString) {
    elements = string_elements(tensor, descr);
  } else {
    descr = descr_of(tensor.dtype());
    if (is_packed(tensor.dtype())) {
      elements = unpacked_elements(tensor);
    } else {
      elements.assign(tensor.data<char>(), tensor.bytes());
    }
  }
  std::string shape;
  for (const std::int64_t size : tensor.dims()) shape += fmt::format("{}, ", size);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  // Magic, version and length take 10 bytes; the data begins at a multiple of 64.
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string file(kMagic);
  file += '\x01';
  file += '\x00';
  file += static_cast<char>(header.size() & 0xFFU);
  file += static_cast<char>(header.size() >> 8U);
  return file + header + elements;
}

}  // namespace xrt
