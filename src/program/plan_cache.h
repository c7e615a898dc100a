// SPDX-License-Identifier: Apache-2.0
// What a program keeps in the disk cache beside its executables, so that a second start parses,
// checks, simplifies, folds and places nothing: the graph after passes, and for each set of input
// shapes the draft of its plan.
//
// The entry is found by the content of the model file and the program's options. Its header holds
// the version of OpenXRT, the state of the libraries of all engines that were asked, and the
// machine; its payload names the files of external data with their digests. Whatever differs is as
// good as no entry. Constants lie in the entry and are used in place; those of external data stay
// in their file. They are checked when somebody is about to read them: an executable that comes
// from the compile cache has no need of them.
//
// The engines of the draft must be what they were, down to the last one that runs something: those
// after it could not have changed the placement, and are not even loaded. A program that is to be
// measured first takes no draft that was estimated; one that is measured beside its runs takes it,
// and drops it once there is something better.
//
// Not kept: programs that ask an engine made in this process that names no files (nothing tells
// when its code changes), and programs that dump their passes; graphs whose domains have ops that
// were registered without a revision (nothing tells when their kernels change), and graphs with
// nodes that nobody registered. Of the other registered ops the entry has a digest of all that
// users say about them.
//
// Thread-safety: as a Program; one PlanCache belongs to one program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "cache/cache_entry.h"
#include "frontends/onnx/import_files.h"
#include "plan/plan.h"
#include "xrt/program.h"

namespace xrt {

// What can be asked of a program without its graph.
struct ProgramPorts {
  std::vector<Port> inputs, outputs;
  std::vector<Tensor> defaults;  // by input; undefined where there is none
};

class PlanCache {
 public:
  // For a model file, or for the bytes of one (then `path` is empty). Null where the program is not
  // kept, or no folder is named; `why_not`, if given, is set where users may wonder why.
  static std::unique_ptr<PlanCache> open(const std::filesystem::path& path,
                                         std::string_view model_bytes,
                                         const ProgramOptions& options,
                                         std::string* why_not = nullptr);
  // Why a program with this graph is not kept; empty if it can be.
  static std::string why_not(const Graph& graph);

  // Looks the program up. True: the functions below have something to give.
  bool find();
  const ProgramPorts& ports() const { return ports_; }
  // The draft for the declared shapes, where these are static. To be called once.
  std::optional<Plan> take_static_draft() { return std::move(static_draft_); }
  // The graph after passes. Throws kInvalidModel where its constants are damaged.
  Graph graph() const;

  // Keeps a program that was not found, which was imported with these files and for which why_not()
  // is empty. `draft`: where input shapes are static.
  void keep(std::shared_ptr<const Graph> graph, const ProgramPorts& ports,
            const std::vector<ExternalFile>& files, const Plan* draft);

  // The draft for one set of input shapes, and keeping it; only after find() or keep().
  std::optional<Plan> find_shapes(const std::vector<std::int64_t>& shapes) const;
  void keep_shapes(const std::vector<std::int64_t>& shapes, Plan draft);
  // Drops an estimated draft that measuring has replaced: that of the declared shapes, with the
  // whole entry, or that of one set of shapes. The next start makes it anew.
  void forget();
  void forget_shapes(const std::vector<std::int64_t>& shapes);

 private:
  // What drafts written later refer to: set when the program's entry is written, or read.
  struct Base {
    std::string id;  // drafts of another one are stale
    std::vector<DataBlock> blocks;
    std::vector<Tensor> tensors;  // the same, where they were read
    std::vector<std::shared_ptr<const void>> owners;
  };

  PlanCache() = default;
  bool read(const EntryFile& entry);
  // Why a draft is of no use; empty if it is.
  std::string what_is_wrong(const Plan& draft) const;
  std::string shapes_key(const std::vector<std::int64_t>& shapes) const;
  void explain_miss() const;

  std::filesystem::path dir_, model_, folder_;
  std::string key_;        // name of the program's entry
  std::string digest_;     // of the model file
  std::string options_;    // all that matter, as text
  std::string state_;      // of the model file when it was hashed
  bool measures_ = false;  // placement measures before the first run
  EntryHeader header_;
  ProgramPorts ports_;
  std::optional<Plan> static_draft_;
  std::optional<FlatReader> graph_reader_;  // at the graph
  std::function<void()> check_constants_;   // of the entry that was read
  std::shared_ptr<Base> base_;
};

}  // namespace xrt
