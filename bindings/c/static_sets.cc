// The process sets of rueda_init: read and checked before any other rank is met, compared among the ranks as text, and
// added to each engine of the session.
#include "bindings/c/static_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "bindings/c/copy_in.h"
#include "runtime/base/own_names.h"
#include "runtime/base/rank_ranges.h"

namespace rueda::core {

std::string in_words(std::vector<StaticSet> sets) {
  constexpr size_t kMostShown = 512;
  std::string words;
  for (StaticSet& set : sets) {
    std::sort(set.ranks.begin(), set.ranks.end());
    words += (words.empty() ? "" : "; ") + (set.lost.empty() ? rank_ranges(set.ranks, {}) : "lost");
  }
  if (words.empty()) return "none";
  if (words.size() <= kMostShown) return words;
  // All ranks run the same build, so their hashes agree.
  return fmt::format("{}... ({} sets, {:016x})", words.substr(0, kMostShown), sets.size(),
                     std::hash<std::string>()(words));
}

/// A set of rueda_init is like any other set; its name holds its index.
Status add_static_sets(Engine& engine, const std::vector<StaticSet>& sets) {
  for (size_t i = 0; i < sets.size(); ++i) {
    if (!sets[i].lost.empty()) {
      engine.add_lost_set(sets[i].lost);
      continue;
    }
    const Result<SetId> added =
        engine.add_process_set(sets[i].ranks, std::string(kOwnNames) + "init." + std::to_string(i + 1));
    if (!added.ok()) return added.status();
  }
  return {};
}

Result<std::vector<StaticSet>> static_sets(const rueda_init_options& options, int size) {
  std::vector<StaticSet> sets;
  ProcessSets checked(0, size);
  if (options.process_set_count != 0 && options.process_sets == nullptr) {
    return Status(Code::kInvalidArgument, "process_sets is NULL");
  }
  const auto* at = reinterpret_cast<const std::byte*>(options.process_sets);
  for (size_t i = 0; i < options.process_set_count; ++i) {
    const auto* given = reinterpret_cast<const rueda_process_set*>(at);
    rueda_process_set set{};
    RUEDA_RETURN_IF_ERROR(copy_in(given, "rueda_process_set", set));
    const int32_t* ranks = set.ranks;
    if (ranks == nullptr)
      return Status(Code::kInvalidArgument, "process_sets[" + std::to_string(i) + "].ranks is NULL");
    sets.push_back({{ranks, ranks + set.count}});
    RUEDA_RETURN_IF_ERROR(checked.add(sets.back().ranks, {}).status());
    at += given->struct_size;  // the caller's header may know a longer or shorter struct
  }
  return sets;
}

}  // namespace rueda::core
