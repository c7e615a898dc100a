// SPDX-License-Identifier: Apache-2.0
// XRT_API marks the public interface of libxrt.so. The library also exports the rest of namespace
// xrt, for the engines, bindings and tests built with it; that part may change in any release.
#pragma once

#define XRT_API __attribute__((visibility("default")))
