// SPDX-License-Identifier: Apache-2.0
#include "ir/flat.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "xrt/error.h"

namespace xrt {
namespace {

// A block is: the length of the fields (u64), the fields, zeros up to a multiple of 64, the data.
constexpr std::size_t kAlignment = 64;
// Bodies within bodies, sequences of sequences.
constexpr int kMaxDepth = 64;

constexpr std::string_view kZeros{
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    kAlignment};

std::size_t aligned(std::size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

[[noreturn]] void broken(const std::string& what) {
  throw Error(ErrorCode::kInvalidModel, "flat form of a graph: " + what);
}

// Zeros that cannot be written, and take no memory unless somebody reads them against the
// agreement.
std::shared_ptr<void> map_zeros(std::size_t bytes) {
  const std::size_t length = std::max<std::size_t>(bytes, 1);  // no mapping is empty
  void* const zeros =
      ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (zeros == MAP_FAILED) {
    throw Error(ErrorCode::kResource, "flat form of a graph: no address space for a tensor of " +
                                          std::to_string(bytes) + " bytes");
  }
  return {zeros, [length](void* p) { ::munmap(p, length); }};
}

// Where the elements of a tensor are.
enum class Where : std::uint8_t { kStrings, kHollow, kHere, kOther };

}  // namespace

std::optional<std::size_t> DataBlock::offset_of(const Tensor& tensor) const {
  const auto found = tensors.find(tensor.raw());
  if (found != tensors.end() && found->second.first == tensor.bytes()) return found->second.second;
  const auto* data = static_cast<const std::byte*>(tensor.raw());
  if (begin == nullptr || data < begin || data >= begin + bytes) return std::nullopt;
  const auto offset = static_cast<std::size_t>(data - begin);
  if (tensor.bytes() > bytes - offset) return std::nullopt;
  return offset;
}

// --- writing ------------------------------------------------------------------------------------

FlatWriter& FlatWriter::number(std::int64_t value) {
  // Seven bits a byte, the sign in the lowest bit: most numbers are small.
  auto n = (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
  for (; n >= 0x80; n >>= 7) fields_ += static_cast<char>((n & 0x7f) | 0x80);
  fields_ += static_cast<char>(n);
  return *this;
}

FlatWriter& FlatWriter::real(float value) {
  fields_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return *this;
}

FlatWriter& FlatWriter::text(std::string_view value) {
  number(static_cast<std::int64_t>(value.size()));
  fields_ += value;
  return *this;
}

std::size_t FlatWriter::place(const void* data, std::size_t bytes) {
  const auto [it, is_new] = placed_.try_emplace({data, bytes}, data_bytes_);
  if (is_new) {
    data_.emplace_back(data, bytes);
    data_bytes_ += aligned(bytes);
  }
  return it->second;
}

void FlatWriter::shape(const Tensor& value) {
  number(static_cast<std::int64_t>(value.dtype()));
  number(static_cast<std::int64_t>(value.rank()));
  for (const std::int64_t d : value.dims()) number(d);
}

FlatWriter& FlatWriter::tensor(const Tensor& value) {
  shape(value);
  if (!value.defined() || value.dtype() == DType::kString) {
    number(static_cast<std::int64_t>(Where::kStrings));
    for (std::int64_t i = 0; i < (value.defined() ? value.count() : 0); ++i) {
      text(value.strings()[i]);
    }
    return *this;
  }
  for (std::size_t i = 0; i < others_.size() && value.bytes() > 0; ++i) {
    if (const auto offset = others_[i].offset_of(value)) {
      number(static_cast<std::int64_t>(Where::kOther)).number(static_cast<std::int64_t>(i));
      return number(static_cast<std::int64_t>(*offset));
    }
  }
  number(static_cast<std::int64_t>(Where::kHere));
  number(static_cast<std::int64_t>(value.bytes() == 0 ? 0 : place(value.raw(), value.bytes())));
  kept_.push_back(value);
  return *this;
}

FlatWriter& FlatWriter::hollow_tensor(const Tensor& value) {
  shape(value);
  return number(static_cast<std::int64_t>(Where::kHollow));
}

FlatWriter& FlatWriter::bytes(std::string_view value) {
  number(static_cast<std::int64_t>(value.size()));
  return number(static_cast<std::int64_t>(value.empty() ? 0 : place(value.data(), value.size())));
}

FlatWriter& FlatWriter::type(const Type& value) {
  number(static_cast<std::int64_t>(value.kind)).number(static_cast<std::int64_t>(value.dtype));
  number(value.shape ? static_cast<std::int64_t>(value.shape->size()) : -1);
  if (value.shape) {
    for (const Dim& dim : *value.shape) {
      number(dim.value());
      if (!dim.is_known()) text(dim.symbol());
    }
  }
  number(value.element != nullptr ? 1 : 0);
  if (value.element != nullptr) type(*value.element);
  return *this;
}

void FlatWriter::attribute(const Attribute& value, const std::vector<std::int64_t>& numbers) {
  number(static_cast<std::int64_t>(value.index()));
  const auto one = [&](const auto& item) {
    using T = std::decay_t<decltype(item)>;
    if constexpr (std::is_same_v<T, std::int64_t>) {
      number(item);
    } else if constexpr (std::is_same_v<T, float>) {
      real(item);
    } else if constexpr (std::is_same_v<T, std::string>) {
      text(item);
    } else if constexpr (std::is_same_v<T, Tensor>) {
      tensor(item);
    } else if constexpr (std::is_same_v<T, Type>) {
      type(item);
    } else {
      graph_around(*item, &numbers, {});
    }
  };
  std::visit(
      [&](const auto& item) {
        using T = std::decay_t<decltype(item)>;
        if constexpr (std::is_same_v<T, std::string> || !requires { item.begin(); }) {
          one(item);
        } else {
          number(static_cast<std::int64_t>(item.size()));
          for (const auto& element : item) one(element);
        }
      },
      value);
}

FlatWriter& FlatWriter::graph(const Graph& value, const std::vector<bool>& is_hollow) {
  graph_around(value, nullptr, is_hollow);
  return *this;
}

void FlatWriter::graph_around(const Graph& value, const std::vector<std::int64_t>* outer,
                              const std::vector<bool>& is_hollow) {
  text(value.name());
  number(static_cast<std::int64_t>(value.opsets().size()));
  for (const auto& [domain, version] : value.opsets()) text(domain).number(version);
  number(static_cast<std::int64_t>(value.metadata().size()));
  for (const auto& [key, item] : value.metadata()) text(key).text(item);

  std::vector<std::int64_t> numbers(value.value_capacity(), -1);
  std::int64_t next = 0;
  const auto introduce = [&](ValueId id) {
    numbers[static_cast<std::size_t>(id.index)] = next++;
    text(value.value(id).name);
  };
  const auto refer = [&](ValueId id) {
    number(id.valid() ? numbers[static_cast<std::size_t>(id.index)] : -1);
  };
  number(static_cast<std::int64_t>(value.inputs().size()));
  for (const ValueId v : value.inputs()) {
    introduce(v);
    type(value.type(v));
  }
  number(static_cast<std::int64_t>(value.captures().size()));
  for (const Capture& c : value.captures()) {
    // A graph that stands alone keeps the ids that it was given.
    number(outer != nullptr ? (*outer)[static_cast<std::size_t>(c.outer.index)] : c.outer.index);
    introduce(c.inner);
    type(value.type(c.inner));
  }
  const std::vector<ValueId> constants = value.constants();
  number(static_cast<std::int64_t>(constants.size()));
  for (const ValueId v : constants) {
    introduce(v);
    const auto index = static_cast<std::size_t>(v.index);
    if (index < is_hollow.size() && is_hollow[index]) {
      hollow_tensor(value.value(v).constant);
    } else {
      tensor(value.value(v).constant);
    }
  }
  number(static_cast<std::int64_t>(value.input_defaults().size()));
  for (const auto& [id, item] : value.input_defaults()) {
    refer(id);
    tensor(item);
  }
  number(static_cast<std::int64_t>(value.node_count()));
  for (const NodeId id : value.topological_order()) {
    const Node& node = value.node(id);
    text(node.name).text(node.domain).text(node.op);
    number(static_cast<std::int64_t>(node.inputs.size()));
    for (const ValueId v : node.inputs) refer(v);
    number(static_cast<std::int64_t>(node.attributes.size()));
    for (const auto& [name, item] : node.attributes) {
      text(name);
      attribute(item, numbers);
    }
    number(static_cast<std::int64_t>(node.outputs.size()));
    for (const ValueId v : node.outputs) {
      if (!v.valid()) {
        text({});
        continue;
      }
      introduce(v);
      type(value.type(v));
    }
  }
  number(static_cast<std::int64_t>(value.outputs().size()));
  for (const ValueId v : value.outputs()) refer(v);
}

FlatWriter::Pieces FlatWriter::finish() {
  const std::uint64_t n = fields_.size();
  head_.assign(reinterpret_cast<const char*>(&n), sizeof(n));
  head_ += fields_;
  data_begin_ = aligned(head_.size());
  head_.resize(data_begin_, '\0');
  Pieces pieces{head_};
  for (const auto& [data, bytes] : data_) {
    pieces.emplace_back(static_cast<const char*>(data), bytes);
    pieces.push_back(kZeros.substr(0, aligned(bytes) - bytes));
  }
  return pieces;
}

DataBlock FlatWriter::data_block() const {
  DataBlock block;
  for (const auto& [key, offset] : placed_) {
    block.tensors[key.first] = {key.second, data_begin_ + offset};
  }
  return block;
}

// --- reading ------------------------------------------------------------------------------------

FlatReader::FlatReader(Tensor block, std::vector<Tensor> others)
    : block_(std::move(block)), others_(std::move(others)) {
  std::uint64_t n = 0;
  if (block_.bytes() < sizeof(n)) broken("it is too short");
  std::memcpy(&n, block_.raw(), sizeof(n));
  if (n > block_.bytes() - sizeof(n)) broken("its fields are longer than it is");
  fields_ = {static_cast<const char*>(std::as_const(block_).raw()) + sizeof(n),
             static_cast<std::size_t>(n)};
  data_begin_ = aligned(sizeof(n) + static_cast<std::size_t>(n));
}

std::string_view FlatReader::take(std::size_t bytes) {
  if (bytes > fields_.size()) broken("it ends too early");
  const std::string_view taken = fields_.substr(0, bytes);
  fields_.remove_prefix(bytes);
  return taken;
}

std::int64_t FlatReader::number() {
  std::uint64_t n = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    n |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      return static_cast<std::int64_t>(n >> 1) ^ -static_cast<std::int64_t>(n & 1);
    }
  }
  broken("a number has too many bytes");
}

std::size_t FlatReader::count() {
  const std::int64_t n = number();
  if (n < 0 || static_cast<std::uint64_t>(n) > fields_.size()) broken("a count is out of range");
  return static_cast<std::size_t>(n);
}

float FlatReader::real() {
  float value = 0;
  std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
  return value;
}

std::string FlatReader::text() { return std::string(take(count())); }

DType FlatReader::dtype() {
  const std::int64_t n = number();
  if (n < 0 || n >= kDTypeCount) broken("there is no dtype " + std::to_string(n));
  return static_cast<DType>(n);
}

Dims FlatReader::dims() {
  return list<std::int64_t>([&] { return number(); });
}

Tensor FlatReader::data(DType dtype, Dims dims, std::size_t bytes) {
  const std::int64_t offset = number();
  const std::size_t space = block_.bytes() > data_begin_ ? block_.bytes() - data_begin_ : 0;
  if (offset < 0 || static_cast<std::uint64_t>(offset) > space ||
      bytes > space - static_cast<std::size_t>(offset) ||
      static_cast<std::size_t>(offset) % kAlignment != 0) {
    broken("a tensor lies outside of it");
  }
  return Tensor::wrap(dtype, std::move(dims),
                      block_.data<std::byte>() + data_begin_ + static_cast<std::size_t>(offset),
                      block_.owner());
}

Tensor FlatReader::tensor() {
  const DType dtype = this->dtype();
  Dims dims = this->dims();
  const std::int64_t where = number();
  if (dtype == DType::kUndefined) return {};
  const auto elements = static_cast<std::uint64_t>(element_count(dims));
  const std::size_t bytes = byte_count(dtype, dims);
  if ((dtype == DType::kString) != (where == static_cast<std::int64_t>(Where::kStrings))) {
    broken("strings are written as numbers, or numbers as strings");
  }
  switch (where) {
    case static_cast<std::int64_t>(Where::kStrings): {
      if (elements > fields_.size()) broken("a count is out of range");
      std::vector<std::string> strings;
      for (std::uint64_t i = 0; i < elements; ++i) strings.push_back(text());
      return Tensor::from_strings(std::move(dims), std::move(strings));
    }
    case static_cast<std::int64_t>(Where::kHollow): {
      std::shared_ptr<void> zeros = map_zeros(bytes);
      void* const data = zeros.get();
      return Tensor::wrap(dtype, std::move(dims), data, std::move(zeros));
    }
    case static_cast<std::int64_t>(Where::kHere):
      return data(dtype, std::move(dims), bytes);
    case static_cast<std::int64_t>(Where::kOther): {
      const std::int64_t which = number();
      const std::int64_t offset = number();
      if (which < 0 || static_cast<std::size_t>(which) >= others_.size()) {
        broken("a tensor lies in a block that is not there");
      }
      Tensor& other = others_[static_cast<std::size_t>(which)];
      if (offset < 0 || static_cast<std::uint64_t>(offset) > other.bytes() ||
          bytes > other.bytes() - static_cast<std::size_t>(offset)) {
        broken("a tensor lies outside of its block");
      }
      return Tensor::wrap(dtype, std::move(dims), other.data<std::byte>() + offset, other.owner());
    }
    default:
      broken("a tensor lies nowhere");
  }
}

Tensor FlatReader::bytes() {
  const std::int64_t n = number();
  if (n < 0) broken("a count is out of range");
  return data(DType::kUInt8, {n}, static_cast<std::size_t>(n));
}

Type FlatReader::type() { return type_at(0); }

Type FlatReader::type_at(int depth) {
  if (depth > kMaxDepth) broken("a type is nested too deeply");
  Type type;
  const std::int64_t kind = number();
  if (kind < 0 || kind > static_cast<std::int64_t>(Type::Kind::kSparseTensor)) {
    broken("there is no kind of type " + std::to_string(kind));
  }
  type.kind = static_cast<Type::Kind>(kind);
  type.dtype = dtype();
  const std::int64_t rank = number();
  if (rank < -1 || rank > static_cast<std::int64_t>(fields_.size())) broken("a rank is too large");
  if (rank >= 0) {
    type.shape.emplace();
    for (std::int64_t d = 0; d < rank; ++d) {
      const std::int64_t size = number();
      type.shape->push_back(size >= 0 ? Dim(size) : Dim(text()));
    }
  }
  if (number() != 0) type.element = std::make_shared<const Type>(type_at(depth + 1));
  return type;
}

Attribute FlatReader::attribute(const std::vector<ValueId>& outer, int depth) {
  const auto graph = [&] { return std::make_shared<Graph>(graph_at(&outer, depth + 1)); };
  switch (number()) {
    case 0:
      return number();
    case 1:
      return real();
    case 2:
      return text();
    case 3:
      return tensor();
    case 4:
      return graph();
    case 5:
      return type();
    case 6:
      return list<std::int64_t>([&] { return number(); });
    case 7:
      return list<float>([&] { return real(); });
    case 8:
      return list<std::string>([&] { return text(); });
    case 9:
      return list<Tensor>([&] { return tensor(); });
    case 10:
      return list<std::shared_ptr<Graph>>(graph);
    case 11:
      return list<Type>([&] { return type(); });
    default:
      broken("there is no such attribute type");
  }
}

Graph FlatReader::graph() { return graph_at(nullptr, 0); }

Graph FlatReader::graph_at(const std::vector<ValueId>* outer, int depth) {
  if (depth > kMaxDepth) broken("graphs are nested too deeply");
  Graph graph(text());
  graph.opsets().clear();
  for (std::size_t n = count(); n-- > 0;) {
    std::string domain = text();
    graph.opsets()[std::move(domain)] = number();
  }
  for (std::size_t n = count(); n-- > 0;) {
    std::string key = text();
    graph.metadata()[std::move(key)] = text();
  }
  std::vector<ValueId> values;
  const auto value_at = [](const std::vector<ValueId>& known, std::int64_t n) {
    if (n == -1) return ValueId{};
    if (n < 0 || static_cast<std::size_t>(n) >= known.size()) broken("a value is not there");
    return known[static_cast<std::size_t>(n)];
  };
  const auto required = [&](std::int64_t n) {
    const ValueId id = value_at(values, n);
    if (!id.valid()) broken("a value is left out");
    return id;
  };
  for (std::size_t n = count(); n-- > 0;) {
    const std::string name = text();
    values.push_back(graph.add_input(name, type()));
  }
  for (std::size_t n = count(); n-- > 0;) {
    const std::int64_t from = number();
    if (outer == nullptr && (from < 0 || from > INT32_MAX)) broken("a value is not there");
    const ValueId id =
        outer != nullptr ? value_at(*outer, from) : ValueId{static_cast<std::int32_t>(from)};
    if (!id.valid()) broken("a captured value is left out");
    const std::string name = text();
    values.push_back(graph.add_capture(id, name, type()));
  }
  for (std::size_t n = count(); n-- > 0;) {
    const std::string name = text();
    values.push_back(graph.add_constant(name, tensor()));
  }
  for (std::size_t n = count(); n-- > 0;) {
    const ValueId id = required(number());
    graph.input_defaults()[id] = tensor();
  }
  for (std::size_t n = count(); n-- > 0;) {
    const std::string name = text();
    const std::string domain = text();
    const std::string op = text();
    std::vector<ValueId> inputs = list<ValueId>([&] { return value_at(values, number()); });
    Attributes attributes;
    for (std::size_t a = count(); a-- > 0;) {
      std::string key = text();
      attributes[std::move(key)] = attribute(values, depth);
    }
    std::vector<std::string> names;
    std::vector<Type> types;
    for (std::size_t o = count(); o-- > 0;) {
      names.push_back(text());
      types.push_back(names.back().empty() ? Type{} : type());
    }
    const NodeId id = graph.add_node(domain, op, std::move(inputs), names, std::move(attributes),
                                     name, /*omit_empty=*/true);
    for (std::size_t o = 0; o < names.size(); ++o) {
      const ValueId v = graph.node(id).outputs[o];
      if (!v.valid()) continue;
      graph.set_type(v, std::move(types[o]));
      values.push_back(v);
    }
  }
  for (std::size_t n = count(); n-- > 0;) graph.add_output(required(number()));
  return graph;
}

void FlatReader::end() const {
  if (!fields_.empty()) broken("there is more than expected");
}

}  // namespace xrt
