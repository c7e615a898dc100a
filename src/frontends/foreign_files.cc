// SPDX-License-Identifier: Apache-2.0
#include "frontends/foreign_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <set>

namespace xrt {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::size_t kTextSeen = 4096;           // of a text file
constexpr std::size_t kDirectorySeen = 1U << 20;  // of a ZIP archive, whose names stand at its end

struct FileSignature {
  std::size_t offset;
  std::string_view bytes;
  std::string_view kind;
};

constexpr std::string_view kPlan =
    "a plan of TensorRT, which fits one GPU and one version: load the ONNX file that it was built "
    "from";

constexpr std::array kSignatures = {
    FileSignature{
        4, "TFL3"sv,
        "a TensorFlow Lite model: convert it with `python -m tf2onnx.convert --tflite FILE "
        "--output model.onnx`"},
    FileSignature{4, "ORTM"sv,
                  "a model in ONNX Runtime's own format: load the ONNX file that it was made of"},
    FileSignature{
        4, "ET1"sv,
        "a program of ExecuTorch: export the PyTorch module with torch.onnx.export instead"},
    FileSignature{
        0, "GGUF"sv,
        "a GGUF file, which holds weights and no graph: `xrt generate FILE --prompt TEXT` and "
        "openxrt.generate build the graph of a language model"},
    FileSignature{
        0, "\x89HDF"sv,
        "an HDF5 file, such as Keras saves: load it with Keras and write an ONNX file with "
        "model.export(\"model.onnx\", format=\"onnx\"), or with tf2onnx"},
    FileSignature{0, "\x93NUMPY"sv, "a NumPy array, not a model"},
    FileSignature{
        0, "ML\xEFR"sv,
        "MLIR bytecode (StableHLO, say): export the model to ONNX from the framework that it "
        "comes from"},
    FileSignature{0, "BC\xC0\xDE"sv, "LLVM bitcode, not a model"},
    FileSignature{0,
                  "\x7F"
                  "ELF"sv,
                  "a program or a library, not a model"},
    FileSignature{0, "\x1F\x8B"sv, "compressed by gzip: unpack it first"},
    FileSignature{0, "\x28\xB5\x2F\xFD"sv, "compressed by zstd: unpack it first"},
    FileSignature{0, "BZh"sv, "compressed by bzip2: unpack it first"},
    FileSignature{0,
                  "\xFD"
                  "7zXZ"sv,
                  "compressed by xz: unpack it first"},
    FileSignature{0, "7z\xBC\xAF"sv, "a 7z archive: unpack it first"},
    FileSignature{257, "ustar"sv, "a tar archive: unpack it first"},
    FileSignature{1, "trt\0\0\0\0"sv, kPlan},  // behind a letter, which depends on the edition
    FileSignature{0, "version https://git-lfs"sv,
                  "a pointer of Git LFS in place of the file: fetch the file with `git lfs pull`"},
    FileSignature{0, "7767517\n"sv,
                  "a network of ncnn: load the ONNX file that it was made of, or export one"},
};

constexpr std::string_view kPyTorchAdvice =
    ": run its module with openxrt.torch.XRTModule, or write an ONNX file with torch.onnx.export";

// A ZIP archive, by the names in it.
std::string zip_kind(std::string_view bytes) {
  const std::size_t seen = std::min(bytes.size(), kDirectorySeen);
  const std::string_view names = bytes.substr(bytes.size() - seen);
  const auto has = [&](std::string_view name) { return names.find(name) != names.npos; };
  if (has("/archive_format") || has("serialized_exported_program.json")) {
    return "a program that torch.export saved: openxrt.load() of Python imports it where PyTorch "
           "is installed; for the command and for C++, write an ONNX file with "
           "torch.onnx.export(torch.export.load(FILE), f=\"model.onnx\")";
  }
  if (has("constants.pkl")) {
    return "a TorchScript module of PyTorch: load it with torch.jit.load, and write an ONNX file "
           "with torch.onnx.export; openxrt.torch.XRTModule runs the nn.Module that it was made of";
  }
  if (has("data.pkl")) {
    return std::string("a file of torch.save, which holds tensors or a module as Python objects") +
           std::string(kPyTorchAdvice);
  }
  if (has("model.weights.h5")) {
    return "a model of Keras: load it with Keras and write an ONNX file with "
           "model.export(\"model.onnx\", format=\"onnx\")";
  }
  if (has("com.apple.CoreML")) {
    return "a package of Core ML: use the model that it was converted from";
  }
  if (has(".onnx")) return "a ZIP archive with an ONNX model in it: unpack it first";
  if (has(".npy")) return "an archive of NumPy arrays, not a model";
  return "a ZIP archive: unpack it first; if PyTorch saved it, run the module with "
         "openxrt.torch.XRTModule, or write an ONNX file with torch.onnx.export";
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(bytes[i])) << (8 * i);
  }
  return value;
}

// The length of a header in JSON, then the header.
bool is_safetensors(std::string_view bytes) {
  if (bytes.size() < 10 || bytes[8] != '{') return false;
  const std::uint64_t header = little_endian(bytes);
  return header >= 2 && header <= bytes.size() - 8;
}

