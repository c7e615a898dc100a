// SPDX-License-Identifier: Apache-2.0
#include "cli/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>

#include "base/file.h"
#include "base/half.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/text.h"
#include "data/npy.h"
#include "xrt/error.h"

namespace xrt::cli {
namespace {

constexpr const char* kInputHelp =
    "value of an input, NAME=SOURCE, or a .npz with one array per input (repeatable); SOURCE alone "
    "where there is one input. SOURCE is a .npy, .png or .jpg file, a number, nan, inf or JSON "
    "list, zeros, ones, random, or random:LOW:HIGH. What is not given is random";

using DimSizes = std::map<std::string, std::int64_t>;

std::pair<std::string, std::string> split(const std::string& text, const char* what) {
  // Names may hold '=' themselves hardly ever, files now and then: the first one separates.
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0) {
    throw UsageError(fmt::format("{} '{}': write {}", what, text,
                                 std::string(what) == "--dim" ? "SYMBOL=SIZE" : "NAME=SOURCE"));
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

DimSizes parse_dims(const std::vector<std::string>& texts) {
  DimSizes sizes;
  for (const std::string& text : texts) {
    const auto [symbol, size_text] = split(text, "--dim");
    std::int64_t size = -1;
    const char* end = size_text.data() + size_text.size();
    const auto [at, error] = std::from_chars(size_text.data(), end, size);
    if (error != std::errc() || at != end || size < 0) {
      throw UsageError(fmt::format("--dim '{}': '{}' is no size", text, size_text));
    }
    sizes[symbol] = size;
  }
  return sizes;
}

bool has_suffix(std::string text, const char* suffix) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text.ends_with(suffix);
}

// --- element values -----------------------------------------------------------------------------

template <typename T>
void store(Tensor& tensor, std::int64_t i, T value) {
  tensor.data<T>()[i] = value;
}

// `value` as an integer type; an error where that loses something.
template <typename T>
T whole(double value, DType dtype, const std::string& name) {
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);  // one above the largest
  if (!(value < end && value >= static_cast<double>(std::numeric_limits<T>::min())) ||
      value != std::floor(value)) {
    throw UsageError(fmt::format("input '{}': {} is no {}", name, value, to_string(dtype)));
  }
  return static_cast<T>(value);
}

void set_element(Tensor& tensor, std::int64_t i, double value, const std::string& name) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return store(tensor, i, static_cast<float>(value));
    case DType::kFloat64:
      return store(tensor, i, value);
    case DType::kFloat16:
      return store(tensor, i, float_to_half(narrow_to_odd(value)));
    case DType::kBFloat16:
      return store(tensor, i, float_to_bfloat16(narrow_to_odd(value)));
    case DType::kBool:
      return store(tensor, i, value != 0.0);
    case DType::kInt8:
      return store(tensor, i, whole<std::int8_t>(value, tensor.dtype(), name));
    case DType::kUInt8:
      return store(tensor, i, whole<std::uint8_t>(value, tensor.dtype(), name));
    case DType::kInt16:
      return store(tensor, i, whole<std::int16_t>(value, tensor.dtype(), name));
    case DType::kUInt16:
      return store(tensor, i, whole<std::uint16_t>(value, tensor.dtype(), name));
    case DType::kInt32:
      return store(tensor, i, whole<std::int32_t>(value, tensor.dtype(), name));
    case DType::kUInt32:
      return store(tensor, i, whole<std::uint32_t>(value, tensor.dtype(), name));
    case DType::kInt64:
      return store(tensor, i, whole<std::int64_t>(value, tensor.dtype(), name));
    case DType::kUInt64:
      return store(tensor, i, whole<std::uint64_t>(value, tensor.dtype(), name));
    case DType::kString:
      tensor.strings()[i] = fmt::format("{}", value);
      return;
    default:
      throw UsageError(fmt::format("input '{}' has elements of type {}: pass a .npy file", name,
                                   to_string(tensor.dtype())));
  }
}

struct Range {
  double low, high;
};

Tensor random_tensor(DType dtype, const Dims& dims, const Range& range, std::mt19937_64& generator,
                     const std::string& name) {
  Tensor tensor = Tensor::allocate(dtype, dims);
  // The standard's distributions differ between libraries; this one gives the same everywhere.
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const double unit = static_cast<double>(generator() >> 11U) * 0x1.0p-53;
    double value = range.low + (range.high - range.low) * unit;
    if (!is_floating(dtype)) value = std::floor(value);
    set_element(tensor, i, value, name);
  }
  return tensor;
}

Range default_range(DType dtype) {
  if (is_floating(dtype)) return {-1.0, 1.0};
  if (dtype == DType::kUInt8) return {0, 256};
  return {0, 2};  // small indices and masks are valid in most models
}

