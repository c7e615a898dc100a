// SPDX-License-Identifier: Apache-2.0
#include "cli/python.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "xrt/error.h"

namespace xrt::cli {

namespace fs = std::filesystem;

fs::path package_folder(const std::string& what) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&package_folder), &info) != 0) {
    std::error_code error;
    const fs::path root = fs::canonical(info.dli_fname, error).parent_path().parent_path();
    for (const fs::path& folder : {root, root / "python" / "openxrt"}) {
      if (!error && fs::exists(folder / "__init__.py", error)) return folder;
    }
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("{} is written in Python, and this command was installed without the "
                          "package: `pip install openxrt[onnx]`, and use the xrt that it brings",
                          what));
}

std::string python_program() {
  const char* python = std::getenv("XRT_PYTHON");
  return python != nullptr && *python != '\0' ? python : "python3";
}

void become_python_module(const std::string& module, const std::vector<std::string>& arguments) {
  std::string path = package_folder(module).parent_path().string();
  const char* known = std::getenv("PYTHONPATH");
  if (known != nullptr && *known != '\0') path += fmt::format(":{}", known);
  if (setenv("PYTHONPATH", path.c_str(), /*overwrite=*/1) != 0) {
    throw Error(ErrorCode::kIo, fmt::format("setenv: {}", std::strerror(errno)));
  }
  std::vector<std::string> words = {python_program(), "-m", module};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::fflush(nullptr);
  execvp(pointers.front(), pointers.data());
  throw Error(ErrorCode::kNotFound, fmt::format("{}: {} (XRT_PYTHON names the Python that runs {})",
                                                words.front(), std::strerror(errno), module));
}

}  // namespace xrt::cli
