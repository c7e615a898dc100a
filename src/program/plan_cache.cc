// SPDX-License-Identifier: Apache-2.0
#include "program/plan_cache.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <system_error>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "cache/file_digest.h"
#include "device/threads.h"
#include "measure/measure.h"
#include "ops/op_registry.h"
#include "placement/decision.h"
#include "placement/estimates.h"
#include "registry/engine_names.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFormat = 7;
constexpr const char* kPlanEntry = "plan";
// Of what FlatWriter::finish() gives: all but the elements of tensors.
constexpr std::size_t kFrontPieces = 1;

std::string digest_of(const void* data, std::size_t bytes) {
  return hash_large(data, bytes, thread_budget()).hex();
}

// Engines that have a say whatever happens: those named, and the one that takes what they leave. Of
// those that placement may choose from, it loads only what it needs: the draft says which.
std::vector<std::string> engines_asked(const ProgramOptions& options) {
  std::vector<std::string> names;
  if (!is_auto(options)) names = options.engines;
  for (const auto& [node, engine] : options.node_engines) {
    if (engine != kRuntimeEngine) names.push_back(engine);
  }
  names.emplace_back(kFallbackEngine);  // also computes constants
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool is_kept(const ProgramOptions& options) {
  return options.dump_dir.empty() && !options.force_compile;
}

// Domains whose ops mean the same in every process with this library.
bool is_standard(const std::string& domain) {
  return domain.empty() || domain == "ai.onnx" || domain == "ai.onnx.ml" ||
         domain == "ai.onnx.preview.training" || domain == "xrt";
}

// A node, of a body too, of an op that neither the standard has nor anybody registered.
const Node* unknown_node(const Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (!is_standard(node.domain) && registered_op(graph, node) == nullptr) return &node;
    for (const Graph* body : Graph::subgraphs(node)) {
      if (const Node* found = unknown_node(*body)) return found;
    }
  }
  return nullptr;
}

// Whether all its engines can be recognised in another process, and placement was not disturbed.
bool is_lasting(const Plan& draft) {
  if (draft.explanation.placement == kMeasuredBusy) return false;
  return std::find(draft.identities.begin(), draft.identities.end(), "") == draft.identities.end();
}

Tensor as_block(const std::shared_ptr<const MappedFile>& file) {
  return Tensor::wrap(DType::kUInt8, {static_cast<std::int64_t>(file->size())},
                      const_cast<std::byte*>(file->data()), file);
}

DataBlock range_of(const Tensor& block) { return {{}, block.data<std::byte>(), block.bytes()}; }

void write_ports(FlatWriter& writer, const std::vector<Port>& ports) {
  writer.number(static_cast<std::int64_t>(ports.size()));
  for (const Port& port : ports) {
    writer.text(port.name).type(port.type).number(port.has_default ? 1 : 0);
  }
}

std::vector<Port> read_ports(FlatReader& reader) {
  std::vector<Port> ports(reader.count());
  for (Port& port : ports) {
    port.name = reader.text();
    port.type = reader.type();
    port.has_default = reader.number() != 0;
  }
  return ports;
}

}  // namespace

std::string PlanCache::why_not(const Graph& graph) {
  for (const auto& [domain, version] : graph.opsets()) {
    if (is_standard(domain)) continue;
    const DomainMeaning meaning = meaning_of(domain);
    if (meaning.unversioned.empty()) continue;
    return "op '" + meaning.unversioned + "' was registered without a revision";
  }
  if (const Node* node = unknown_node(graph)) {
    return "node '" + node->name + "' is of op '" + node->qualified_op() +
           "', which nobody registered";
  }
  return {};
}

