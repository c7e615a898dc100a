// SPDX-License-Identifier: Apache-2.0
// Entries of the disk cache: a file each, in one folder that belongs to the user alone.
//
// An entry has a header (versions, machine), a payload that begins at a multiple of 64 bytes, and a
// checksum over all of it and over its key, which is the file's name: a file that was renamed
// counts as corrupt. Nobody uses a byte of the payload before that was checked. A payload may have
// a rest that is checked only by who reads it: most starts never look at a graph's constants.
// Entries are replaced by renaming, so a mapped one stays whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "xrt/tensor.h"

namespace xrt {

// What an entry was made by and for.
struct EntryHeader {
  std::string xrt_version;
  std::string engine;          // or "plan"
  std::string engine_version;  // of all engines that had a say
  std::string machine;
  std::string function;  // or the name of the model; for listings, no part of the key
};

// With the version of this library and the machine filled in.
EntryHeader entry_header(std::string engine, std::string engine_version, std::string function);

// Why an entry written under `stored` is of no use under `wanted`; empty if it is of use.
std::string difference(const EntryHeader& stored, const EntryHeader& wanted);

// Model name and instruction sets of this machine's CPU, as one line.
const std::string& machine_identity();

// The version of an engine, with its stamp, so that code that changed under the old version counts
// as new. Throws as get_engine().
std::string engine_identity(const std::string& name);
// Size and time of the library that the engine comes from, or would be loaded from: then nothing is
// loaded. Else of the files that the engine names (EngineInfo::files). Empty for an engine that was
// made in this process and names none, or one that is gone: nothing tells when its code changes.
// Throws as get_engine().
std::string engine_stamp(const std::string& name);

std::filesystem::path entry_path(const std::filesystem::path& dir, const std::string& key);

// Makes the folder (mode 0700) where it is missing. Throws kIo where others may write to it:
// entries are native code.
void prepare_folder(const std::filesystem::path& dir);

struct EntryFile {
  EntryHeader header;
  Tensor payload;               // uint8, mapped
  std::size_t front_bytes = 0;  // of the payload, checked when the entry was opened
  Digest rest_digest;

  // Reads all that follows the front, and says whether it is as it was written.
  bool rest_is_intact() const;
};

// The entry, its header and the front of its payload checked. Nothing where there is none, or where
// it is corrupt, cut off or of another format: that is a warning in the log.
std::optional<EntryFile> open_entry(const std::filesystem::path& path);
// The same where the header is the wanted one; else what differs goes to the log (info).
std::optional<EntryFile> open_entry(const std::filesystem::path& path, const EntryHeader& wanted);
// As open_entry(), all of the payload checked.
std::optional<EntryFile> read_entry(const std::filesystem::path& path);
std::optional<Tensor> read_entry(const std::filesystem::path& path, const EntryHeader& wanted);

// Makes room within XRT_CACHE_MAX_BYTES and `most_bytes`, oldest use first, and writes. The first
// `front_pieces` of the payload are its front. An entry larger than the bound is not kept. Throws
// kIo.
void write_entry(const std::filesystem::path& dir, const std::string& key,
                 const EntryHeader& header, std::span<const std::string_view> payload,
                 std::size_t front_pieces = static_cast<std::size_t>(-1),
                 std::uint64_t most_bytes = static_cast<std::uint64_t>(-1));

// Says what is wrong with a folder that cannot be used, or no longer: one warning in the life of
// the process for each folder, further ones go to the log (info).
void log_trouble(const std::filesystem::path& dir, const std::string& what);

// Runs `write`, which writes into `dir`, soon, on one thread of low priority, so that a first start
// does not wait for the disk. What it throws is trouble with the folder. Jobs still waiting when
// the process ends are done first.
void write_behind(std::filesystem::path dir, std::function<void()> write);
// Returns when all jobs handed over before are done.
void finish_writing();

}  // namespace xrt