// --- shapes -------------------------------------------------------------------------------------

std::string symbol_of(const Port& port, std::size_t axis) {
  const Dim& dim = (*port.type.shape)[axis];
  return dim.is_symbol() ? dim.symbol() : fmt::format("{}.{}", port.name, axis);
}

void check_symbols(const std::vector<Port>& ports, const DimSizes& sizes) {
  std::vector<std::string> known;
  for (const Port& port : ports) {
    if (!port.type.has_rank()) continue;
    for (std::size_t i = 0; i < port.type.shape->size(); ++i) {
      if (!(*port.type.shape)[i].is_known()) known.push_back(symbol_of(port, i));
    }
  }
  for (const auto& [symbol, size] : sizes) {
    if (std::find(known.begin(), known.end(), symbol) != known.end()) continue;
    throw UsageError(fmt::format("--dim {}={}: no input has a dimension '{}'{}", symbol, size,
                                 symbol,
                                 known.empty() ? "; all are fixed" : suggestion(symbol, known)));
  }
}

// Throws std::out_of_range for an open size that `sizes` lacks: open_sizes() has seen to them.
Dims concrete_dims(const Port& port, const DimSizes& sizes) {
  if (!port.type.has_rank()) {
    throw UsageError(fmt::format("input '{}' is {}: its rank is not known, pass a .npy file",
                                 port.name, to_string(port.type)));
  }
  Dims dims;
  for (std::size_t i = 0; i < port.type.shape->size(); ++i) {
    const Dim& dim = (*port.type.shape)[i];
    dims.push_back(dim.is_known() ? dim.value() : sizes.at(symbol_of(port, i)));
  }
  return dims;
}

// The open sizes that a value given for the input has.
void bind_sizes(const Port& port, const Tensor& value, DimSizes& sizes) {
  if (!port.type.has_rank() || port.type.rank() != value.dims().size()) return;
  for (std::size_t i = 0; i < value.dims().size(); ++i) {
    if (!(*port.type.shape)[i].is_known()) sizes.emplace(symbol_of(port, i), value.dims()[i]);
  }
}

// A size to try where pictures have their height and width, or sequences their length.
std::int64_t example_size(const Port& port, std::size_t axis) {
  if (axis == 0) return 1;
  return port.type.rank() >= 4 ? 224 : 16;
}

// Sees that every open size of `ports`, whose values are to be made, is in `sizes`. One that only
// ever comes first, a batch as a rule, is 1, and `notes` says so. Throws MissingFlags for others.
void open_sizes(const std::vector<const Port*>& ports, DimSizes& sizes,
                std::vector<std::string>& notes) {
  std::vector<std::string> missing;
  std::string flags, where;
  for (const bool first : {false, true}) {
    for (const Port* port : ports) {
      if (!port->type.has_rank()) continue;
      for (std::size_t i = 0; i < port->type.rank(); ++i) {
        const std::string symbol = symbol_of(*port, i);
        if ((*port->type.shape)[i].is_known() || first != (i == 0) || sizes.contains(symbol) ||
            std::find(missing.begin(), missing.end(), symbol) != missing.end()) {
          continue;
        }
        if (first) {
          sizes[symbol] = 1;
          notes.push_back(
              fmt::format("dimension {} is taken as 1; set it with --dim {}=SIZE", symbol, symbol));
          continue;
        }
        missing.push_back(symbol);
        where +=
            fmt::format("\n  input '{}' is {}: dimension {} is open, set it with --dim {}=SIZE",
                        port->name, to_string(port->type), i, symbol);
        flags +=
            fmt::format(" --dim {}", quoted(fmt::format("{}={}", symbol, example_size(*port, i))));
      }
    }
  }
  if (missing.empty()) return;
  throw MissingFlags("sizes are open that neither --dim nor a given input says:" + where, flags);
}

// The declared type with --dim filled in, for images.
Type filled_type(const Port& port, const DimSizes& sizes) {
  Type type = port.type;
  if (!type.has_rank()) return type;
  for (std::size_t i = 0; i < type.shape->size(); ++i) {
    Dim& dim = (*type.shape)[i];
    const std::string symbol = dim.is_symbol() ? dim.symbol() : fmt::format("{}.{}", port.name, i);
    const auto size = sizes.find(symbol);
    if (!dim.is_known() && size != sizes.end()) dim = Dim(size->second);
  }
  return type;
}

// --- literals -----------------------------------------------------------------------------------

