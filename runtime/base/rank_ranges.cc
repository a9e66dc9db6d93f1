// How sentences name ranks. Ranges make a list of thousands readable: "ranks 0-4095" instead of 4,096 numbers. A range
// ends where the numbers or the host change, and in an elastic job where the numbers of the workers do not go on with
// those of the ranks: then each number of a range says which worker it is.
#include "runtime/base/rank_ranges.h"

#include <algorithm>
#include <utility>

namespace rueda::core {
namespace {

/// What is known of one rank.
struct RankFacts {
  std::string host;
  int64_t worker = -1;
};

RankFacts known_of(int rank, const RankNames& names) {
  const auto at = static_cast<size_t>(rank);
  return {at < names.hosts.size() ? names.hosts[at] : std::string(),
          at < names.workers.size() ? names.workers[at] : int64_t{-1}};
}

/// Whether the rank after the one of `before` may stand in the same range.
bool goes_on(const RankFacts& before, const RankFacts& after) {
  const int64_t next = before.worker < 0 ? before.worker : before.worker + 1;
  return before.host == after.host && after.worker == next;
}

/// "rank 3", "ranks 0-2", "workers 4-6".
template <typename Number>
std::string numbers(const char* what, Number first, Number last) {
  const std::string from = " " + std::to_string(first);
  return first == last ? what + from : what + ("s" + from) + "-" + std::to_string(last);
}

/// " (workers 4-6, host a)", with what is known of it; empty if nothing is.
std::string in_brackets(const std::string& workers, const std::string& host) {
  if (workers.empty() && host.empty()) return {};
  const char* const between = workers.empty() || host.empty() ? "" : ", ";
  return " (" + workers + between + (host.empty() ? host : "host " + host) + ")";
}

}  // namespace

std::string rank_name(int rank, std::string_view host, int64_t pid, int64_t worker) {
  std::string text = "rank " + std::to_string(rank) + " (";
  if (worker >= 0) text += "worker " + std::to_string(worker) + ", ";
  text += "host ";
  text += host;
  if (pid != 0) text += ", pid " + std::to_string(pid);
  return text + ")";
}

std::string worker_name(int64_t worker, int rank, uint64_t plan) {
  std::string name = "rank " + std::to_string(rank);
  if (worker < 0) return name;
  if (plan == 0) return "worker " + std::to_string(worker);
  return "worker " + std::to_string(worker) + " (" + name + " of plan " + std::to_string(plan) + ")";
}

std::string in_plan(uint64_t plan) { return plan == 0 ? std::string() : " in plan " + std::to_string(plan); }

std::string rank_ranges(std::span<const int> ranks, const RankNames& names) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    const RankFacts first = known_of(ranks[i], names);
    RankFacts last = first;
    size_t next = i + 1;
    for (; next < ranks.size() && ranks[next] == ranks[next - 1] + 1; ++next) {
      RankFacts known = known_of(ranks[next], names);
      if (!goes_on(last, known)) break;
      last = std::move(known);
    }
    text += (text.empty() ? "" : ", ") + numbers("rank", ranks[i], ranks[next - 1]);
    text += in_brackets(first.worker < 0 ? "" : numbers("worker", first.worker, last.worker), first.host);
    i = next;
  }
  return text;
}

std::string bounded_rank_ranges(std::span<const int> ranks, const RankNames& names, size_t most_bytes) {
  std::string text = rank_ranges(ranks, names);
  if (text.size() <= most_bytes) return text;
  // Cut before a whole range; a first range that is too long is cut anywhere.
  text.resize(std::min(text.rfind(", rank", most_bytes), most_bytes));
  return text + ", ... (" + std::to_string(ranks.size()) + " ranks in all)";
}

}  // namespace rueda::core
