// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries: found where the process has them open, where the variable says, in Python's
// packages, or where the system looks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xrt/error.h"
#include "xrt/export.h"

namespace xrt::cuda {

struct LibraryName {
  std::string_view title;            // "NVRTC"
  std::string_view package;          // PyPI's that holds it
  const char* variable = nullptr;    // names the file; or null
  std::vector<std::string> files;    // "libnvrtc.so.13", the newest first
  std::vector<std::string> helpers;  // beginnings of names of files beside it, opened before it
};

// Stays open. Throws kNotFound saying what was tried and what to install.
XRT_API void* open_library(const LibraryName& name);

// A function of such a library. Throws kNotFound where it has none of that name.
XRT_API void* function_of(void* library, std::string_view title, const char* name);

template <typename F>
void resolve(void* library, std::string_view title, const char* name, F& entry) {
  entry = reinterpret_cast<F>(function_of(library, title, name));
}

// The functions of a library that one can do without: members of an Api, which `find(name, member)`
// fills in. Api::trouble says why they are not there, or is empty.
template <typename Api, typename Fill>
Api open_if_there(const LibraryName& name, const Fill& fill) {
  Api api = {};
  try {
    void* const library = open_library(name);
    fill(api,
         [&](const char* function, auto& entry) { resolve(library, name.title, function, entry); });
  } catch (const Error& error) {
    api.trouble = error.what();
  }
  return api;
}

}  // namespace xrt::cuda