void flatten(const nlohmann::json& json, std::size_t depth, Dims& dims,
             std::vector<nlohmann::json>& values, const std::string& text) {
  constexpr std::size_t kMostDims = 64;  // a call of this function each
  if (!json.is_array()) {
    if (depth != dims.size()) throw UsageError(fmt::format("{}: the list is ragged", text));
    values.push_back(json);
    return;
  }
  if (depth == kMostDims) {
    throw UsageError(fmt::format("a list in lists: {} dimensions are too many", kMostDims + 1));
  }
  const auto size = static_cast<std::int64_t>(json.size());
  if (depth == dims.size() && values.empty()) {
    dims.push_back(size);
  } else if (depth >= dims.size() || dims[depth] != size) {
    throw UsageError(fmt::format("{}: the list is ragged", text));
  }
  for (const nlohmann::json& item : json) flatten(item, depth + 1, dims, values, text);
}

void set_from_json(Tensor& tensor, std::int64_t i, const nlohmann::json& value, const Port& port,
                   const std::string& source) {
  if (value.is_string() && tensor.dtype() == DType::kString) {
    tensor.strings()[i] = value.get<std::string>();
  } else if (value.is_number_integer() && tensor.dtype() == DType::kInt64) {
    tensor.data<std::int64_t>()[i] = value.get<std::int64_t>();  // all 64 bits
  } else if (value.is_number() || value.is_boolean()) {
    set_element(tensor, i, value.is_boolean() ? (value.get<bool>() ? 1 : 0) : value.get<double>(),
                port.name);
  } else {
    throw UsageError(fmt::format("--input {}={}: {} is no value of type {}", port.name, source,
                                 value.dump(), to_string(port.type)));
  }
}

// The JSON that a source is; discarded where it is none.
nlohmann::json json_of(const std::string& source) {
  return nlohmann::json::parse(source, nullptr, /*allow_exceptions=*/false);
}

Tensor list_tensor(const Port& port, const std::string& source, const nlohmann::json& json) {
  Dims dims;
  std::vector<nlohmann::json> values;
  flatten(json, 0, dims, values, source);
  Tensor tensor = Tensor::allocate(port.type.dtype, dims);
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    set_from_json(tensor, i, values[static_cast<std::size_t>(i)], port, source);
  }
  return tensor;
}

Range parse_range(const std::string& source) {
  double low = 0;
  double high = 0;
  char rest = 0;
  if (std::sscanf(source.c_str(), "random:%lf:%lf%c", &low, &high, &rest) != 2 || !(low <= high) ||
      !std::isfinite(high - low)) {
    throw UsageError(fmt::format("'{}': write random:LOW:HIGH", source));
  }
  return {low, high};
}

bool is_random(const std::string& source) {
  return source == "random" || source.starts_with("random:");
}

// The tensor of a source that has a shape of its own: a file, a picture, a list.
std::optional<Tensor> shaped_source(const Port& port, const std::string& source,
                                    const InputOptions& options, const DimSizes& sizes) {
  if (has_suffix(source, ".npy")) return parse_npy(read_file(source), source, port.type.dtype);
  constexpr const char* kPictures[] = {".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm"};
  if (std::any_of(std::begin(kPictures), std::end(kPictures),
                  [&](const char* suffix) { return has_suffix(source, suffix); })) {
    return image_tensor(read_image(source), filled_type(port, sizes), port.name, options.image);
  }
  const nlohmann::json json = json_of(source);
  if (json.is_array()) return list_tensor(port, source, json);
  return std::nullopt;
}

// The tensor of any other source, in the declared shape.
Tensor made(const Port& port, const std::string& source, const DimSizes& sizes,
            std::mt19937_64& generator) {
  if (is_random(source)) {
    const Range range = source == "random" ? default_range(port.type.dtype) : parse_range(source);
    return random_tensor(port.type.dtype, concrete_dims(port, sizes), range, generator, port.name);
  }
  // JSON has no nan and inf.
  const bool is_special =
      is_floating(port.type.dtype) && (source == "nan" || source == "inf" || source == "-inf");
  const bool is_named = source == "zeros" || source == "ones" || is_special;
  const nlohmann::json json = is_named ? nlohmann::json() : json_of(source);
  if (!is_named && (json.is_discarded() || json.is_object() || json.is_null())) {
    throw UsageError(
        fmt::format("--input {}={}: neither a .npy, .png, .jpg, .bmp or .ppm file nor a number, "
                    "list, zeros, ones or random",
                    port.name, source));
  }
  Tensor tensor = Tensor::allocate(port.type.dtype, concrete_dims(port, sizes));
  const double named = source == "zeros"  ? 0.0
                       : source == "ones" ? 1.0
                                          : std::strtod(source.c_str(), nullptr);
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    if (is_named) {
      set_element(tensor, i, named, port.name);
    } else {
      set_from_json(tensor, i, json, port, source);
    }
  }
  return tensor;
}

