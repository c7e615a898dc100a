// SPDX-License-Identifier: Apache-2.0
#include "data/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/file.h"
#include "data/labelled_formats.h"
#include "data/npy.h"
#include "xrt/error.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

// Never a path that leaves the folder: no separator, no leading dot.
std::string folder_name(const std::string& input) {
  std::string name = input;
  for (char& c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) == 0 && c != '-' && c != '_' && c != '.') c = '_';
  }
  if (name.starts_with('.')) name[0] = '_';
  return name;
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files = folder_entries(folder);
  std::erase_if(files, [](const fs::path& file) { return !fs::is_regular_file(file); });
  return files;
}

// How many samples of that shape lie along the first dimension; 0 where it does not fit. The
// first dimension of `shape` is known.
std::int64_t samples_in(const Tensor& t, const Shape& shape) {
  if (t.rank() != shape.size()) return 0;
  if (shape.empty()) return 1;
  for (std::size_t d = 1; d < shape.size(); ++d) {
    if (shape[d].is_known() && shape[d].value() != t.dims()[d]) return 0;
  }
  const std::int64_t wanted = shape[0].value();
  if (t.dims()[0] == wanted) return 1;
  return t.dims()[0] > 0 && wanted > 0 && t.dims()[0] % wanted == 0 ? t.dims()[0] / wanted : 0;
}

class Samples {
 public:
  Samples(const SampleFiles& files, const std::vector<Port>& inputs,
          const std::function<void(const std::vector<Tensor>&)>& use)
      : source_(files), inputs_(inputs), use_(use) {}

  void run() {
    const fs::path folder = source_.folder;
    if (!fs::is_directory(folder)) {
      throw Error(ErrorCode::kNotFound,
                  fmt::format("{}: no folder of calibration samples is there", folder.string()));
    }
    for (const fs::path& file : files_of(folder)) {
      if (is_full()) return;
      if (file_ending(file) == ".npz") {
        archive(file);
      } else if (inputs_.size() == 1 && (file_ending(file) == ".npy" || is_picture_file(file))) {
        use(file.string(), {read(file, inputs_[0])});
      }
    }
    if (inputs_.size() > 1) folders(folder);
    if (count_ == 0) {
      throw Error(ErrorCode::kNotFound,
                  fmt::format("{}: there are no samples; {}", folder.string(), wanted()));
    }
  }

 private:
  bool is_full() const { return source_.limit != 0 && count_ == source_.limit; }

  std::string wanted() const {
    std::string names;
    for (const Port& p : inputs_) {
      names += fmt::format("{}'{}' ({})", names.empty() ? "" : ", ", p.name, to_string(p.type));
    }
    return inputs_.size() == 1
               ? fmt::format(".npy files, pictures, or .npz files with an array {} are", names)
               : fmt::format(".npz files with the arrays {}, or a folder for each, are", names) +
                     " read";
  }

  Tensor read(const fs::path& file, const Port& port) const {
    if (is_picture_file(file)) {
      return image_tensor(read_image(file), port.type, port.name, source_.image);
    }
    return parse_npy(read_file(file), file.string(), port.type.dtype);
  }

  void archive(const fs::path& file) {
    WantedDTypes types;
    for (const Port& p : inputs_) types[p.name] = p.type.dtype;
    std::map<std::string, Tensor> arrays = read_npz(file, types);
    std::vector<Tensor> values;
    for (const Port& p : inputs_) {
      const auto found = arrays.find(p.name);
      if (found == arrays.end()) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: input '{}' is missing; {}", file.string(), p.name, wanted()));
      }
      values.push_back(found->second);
      arrays.erase(found);
    }
    if (!arrays.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: the model has no input '{}'; {}", file.string(),
                              arrays.begin()->first, wanted()));
    }
    use(file.string(), values);
  }

  void folders(const fs::path& folder) {
    // Stem -> files by input.
    std::map<std::string, std::map<std::size_t, fs::path>> samples;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const fs::path of_input = folder / folder_name(inputs_[i].name);
      if (!fs::is_directory(of_input)) continue;
      for (const fs::path& file : files_of(of_input)) {
        if (file_ending(file) == ".npy" || is_picture_file(file))
          samples[file.stem().string()][i] = file;
      }
    }
    for (const auto& [stem, files] : samples) {
      if (is_full()) return;
      std::vector<Tensor> values;
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const auto file = files.find(i);
        if (file == files.end()) {
          throw Error(
              ErrorCode::kInvalidArgument,
              fmt::format("sample '{}': input '{}' is missing ({})", stem, inputs_[i].name,
                          (folder / folder_name(inputs_[i].name) / (stem + ".npy")).string()));
        }
        values.push_back(read(file->second, inputs_[i]));
      }
      use(fmt::format("sample '{}'", stem), values);
    }
  }

  void use(const std::string& origin, const std::vector<Tensor>& values) {
    for_each_sample_of(values, origin, inputs_, [&](const std::vector<Tensor>& sample) {
      if (is_full()) return;
      use_(sample);
      ++count_;
    });
  }

  const SampleFiles& source_;
  const std::vector<Port>& inputs_;
  const std::function<void(const std::vector<Tensor>&)>& use_;
  std::size_t count_ = 0;
};

}  // namespace

void for_each_sample_of(const std::vector<Tensor>& values, const std::string& origin,
                        const std::vector<Port>& inputs,
                        const std::function<void(const std::vector<Tensor>&)>& use) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Tensor& t = values[i];
    const Type& want = inputs[i].type;
    const std::int64_t here = samples_in(t, *want.shape);
    if (here == 0 || t.dtype() != want.dtype || (count != 0 && here != count)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: input '{}' must be {} (or several along the first dimension, "
                              "as many for every input), not {}{}",
                              origin, inputs[i].name, to_string(want), to_string(t.dtype()),
                              to_string(t.dims())));
    }
    count = here;
  }
  for (std::int64_t k = 0; k < count; ++k) {
    std::vector<Tensor> sample;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Tensor& t = values[i];
      const std::size_t bytes = t.bytes() / static_cast<std::size_t>(count);
      Dims dims = t.dims();
      if (!dims.empty()) dims[0] /= count;
      sample.push_back(Tensor::wrap(
          t.dtype(), dims, const_cast<char*>(t.data<char>()) + static_cast<std::size_t>(k) * bytes,
          t.owner()));
    }
    try {
      use(sample);
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("{}: {}", origin, e.what()));
    }
  }
}

bool holds_samples(const fs::path& folder, const std::vector<Port>& inputs) {
  if (!fs::is_directory(folder)) return false;
  const bool of_inputs =
      inputs.size() > 1 && std::all_of(inputs.begin(), inputs.end(), [&](const Port& input) {
        return fs::is_directory(folder / folder_name(input.name));
      });
  if (of_inputs) return true;
  for (const fs::path& file : files_of(folder)) {
    if (file_ending(file) == ".npy") return true;
    if (file_ending(file) != ".npz") continue;
    // The first archive speaks for all.
    const std::map<std::string, Tensor> arrays = read_npz(file);
    return std::none_of(arrays.begin(), arrays.end(), [&](const auto& array) {
      const bool is_input = std::any_of(inputs.begin(), inputs.end(), [&](const Port& input) {
        return input.name == array.first;
      });
      return !is_input && is_label_name(array.first);
    });
  }
  return false;
}

void for_each_sample(const SampleFiles& files, const std::vector<Port>& inputs,
                     const std::function<void(const std::vector<Tensor>&)>& use) {
  Samples(files, inputs, use).run();
}

}  // namespace xrt
