// SPDX-License-Identifier: Apache-2.0
// The best way to share a chain of pieces among engines, by dynamic programming.
//
// A graph cut at its narrow places is a chain of pieces. Neighbouring pieces on one engine are one
// function, which may take less than their sum (engines fuse across the cut), so the search is over
// functions, i.e. ranges of pieces: with n pieces and e engines n²·e²/2 steps.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "xrt/export.h"

namespace xrt {

struct ChainCosts {
  std::size_t pieces = 0, engines = 0;
  // Microseconds of pieces [first, last) as one function; infinity where the engine cannot.
  std::function<double(std::size_t first, std::size_t last, std::size_t engine)> function_us;
  // Microseconds to hand over what crosses the cut before `piece` (1 … pieces - 1).
  std::function<double(std::size_t piece, std::size_t from, std::size_t to)> transfer_us;
};

struct ChainPart {
  std::size_t first = 0, last = 0, engine = 0;  // pieces [first, last)
  bool operator==(const ChainPart&) const = default;
};

struct ChainPlan {
  double us = 0;                 // infinity: there is no way
  std::vector<ChainPart> parts;  // in order; neighbours have different engines
};

XRT_API ChainPlan best_chain(const ChainCosts& costs);

}  // namespace xrt