std::unique_ptr<PlanCache> PlanCache::open(const fs::path& path, std::string_view model_bytes,
                                           const ProgramOptions& options, std::string* why_not) {
  const fs::path dir = options.cache_dir ? *options.cache_dir : default_cache_dir();
  if (dir.empty() || !is_kept(options)) return nullptr;
  try {
    std::string engines;
    for (const std::string& name : engines_asked(options)) {
      const std::string stamp = engine_stamp(name);
      if (stamp.empty()) {
        if (why_not != nullptr) {
          *why_not = "engine '" + name + "' was made in this process and names no files";
        }
        return nullptr;
      }
      engines += (engines.empty() ? "" : ", ") + name + " (" + stamp + ")";
    }
    prepare_folder(dir);
    std::unique_ptr<PlanCache> cache(new PlanCache);
    cache->dir_ = dir;
    cache->model_ = path;
    cache->folder_ = path.parent_path();
    if (path.empty()) {
      cache->digest_ = digest_of(model_bytes.data(), model_bytes.size());
    } else {
      cache->state_ = file_state(path);
      cache->digest_ = FileDigests(dir).of(path);
    }
    cache->options_ = option_key(options);
    // Loops are then left to engines whose runs can be ended, whatever the seconds.
    if (options.deadline_s > 0) cache->options_ += "deadline";
    // Whether they run in this process or in workers is in their names.
    if (is_auto(options)) {
      for (const std::string& name : auto_candidates(options)) cache->options_ += " " + name;
    }
    cache->measures_ = wants_measuring(options) && auto_mode(options) != AutoMode::kBackground;
    const std::string options_digest =
        hash_bytes(cache->options_.data(), cache->options_.size()).hex();
    cache->key_ = "plan-" + cache->digest_.substr(0, 16) + "-" + options_digest.substr(0, 16);
    cache->header_ = entry_header(kPlanEntry, std::move(engines), path.filename().string());
    return cache;
  } catch (const Error& error) {
    // What is wrong with the model or an engine is said by who needs it; a cache can be done
    // without.
    log_info(std::string("plan cache: ") + error.what() + ": going without it");
    return nullptr;
  }
}

bool PlanCache::find() {
  try {
    const std::optional<EntryFile> entry = open_entry(entry_path(dir_, key_), header_);
    if (entry && read(*entry)) return true;
    if (!entry) explain_miss();
  } catch (const std::exception& error) {
    log_warning("plan cache: " + std::string(error.what()) + ": the program is built anew");
  }
  ports_ = {};
  static_draft_.reset();
  graph_reader_.reset();
  check_constants_ = {};
  return false;
}

// Which entries come near, for whoever wonders why this start is a slow one.
void PlanCache::explain_miss() const {
  std::error_code error;
  std::string others;
  const std::string same_model = key_.substr(0, key_.rfind('-'));
  for (const auto& entry : fs::directory_iterator(dir_, error)) {
    const std::string name = entry.path().stem().string();
    if (name.starts_with(same_model) && name != key_) others = "other options";
  }
  log_info("plan cache: no entry for '" + model_.string() + "' with this content and these " +
           "options" + (others.empty() ? "" : "; there is one with " + others));
}

