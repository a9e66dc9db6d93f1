// Inputs and expected arrivals of allgather, gather, scatter and all-to-all by formula. Numbers of rows differ from
// member to member and are sometimes zero. Bytes repeat with a prime period, so a shift by any block size shows.
#include "tests/support/exchange_case.h"

#include <algorithm>
#include <numeric>

#include "tests/support/collective_case.h"

namespace rueda::core {

namespace {

size_t row_bytes(const CollectiveCase& test) { return static_cast<size_t>(test.row) * size_of(test.dtype); }

/// Rows that `member` has for the member at `place`, or for all: about a tensor's `counts` of rows, and none at times
/// where these are few.
int64_t rows_for(const CollectiveCase& test, size_t tensor, int member, int64_t place) {
  const int64_t odd = (int64_t{member} * 7 + place * 3 + static_cast<int64_t>(tensor) * 5 + test.salt) % 4;
  return odd == 3 && test.counts[tensor] < 100'000 ? 0 : test.counts[tensor] + odd;
}

bool same_for_all(OpKind kind) { return kind == OpKind::kAllgather || kind == OpKind::kGather; }

std::vector<int> members_by_rank(const Team& team) {
  std::vector<int> members(team.ranks.size());
  std::iota(members.begin(), members.end(), 0);
  std::sort(members.begin(), members.end(),
            [&](int a, int b) { return team.ranks[static_cast<size_t>(a)] < team.ranks[static_cast<size_t>(b)]; });
  return members;
}

/// Bytes [begin, begin + length) of what a member sends of a tensor.
std::vector<std::byte> sent_bytes(const CollectiveCase& test, int member, size_t tensor, size_t begin, size_t length) {
  constexpr size_t kPeriod = 251;
  std::vector<std::byte> bytes(length);
  for (size_t i = 0; i < std::min(kPeriod, length); ++i) {
    bytes[i] = static_cast<std::byte>(
        ((begin + i) * 37 + static_cast<size_t>(member) * 101 + tensor * 11 + static_cast<size_t>(test.salt)) %
        kPeriod);
  }
  for (size_t done = kPeriod; done < length; done *= 2) {
    std::copy_n(bytes.begin(), std::min(done, length - done), bytes.begin() + static_cast<int64_t>(done));
  }
  return bytes;
}

/// How many rows a member has for each place, or for all.
std::vector<int64_t> sent_parts(const CollectiveCase& test, const Team& team, int member, size_t tensor) {
  std::vector<int64_t> parts;
  const int64_t places = same_for_all(test.kind) ? 1 : team.size();
  for (int64_t place = 0; place < places; ++place) parts.push_back(rows_for(test, tensor, member, place));
  return parts;
}

}  // namespace

ExchangeInput exchange_input(const CollectiveCase& test, const Team& team, int member, size_t tensor) {
  ExchangeInput input;
  input.parts = sent_parts(test, team, member, tensor);
  const int64_t rows = std::accumulate(input.parts.begin(), input.parts.end(), int64_t{0});
  input.bytes = sent_bytes(test, member, tensor, 0, static_cast<size_t>(rows) * row_bytes(test));
  return input;
}

std::byte* Arrived::place(size_t tensor, std::span<const int64_t> rows) {
  tensors.resize(std::max(tensors.size(), tensor + 1));
  const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  tensors[tensor].resize(static_cast<size_t>(all) * row_bytes(case_));
  return tensors[tensor].data();
}

std::vector<std::vector<std::byte>> expected_arrivals(const CollectiveCase& test, const Team& team) {
  std::vector<std::vector<std::byte>> expected(test.counts.size());
  if (test.kind == OpKind::kGather && team.index != test.root) return {};
  const std::vector<int> by_rank = members_by_rank(team);
  const auto own = static_cast<size_t>(std::find(by_rank.begin(), by_rank.end(), team.index) - by_rank.begin());
  for (size_t tensor = 0; tensor < expected.size(); ++tensor) {
    for (const int member : by_rank) {
      if (test.kind == OpKind::kScatter && member != test.root) continue;
      const std::vector<int64_t> parts = sent_parts(test, team, member, tensor);
      const size_t part = same_for_all(test.kind) ? 0 : own;
      const auto before = std::accumulate(parts.begin(), parts.begin() + static_cast<int64_t>(part), int64_t{0});
      const std::vector<std::byte> rows =
          sent_bytes(test, member, tensor, static_cast<size_t>(before) * row_bytes(test),
                     static_cast<size_t>(parts[part]) * row_bytes(test));
      expected[tensor].insert(expected[tensor].end(), rows.begin(), rows.end());
    }
  }
  return expected;
}

}  // namespace rueda::core
