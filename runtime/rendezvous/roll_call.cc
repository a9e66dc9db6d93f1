// The protocol of wishes, seen from both sides. Its steps are in the header; here is what makes them safe:
//
//   A rank that fails withdraws its wish, and one that starts anew leaves a later one. So rank 0, once it has all,
//   looks at each again and starts over with those that changed. It answers only a set that was complete at one look.
//
//   Rank 0 marks wishes as taken after it has answered them. A mark without an answer so cannot be seen, and a rank
//   whose deadline passes can tell from the marks which ranks are absent.
#include "runtime/rendezvous/roll_call.h"

#include <algorithm>

#include "runtime/store/store_keys.h"

namespace rueda::core {
namespace {

/// How many of its last wishes a rank keeps in the store. Rank 0 looks at that many to name the processes that claim a
/// rank; older ones are of no use, and a job that forms epochs for weeks must not fill the store.
constexpr int64_t kWishesKept = 8;

Deadline now() { return Deadline::after(std::chrono::nanoseconds(0)); }

/// Rank 0 gives up a little before the others, so that its answer, which names the missing ranks, reaches them in time.
Deadline somewhat_before(Deadline deadline) {
  if (deadline.is_never()) return deadline;
  const auto left = deadline.left(std::chrono::hours(24));
  return Deadline::at(deadline.when() - std::min<std::chrono::nanoseconds>(left / 10, std::chrono::seconds(1)));
}

}  // namespace

Result<int64_t> RollCall::leave_wish(const Wish& wish) {
  auto number = store_.add(wishes_key(job_, wish.rank), 1);
  if (!number.ok()) return number;
  // Before the wish, with which rank 0 ends the attempt: hvdrun reads the reason too, and rank 0 need not wait for this
  // rank to go.
  if (!wish.unfit.empty()) {
    RUEDA_RETURN_IF_ERROR(store_.set(failed_key(job_, wish.rank, number.value()), wish.unfit));
    RUEDA_RETURN_IF_ERROR(store_.set(gone_key(job_, wish.rank, number.value()), "1"));
  }
  RUEDA_RETURN_IF_ERROR(store_.set(wish_key(job_, wish.rank, number.value()), encode(wish)));
  const int64_t old = number.value() - kWishesKept;
  if (const Status status = old > 0 ? forget_wish(wish.rank, old) : Status(); !status.ok()) return status;
  return number;
}

// hvdrun counts the wishes that came to nothing: with the goodbyes they make up all wishes of a rank that ended well.
Status RollCall::forget_wish(int rank, int64_t number) {
  const auto wish = store_.get(wish_key(job_, rank, number), now());
  const bool withdrawn = wish.ok() && wish.value().empty();
  if (withdrawn || store_.get(failed_key(job_, rank, number), now()).ok()) {
    RUEDA_RETURN_IF_ERROR(store_.add(void_key(job_, rank), 1).status());
  }
  for (const auto key_of : {wish_key, gone_key, failed_key}) {
    RUEDA_RETURN_IF_ERROR(store_.remove(key_of(job_, rank, number)));
  }
  return {};
}

void RollCall::withdraw(int rank, int64_t number, const std::string& nonce) {
  static_cast<void>(store_.set(wish_key(job_, rank, number), ""));
  static_cast<void>(store_.remove(answer_key(job_, nonce)));
  static_cast<void>(store_.set(gone_key(job_, rank, number), "1"));
}

void RollCall::await_withdrawals(Deadline deadline) {
  for (const auto& [rank, number] : answered_) {
    if (rank != 0 && !store_.get(gone_key(job_, rank, number), deadline).ok()) return;
  }
}

Result<uint64_t> RollCall::await_answer(const std::string& nonce, Deadline deadline) {
  auto bytes = store_.get(answer_key(job_, nonce), deadline);
  if (!bytes.ok() && bytes.status().code() == Code::kTimeout) {
    const Status late = who_is_absent();
    // Rank 0 may have answered while this rank looked at the marks; its answer says more.
    bytes = store_.get(answer_key(job_, nonce), now());
    if (!bytes.ok()) return late;
  }
  if (!bytes.ok()) return bytes.status();
  static_cast<void>(store_.remove(answer_key(job_, nonce)));  // only this rank reads it
  const auto epoch = decode_numbers(bytes.value());
  if (!epoch.ok()) return epoch.status();
  if (epoch.value().size() != 1) return Status(Code::kMismatch, "init: rank 0's answer names no epoch", 0);
  return epoch.value().front();
}

Status RollCall::who_is_absent() {
  const auto last = store_.add(wishes_key(job_, 0), 0);
  const auto bytes = store_.get(wish_key(job_, 0, last.ok() ? last.value() : 0), now());
  const auto wish = bytes.ok() ? decode_wish(bytes.value()) : Result<Wish>(bytes.status());
  if (wish.ok() && !wish.value().unfit.empty()) {
    return {Code::kSystem, "init: rank 0 came and could not take part: " + wish.value().unfit, 0};
  }
  std::vector<int> absent;
  for (int rank = 0; rank < size_; ++rank) {
    const auto wishes = store_.add(wishes_key(job_, rank), 0);
    const auto taken = store_.add(taken_key(job_, rank), 0);
    if (wishes.ok() && taken.ok() && wishes.value() <= taken.value()) absent.push_back(rank);
  }
  if (absent.empty()) return {Code::kTimeout, "init: rank 0 did not answer before the deadline", 0};
  return missing(absent);
}

Status RollCall::missing(const std::vector<int>& ranks) {
  const std::string away = store_.turned_away();
  return {Code::kTimeout,
          "init: " + rank_ranges(ranks, names_) + " of " + std::to_string(size_) + " did not come before the deadline" +
              other_sizes() + came_twice() + (away.empty() ? "" : "; " + away),
          ranks.empty() ? -1 : ranks.front()};
}

/// "; rank 1 (host a, pid 7) says that there are 2 ranks", for each rank that came for a job of another size.
std::string RollCall::other_sizes() {
  std::string text;
  for (int rank = 0; rank < size_; ++rank) {
    const auto total = store_.add(wishes_key(job_, rank), 0);
    if (!total.ok() || total.value() == 0) continue;
    const auto bytes = store_.get(wish_key(job_, rank, total.value()), now());
    const auto wish = bytes.ok() ? decode_wish(bytes.value()) : Result<Wish>(bytes.status());
    if (!wish.ok() || wish.value().protocol != kProtocolNumber || wish.value().size == size_) continue;
    const Endpoint& from = wish.value().endpoint;
    text += "; " + rank_name(rank, from.host, from.pid) + " says that there are " + std::to_string(wish.value().size) +
            " ranks";
  }
  return text;
}

/// Returns the processes that claim this rank in its last few wishes: the latest first, each process once.
std::vector<Endpoint> RollCall::claimants(int rank) {
  std::vector<Endpoint> seen;
  const auto total = store_.add(wishes_key(job_, rank), 0);
  const int64_t last = total.ok() ? total.value() : 0;
  for (int64_t number = last; number > std::max<int64_t>(0, last - kWishesKept); --number) {
    const auto bytes = store_.get(wish_key(job_, rank, number), now());
    const auto wish = bytes.ok() ? decode_wish(bytes.value()) : Result<Wish>(bytes.status());
    const auto same = [&](const Endpoint& known) { return known.worker == wish.value().endpoint.worker; };
    if (wish.ok() && std::none_of(seen.begin(), seen.end(), same)) seen.push_back(wish.value().endpoint);
  }
  return seen;
}

/// "; rank 0 came twice: as host a, pid 7 and as host a, pid 8", for each rank that several processes claim. This
/// happens if a launcher does not number its processes.
std::string RollCall::came_twice() {
  const auto process = [](const Endpoint& one) { return "host " + one.host + ", pid " + std::to_string(one.pid); };
  std::string text;
  for (int rank = 0; rank < size_; ++rank) {
    const std::vector<Endpoint> seen = claimants(rank);
    if (seen.size() < 2) continue;
    text += "; rank " + std::to_string(rank) + " came twice: as " + process(seen[1]) + " and as " + process(seen[0]);
  }
  return text;
}

Result<RollCall::Taken> RollCall::take_latest(int rank, Deadline deadline) {
  const auto before = store_.add(taken_key(job_, rank), 0);
  if (!before.ok()) return before.status();
  for (int64_t least = before.value() + 1;;) {
    const auto total = store_.add(wishes_key(job_, rank), 0);
    if (!total.ok()) return total.status();
    const int64_t number = std::max(least, total.value());
    auto bytes = store_.get(wish_key(job_, rank, number), deadline);
    if (!bytes.ok()) return bytes.status();
    if (!bytes.value().empty()) return Taken{number, std::move(bytes).value()};
    least = number + 1;  // withdrawn: wait for the rank's next wish
  }
}

Result<bool> RollCall::still_latest(int rank, const Taken& taken) {
  const auto total = store_.add(wishes_key(job_, rank), 0);
  if (!total.ok()) return total.status();
  if (total.value() > taken.number) return false;
  const auto bytes = store_.get(wish_key(job_, rank, taken.number), now());
  if (!bytes.ok()) return bytes.status();
  return !bytes.value().empty();
}

Status RollCall::mark_taken(int rank, int64_t number) {
  const auto before = store_.add(taken_key(job_, rank), 0);
  if (!before.ok()) return before.status();
  return store_.add(taken_key(job_, rank), number - before.value()).status();
}

/// Returns one wish of each rank; number 0 for a rank that did not come.
Result<std::vector<RollCall::Taken>> RollCall::take_all(Deadline deadline) {
  std::vector<Taken> taken(static_cast<size_t>(size_));
  for (bool again = true; again;) {
    again = false;
    for (int rank = 0; rank < size_; ++rank) {
      Taken& mine = taken[static_cast<size_t>(rank)];
      if (mine.number != 0) {
        const auto still = still_latest(rank, mine);
        if (!still.ok()) return still.status();
        if (still.value()) continue;
        mine = {};
      }
      auto latest = take_latest(rank, deadline);
      if (!latest.ok() && latest.status().code() != Code::kTimeout) return latest.status();
      const bool found = latest.ok();
      if (found) mine = std::move(latest).value();
      again = again || (found && !deadline.passed());  // it may have taken long: look at the others again
    }
  }
  return taken;
}

Result<std::vector<Wish>> RollCall::gather(Deadline deadline, const Status& own) {
  const auto taken = take_all(somewhat_before(deadline));
  if (!taken.ok()) return taken.status();
  std::vector<Wish> wishes;
  std::vector<int> absent;
  Status broken;
  for (int rank = 0; rank < size_; ++rank) {
    const Taken& one = taken.value()[static_cast<size_t>(rank)];
    if (one.number == 0) {
      absent.push_back(rank);
      continue;
    }
    taken_.emplace_back(rank, one.number);
    auto wish = decode_wish(one.bytes);
    if (wish.ok()) {
      wishes.push_back(std::move(wish).value());
      answered_.emplace_back(rank, one.number);
    } else {
      broken = Status(Code::kMismatch, "init: rank " + std::to_string(rank) + ": " + wish.status().sentence(), rank);
    }
  }
  Status verdict = own;
  if (verdict.ok()) verdict = absent.empty() ? broken : missing(absent);
  if (verdict.ok()) return wishes;
  RUEDA_RETURN_IF_ERROR(answer(wishes, verdict, 0));
  return verdict;
}

Status RollCall::answer(const std::vector<Wish>& wishes, const Status& status, uint64_t epoch) {
  const std::string bytes = encode(status, status.ok() ? std::vector<uint64_t>{epoch} : std::vector<uint64_t>{});
  // Answers before marks: a rank that sees its mark may rely on the answer.
  for (const Wish& wish : wishes) {
    if (wish.unfit.empty()) RUEDA_RETURN_IF_ERROR(store_.set(answer_key(job_, wish.nonce), bytes));
  }
  for (const auto& [rank, number] : taken_) RUEDA_RETURN_IF_ERROR(mark_taken(rank, number));
  taken_.clear();
  return {};
}

}  // namespace rueda::core