bool PlanCache::read(const EntryFile& entry) {
  const Tensor& payload = entry.payload;
  const auto stale = [&](const std::string& what) {
    log_info("cache entry '" + key_ + "' is stale: " + what + ": it is made again");
    return false;
  };
  // The files of external data come first: tensors refer to them.
  FlatReader fields(payload);
  if (fields.number() != kFormat) return stale("its format is another");
  if (fields.text() != digest_) return stale("it is of another model");
  if (fields.text() != options_) return stale("it is of other options");
  for (std::size_t n = fields.count(); n-- > 0;) {
    const std::string domain = fields.text();
    const DomainMeaning now = meaning_of(domain);
    if (fields.text() != now.digest || !now.unversioned.empty()) {
      return stale("what was registered in the domain '" + domain + "' is not what it was");
    }
  }
  auto base = std::make_shared<Base>();
  base->id = fields.text();
  base->blocks.push_back(range_of(payload));
  base->tensors.push_back(payload);
  base->owners.push_back(payload.owner());
  std::vector<Tensor> files;
  for (std::size_t n = fields.count(); n-- > 0;) {
    const std::string location = fields.text();
    const std::string digest = fields.text();
    std::error_code error;
    if (!fs::exists(folder_ / location, error)) return stale("'" + location + "' is gone");
    files.push_back(as_block(MappedFile::open(folder_ / location)));
    if (FileDigests(dir_).of(folder_ / location) != digest) {
      return stale("'" + location + "' has changed");
    }
    base->blocks.push_back(range_of(files.back()));
    base->tensors.push_back(files.back());
    base->owners.push_back(files.back().owner());
  }
  fields.lend(std::move(files));
  check_constants_ = [entry, path = entry_path(dir_, key_), checked = false]() mutable {
    if (!checked && !entry.rest_is_intact()) {
      throw Error(ErrorCode::kInvalidModel, "cache entry '" + path.string() + "' is corrupt");
    }
    checked = true;
  };
  ports_.inputs = read_ports(fields);
  ports_.outputs = read_ports(fields);
  for (const Port& port : ports_.inputs) {
    if (port.has_default) check_constants_();
    ports_.defaults.push_back(port.has_default ? fields.tensor() : Tensor());
  }
  if (fields.number() != 0) {
    static_draft_ = read_plan(fields);
    static_draft_->check_constants = check_constants_;
    if (const std::string wrong = what_is_wrong(*static_draft_); !wrong.empty()) {
      return stale(wrong);
    }
    if (static_draft_->explanation.placement == kMeasured) {
      static_draft_->explanation.placement = kMeasuredEarlier;
    }
  }
  // Plans for other shapes are made from the graph, at a time when nothing can be built anew.
  if (!static_draft_) check_constants_();
  graph_reader_ = std::move(fields);
  base_ = std::move(base);
  return true;
}

std::string PlanCache::what_is_wrong(const Plan& draft) const {
  if (measures_ && draft.explanation.placement == kEstimated) return "it was not measured";
  std::size_t said_something = 0;
  for (const NodeId id : draft.folded.nodes()) {
    const std::string name = draft.folded.node(id).attr_string("engine", "");
    const auto found = std::find(draft.engines.begin(), draft.engines.end(), name);
    const auto position = static_cast<std::size_t>(found - draft.engines.begin());
    said_something = std::max(said_something, std::min(position + 1, draft.engines.size()));
  }
  for (std::size_t i = 0; i < said_something; ++i) {
    if (draft.engines[i] == kRuntimeEngine) continue;
    const std::string now = engine_identity(draft.engines[i]);
    if (now != draft.identities[i]) {
      return "engine '" + draft.engines[i] + "' was '" + draft.identities[i] + "' and is '" + now +
             "'";
    }
  }
  return {};
}

Graph PlanCache::graph() const {
  check_constants_();
  FlatReader reader = *graph_reader_;
  Graph graph = reader.graph();
  reader.end();
  return graph;
}

