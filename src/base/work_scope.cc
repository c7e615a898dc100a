// SPDX-License-Identifier: Apache-2.0
#include "base/work_scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/memory.h"
#include "xrt/error.h"

namespace xrt {
namespace {

thread_local const WorkScope* current_scope = nullptr;

}  // namespace

WorkScope::WorkScope(const RunLimit* limit, std::string_view what)
    : outer_(current_scope), limit_(limit), what_(what) {
  current_scope = this;
}

WorkScope::WorkScope(std::shared_ptr<MemoryAccount> account, std::size_t most, bool may_stop)
    : outer_(current_scope),
      limit_(outer_ == nullptr ? nullptr : outer_->limit_),
      what_(outer_ == nullptr ? std::string_view() : outer_->what_),
      account_(std::move(account)),
      most_(most),
      may_stop_(may_stop && (nearest_with_account() == nullptr || WorkScope::may_stop())) {
  current_scope = this;
}

WorkScope::~WorkScope() { current_scope = outer_; }

const WorkScope* WorkScope::current() { return current_scope; }

const RunLimit* WorkScope::time_limit() {
  return current_scope == nullptr ? nullptr : current_scope->limit_;
}

bool WorkScope::may_stop() {
  const WorkScope* nearest = nearest_with_account();
  return nearest != nullptr && nearest->may_stop_;
}

void WorkScope::check_time() {
  const RunLimit* limit = time_limit();
  if (limit == nullptr || !limit->is_over()) return;
  std::string message(current_scope->what_);
  if (limit->is_cancelled()) throw Error(ErrorCode::kResource, message + " was cancelled");
  throw Error(ErrorCode::kResource,
              fmt::format("{} takes longer than its limit of {:g} s", message, limit->seconds()));
}

const WorkScope* WorkScope::nearest_with_account() {
  const WorkScope* scope = current_scope;
  while (scope != nullptr && scope->account_ == nullptr) scope = scope->outer_;
  return scope;
}

void WorkScope::throw_without_room(const WorkScope* nearest, std::size_t bytes,
                                   const std::function<std::string()>& what) {
  std::int64_t held = nearest->account_->characters.load(std::memory_order_relaxed);
  for (const WorkScope* scope = nearest; scope != nullptr; scope = scope->outer_) {
    if (scope->account_ == nullptr) continue;
    held += scope->account_->bytes.load(std::memory_order_relaxed);
    const auto there = static_cast<std::size_t>(std::max<std::int64_t>(held, 0));
    if (there <= scope->most_ && bytes <= scope->most_ - there) continue;
    throw Error(ErrorCode::kResource, what() + " needs " + std::to_string(bytes) + " bytes; " +
                                          std::to_string(there) + " of the " +
                                          std::to_string(scope->most_) +
                                          " that it may take (max_memory_bytes) are in use");
  }
}

std::shared_ptr<MemoryAccount> WorkScope::charge(std::size_t bytes, DType dtype, const Dims& dims) {
  return charge(bytes,
                [&] { return "a tensor " + std::string(to_string(dtype)) + to_string(dims); });
}

void WorkScope::check_room(std::size_t bytes, const std::function<std::string()>& what) {
  const WorkScope* nearest = nearest_with_account();
  if (nearest != nullptr) throw_without_room(nearest, bytes, what);
}

std::shared_ptr<MemoryAccount> WorkScope::charge(std::size_t bytes,
                                                 const std::function<std::string()>& what) {
  const WorkScope* nearest = nearest_with_account();
  if (nearest == nullptr) return nullptr;
  throw_without_room(nearest, bytes, what);
  nearest->account_->bytes.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  return nearest->account_;
}

void WorkScope::charge_characters(std::size_t bytes) {
  if (bytes <= kCharactersInPlace) return;
  bytes += kBesideCharacters;
  const WorkScope* nearest = nearest_with_account();
  if (nearest == nullptr) return;
  throw_without_room(nearest, bytes, [] { return std::string("a string"); });
  nearest->account_->characters.fetch_add(static_cast<std::int64_t>(bytes),
                                          std::memory_order_relaxed);
}

void WorkScope::forget_characters() {
  const WorkScope* nearest = nearest_with_account();
  if (nearest != nullptr) nearest->account_->characters.store(0, std::memory_order_relaxed);
}

std::shared_ptr<MemoryAccount> WorkScope::outer_account() {
  const WorkScope* scope = nearest_with_account();
  if (scope == nullptr) return nullptr;
  scope = scope->outer_;
  while (scope != nullptr && scope->account_ == nullptr) scope = scope->outer_;
  return scope == nullptr ? nullptr : scope->account_;
}

InheritedScope::InheritedScope(const WorkScope* scope)
    : own_(std::exchange(current_scope, scope)) {}

InheritedScope::~InheritedScope() { current_scope = own_; }

std::size_t memory_bound(std::size_t max_memory_bytes) {
  // The rest is for weights, engines and everybody else.
  static const std::size_t most = machine_memory() / 10 * 9;
  return max_memory_bytes > 0 ? max_memory_bytes : most;
}

}  // namespace xrt
