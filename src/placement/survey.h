// SPDX-License-Identifier: Apache-2.0
// What engines say about every node of one graph: each is loaded and asked once, when it is needed.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "partition/partition.h"
#include "xrt/engine.h"
#include "xrt/error.h"
#include "xrt/options.h"
#include "xrt/registry.h"

namespace xrt {

// The device that the engine is to use in a program: the program's own, or, for the fallback where
// another engine drives that one, the host. Empty: none, it does not drive the program's.
std::string device_for(const Engine& engine, const ProgramOptions& options);

// What one engine says about every node; a node of a shape that the engine cannot take is a no.
// Throws kEngine, naming the engine, where it throws or leaves nodes without an answer;
// kInvalidModel where the fallback cannot read a node.
EngineAnswers ask(const Engine& engine, const Graph& graph, const ProgramOptions& options);
// Whether the error of asking it says what is wrong with the model.
bool is_of_model(std::string_view engine, const Error& error);
// The program's aliases as values of the graph; those that name no value are left out.
std::vector<Update> updates_of(const Graph& graph, const ProgramOptions& options);
// Whether wrong values of operands that decide shapes or addresses are errors of the engine's own.
bool checks_values(const Engine& engine);
// Live nodes that it takes.
std::size_t taken(const EngineAnswers& answers, const Graph& graph);

// Throws kResource where a value whose size is known is larger than all that a run may take.
// Engines that fuse nodes may not make every value; but such a one is a mistake or an attack,
// whoever would compute it.
void check_value_bytes(const Graph& graph, std::size_t most_bytes);

class Survey {
 public:
  struct Entry {
    std::shared_ptr<const Engine> engine;
    EngineAnswers answers;
    std::size_t taken = 0;  // live nodes that it takes
  };

  // Both live at least as long as the survey. Throws as check_value_bytes(), before any engine is
  // asked: some compute nodes of constants meanwhile.
  Survey(const Graph& graph, const ProgramOptions& options);

  // Throws as get_engine(). The entry stays where it is.
  const Entry& of(const std::string& name);
  const Graph& graph() const { return graph_; }
  const ProgramOptions& options() const { return options_; }

  // Turns the engine's yes to these nodes into a no. False if it had taken none of them.
  bool refuse(const std::string& engine, const std::vector<std::string>& nodes,
              const std::string& reason);
  // What refuse() was told, for explain().
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  const Graph& graph_;
  const ProgramOptions& options_;
  std::list<Entry> entries_;
  std::vector<std::string> notes_;
};

}  // namespace xrt