std::string text_kind(std::string_view bytes) {
  std::string_view text = bytes.substr(0, kTextSeen);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  std::string lower(text.substr(0, 64));
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower.starts_with("<!doctype html") || lower.starts_with("<html")) {
    return "a page in HTML: the download gave an answer of the site in place of the file";
  }
  if (text.starts_with("<?xml") || text.starts_with("<net")) {
    if (text.find("<net ") == text.npos) return "an XML file, not a model";
    return "a network of OpenVINO (XML with its weights in a .bin file): load the ONNX file or the "
           "PyTorch module that it was converted from";
  }
  if (text.starts_with("module ") || text.starts_with("module{") || text.starts_with("#loc") ||
      text.starts_with("builtin.module")) {
    return "a module in MLIR: export the model to ONNX from the framework that it comes from; a "
           "model of OneFlow is loaded by its folder";
  }
  return {};
}

// One field of a message of protocol buffers.
struct MessageField {
  std::uint64_t number = 0;
  int wire = 0;
  std::uint64_t value = 0;  // of a varint
  std::string_view bytes;   // of a length-delimited field, as far as they are there
};

class MessageFields {
 public:
  explicit MessageFields(std::string_view bytes) : rest_(bytes) {}

  std::optional<MessageField> next() {
    const auto tag = varint();
    if (!tag) return std::nullopt;
    MessageField field;
    field.number = *tag >> 3U;
    field.wire = static_cast<int>(*tag & 7U);
    if (field.number == 0) return std::nullopt;
    switch (field.wire) {
      case 0: {
        const auto value = varint();
        if (!value) return std::nullopt;
        field.value = *value;
        return field;
      }
      case 1:
      case 5: {
        const std::size_t size = field.wire == 1 ? 8 : 4;
        if (rest_.size() < size) return std::nullopt;
        rest_.remove_prefix(size);
        return field;
      }
      case 2: {
        const auto size = varint();
        if (!size || *size > rest_.size()) return std::nullopt;
        field.bytes = rest_.substr(0, *size);
        rest_.remove_prefix(*size);
        return field;
      }
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::string_view rest_;
};

constexpr std::string_view kTensorFlowAdvice =
    ": convert the folder of the SavedModel with `python -m tf2onnx.convert --saved-model FOLDER "
    "--output model.onnx`, or a frozen graph with its option --graphdef";

// Whether the message begins with these fields, length-delimited ones.
bool begins_with_texts(std::string_view bytes, std::uint64_t first, std::uint64_t second) {
  MessageFields fields(bytes);
  const auto a = fields.next();
  const auto b = a ? fields.next() : std::nullopt;
  return b && a->number == first && a->wire == 2 && b->number == second && b->wire == 2;
}

}  // namespace

std::string foreign_kind(std::string_view bytes) {
  for (const FileSignature& signature : kSignatures) {
    if (bytes.size() < signature.offset) continue;
    // Behind the first offset of a FlatBuffer, which is small; an ONNX model has a text there.
    if (signature.offset == 4 && bytes.substr(2, 2) != "\0\0"sv) continue;
    if (bytes.substr(signature.offset).starts_with(signature.bytes)) {
      return "it is " + std::string(signature.kind);
    }
  }
  if (bytes.starts_with("PK\x03\x04"sv)) return "it is " + zip_kind(bytes);
  if (is_safetensors(bytes)) {
    return "it is a safetensors file, which holds weights and no graph: export the model that they "
           "belong to with `optimum-cli export onnx --model NAME FOLDER` or torch.onnx.export";
  }
  if (bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5) {
    return "it is a pickle of Python objects, such as torch.save writes" +
           std::string(kPyTorchAdvice);
  }
  const std::string text = text_kind(bytes);
  return text.empty() ? text : "it is " + text;
}

std::string foreign_message_kind(std::string_view bytes) {
  MessageFields fields(bytes);
  const auto first = fields.next();
  if (!first) return {};
  if (first->number == 1 && first->wire == 2) {
    if (begins_with_texts(first->bytes, 1, 2)) {
      return "it is a graph of TensorFlow" + std::string(kTensorFlowAdvice);
    }
    if (first->bytes.starts_with("\x08")) {
      return "it is a program of PaddlePaddle: convert it with paddle2onnx";
    }
    return {};
  }
  if (first->number != 1 || first->wire != 0) return {};
  std::set<std::uint64_t> numbers;
  std::string_view second;
  while (const auto field = fields.next()) {
    if (field->number == 2 && field->wire == 2 && second.empty()) second = field->bytes;
    numbers.insert(field->number);
  }
  if (!numbers.empty() && *numbers.rbegin() >= 200) {
    return "it is a model of Core ML: use the model that it was converted from";
  }
  // A MetaGraphDef begins with its MetaInfoDef, a producer's name with a letter.
  if (first->value == 1 && second.starts_with("\x0A")) {
    return "it is a SavedModel of TensorFlow" + std::string(kTensorFlowAdvice);
  }
  return {};
}

}  // namespace xrt