void add_archive(const std::string& path, const std::vector<Port>& ports,
                 std::map<std::string, Tensor>& given) {
  WantedDTypes wanted;
  for (const Port& port : ports) wanted[port.name] = port.type.dtype;
  for (auto& [name, tensor] : read_npz(path, wanted)) {
    if (!wanted.contains(name)) {
      throw UsageError(fmt::format("{}: the program has no input '{}'", path, name));
    }
    given[name] = std::move(tensor);
  }
}

std::string names_of(const std::vector<Port>& ports) {
  std::string names;
  for (const Port& port : ports) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", port.name);
  }
  return names;
}

// The input that `source`, given without a name, is for: the one that must be given.
std::string only_input(const std::vector<Port>& ports, const std::string& source) {
  std::vector<Port> required;
  std::copy_if(ports.begin(), ports.end(), std::back_inserter(required),
               [](const Port& port) { return !port.has_default; });
  if (required.size() == 1) return required.front().name;
  throw UsageError(
      fmt::format("--input '{}': write NAME=SOURCE; the inputs are {}", source, names_of(ports)));
}

}  // namespace

void add_input_options(CLI::App& app, InputOptions& options) {
  app.add_option("-i,--input", options.inputs, kInputHelp)
      ->type_name("NAME=SOURCE")
      ->allow_extra_args(false);
  app.add_option("--dim", options.dims,
                 "size of a dimension that the model leaves open; one without a name is called "
                 "INPUT.AXIS (repeatable). Inputs that are given say theirs")
      ->type_name("SYMBOL=SIZE")
      ->allow_extra_args(false);
  app.add_option("--seed", options.seed, "seed of the random values")->capture_default_str();
  app.add_option("--layout", options.image.layout, "of image inputs: auto, nchw or nhwc")
      ->check(CLI::IsMember({"auto", "nchw", "nhwc"}))
      ->capture_default_str();
  app.add_option("--channels", options.image.channels, "of image inputs: rgb or bgr")
      ->check(CLI::IsMember({"rgb", "bgr"}))
      ->capture_default_str();
  app.add_option("--mean", options.image.mean,
                 "of image inputs: value = (pixel / 255 - mean) / std, three numbers, R G B")
      ->type_name("R G B");
  app.add_option("--std", options.image.std, "see --mean")->type_name("R G B");
}

std::vector<Data> make_inputs(const std::vector<Port>& ports, const InputOptions& options,
                              std::vector<std::string>& notes) {
  DimSizes sizes = parse_dims(options.dims);
  check_symbols(ports, sizes);
  std::map<std::string, Tensor> given;
  std::map<std::string, std::string> sources;
  for (const std::string& text : options.inputs) {
    if (has_suffix(text, ".npz") && text.find('=') == std::string::npos) {
      add_archive(text, ports, given);
      continue;
    }
    const std::pair<std::string, std::string> parts = text.find('=') == std::string::npos
                                                          ? std::pair(only_input(ports, text), text)
                                                          : split(text, "--input");
    const std::string& name = parts.first;
    const bool known = std::any_of(ports.begin(), ports.end(),
                                   [&](const Port& port) { return port.name == name; });
    if (!known) {
      throw UsageError(
          fmt::format("the model has no input '{}'; its inputs are {}", name, names_of(ports)));
    }
    sources[name] = parts.second;
  }
  // What has a shape of its own comes first: it says what others leave open.
  std::vector<const Port*> to_make;
  for (const Port& port : ports) {
    const auto source = sources.find(port.name);
    if (given.contains(port.name)) {
      bind_sizes(port, given[port.name], sizes);
      continue;
    }
    const bool named = source != sources.end();
    if (!named && (port.has_default || port.type.kind == Type::Kind::kOptional)) continue;
    if (!port.type.is_tensor()) {
      throw UsageError(
          fmt::format("input '{}' is {}: the command line passes tensors only; use Python",
                      port.name, to_string(port.type)));
    }
    std::optional<Tensor> tensor;
    if (named) tensor = shaped_source(port, source->second, options, sizes);
    if (tensor) {
      bind_sizes(port, *tensor, sizes);
      given[port.name] = *std::move(tensor);
    } else {
      to_make.push_back(&port);
    }
  }
  open_sizes(to_make, sizes, notes);
  std::mt19937_64 generator(options.seed);
  for (const Port* port : to_make) {
    const auto source = sources.find(port->name);
    given[port->name] =
        made(*port, source == sources.end() ? "random" : source->second, sizes, generator);
  }
  std::vector<Data> inputs;
  inputs.reserve(ports.size());
  for (const Port& port : ports) {
    inputs.push_back(given.contains(port.name) ? Data(given[port.name]) : Data());
  }
  return inputs;
}

}  // namespace xrt::cli