void PlanCache::keep(std::shared_ptr<const Graph> graph, const ProgramPorts& ports,
                     const std::vector<ExternalFile>& files, const Plan* draft) {
  if (draft != nullptr && !is_lasting(*draft)) return;
  if (!model_.empty() && file_state(model_) != state_) {
    log_info("plan cache: '" + model_.string() + "' changed while it was read: not kept");
    return;
  }
  base_ = std::make_shared<Base>();
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  base_->id = std::to_string(now) + "-" + std::to_string(::getpid());
  std::optional<Plan> own;
  if (draft != nullptr) own = *draft;
  std::map<std::string, std::string> domains;
  for (const auto& [domain, version] : graph->opsets()) {
    if (!is_standard(domain)) domains[domain] = meaning_of(domain).digest;
  }
  write_behind(dir_, [graph = std::move(graph), ports, files, draft = std::move(own), base = base_,
                      dir = dir_, key = key_, header = header_, digest = digest_,
                      options = options_, domains = std::move(domains)] {
    std::vector<DataBlock> others;
    for (const ExternalFile& file : files) {
      others.push_back(range_of(as_block(file.file)));
      base->owners.push_back(file.file);
    }
    FlatWriter writer(others);
    writer.number(kFormat).text(digest).text(options);
    writer.number(static_cast<std::int64_t>(domains.size()));
    for (const auto& [domain, meaning] : domains) writer.text(domain).text(meaning);
    writer.text(base->id);
    writer.number(static_cast<std::int64_t>(files.size()));
    for (const ExternalFile& file : files) {
      writer.text(file.location).text(digest_of(file.file->data(), file.file->size()));
    }
    write_ports(writer, ports.inputs);
    write_ports(writer, ports.outputs);
    for (std::size_t i = 0; i < ports.inputs.size(); ++i) {
      if (ports.inputs[i].has_default) writer.tensor(ports.defaults[i]);
    }
    writer.number(draft ? 1 : 0);
    if (draft) write_plan(writer, *draft);
    writer.graph(*graph);
    write_entry(dir, key, header, writer.finish(), kFrontPieces);
    base->owners.push_back(graph);  // addresses in the block stay theirs
    base->blocks = {writer.data_block()};
    base->blocks.insert(base->blocks.end(), others.begin(), others.end());
  });
}

std::string PlanCache::shapes_key(const std::vector<std::int64_t>& shapes) const {
  return key_ + "-" + hash_bytes(shapes.data(), shapes.size() * sizeof(shapes[0])).hex();
}

std::optional<Plan> PlanCache::find_shapes(const std::vector<std::int64_t>& shapes) const {
  if (base_ == nullptr || base_->tensors.empty()) return std::nullopt;
  const std::string key = shapes_key(shapes);
  try {
    const auto payload = read_entry(entry_path(dir_, key), header_);
    if (!payload) return std::nullopt;
    FlatReader reader(*payload, base_->tensors);
    if (reader.text() != base_->id) {
      log_info("cache entry '" + key + "' is stale: it is of another entry '" + key_ + "'");
      return std::nullopt;
    }
    for (std::size_t n = reader.count(), i = 0; i < n; ++i) {
      if (reader.number() != (i < shapes.size() ? shapes[i] : -2)) return std::nullopt;
    }
    Plan draft = read_plan(reader);
    reader.end();
    if (const std::string wrong = what_is_wrong(draft); !wrong.empty()) {
      log_info("cache entry '" + key + "' is stale: " + wrong);
      return std::nullopt;
    }
    if (draft.explanation.placement == kMeasured) {
      draft.explanation.placement = kMeasuredEarlier;
    }
    return draft;
  } catch (const std::exception& error) {
    log_warning("plan cache: " + std::string(error.what()) + ": the plan is made anew");
    return std::nullopt;
  }
}

void PlanCache::keep_shapes(const std::vector<std::int64_t>& shapes, Plan draft) {
  if (base_ == nullptr || !is_lasting(draft)) return;
  write_behind(dir_, [shapes, draft = std::move(draft), base = base_, dir = dir_,
                      key = shapes_key(shapes), header = header_] {
    if (base->blocks.empty()) return;  // the program's own entry could not be written
    FlatWriter writer(base->blocks);
    writer.text(base->id).number(static_cast<std::int64_t>(shapes.size()));
    for (const std::int64_t n : shapes) writer.number(n);
    write_plan(writer, draft);
    write_entry(dir, key, header, writer.finish());
  });
}

void PlanCache::forget() {
  write_behind(dir_, [path = entry_path(dir_, key_)] { fs::remove(path); });
}

void PlanCache::forget_shapes(const std::vector<std::int64_t>& shapes) {
  write_behind(dir_, [path = entry_path(dir_, shapes_key(shapes))] { fs::remove(path); });
}

}  // namespace xrt
