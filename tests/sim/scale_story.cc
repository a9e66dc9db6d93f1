// What happens in the large job: start-up, steps, a mismatch, a join and a death.
#include <algorithm>
#include <numeric>

#include "tests/sim/scale_run.h"

namespace rueda::sim {
namespace {

/// Steps until every tensor has its id and every rank knows it.
constexpr int kWarmUp = 3;
constexpr size_t kMostViolations = 20;

}  // namespace

ScaleReport Scale::run() {
  start_up();
  for (int step = 0; step < job_.steps; ++step) take_step(step);
  mismatch();
  join();
  death();
  return report_;
}

void Scale::violated(const std::string& what) {
  if (report_.violations.size() < kMostViolations) report_.violations.push_back(what);
}

/// Every rank connects to those that its plan names: both ends know of each connection, no rank has too many, and
/// together they reach all ranks.
void Scale::start_up() {
  std::vector<std::vector<int>> peers;
  for (plan_.rank = 0; plan_.rank < job_.ranks; ++plan_.rank) {
    peers.push_back(core::control_peers(plan_));
    report_.control_connections += peers.back().size();
    report_.max_control_connections = std::max(report_.max_control_connections, static_cast<int>(peers.back().size()));
  }
  report_.control_connections /= 2;
  std::vector<char> reached(peers.size());
  std::deque<int> next = {0};
  reached[0] = 1;
  for (; !next.empty(); next.pop_front()) {
    for (const int peer : peers[static_cast<size_t>(next.front())]) {
      const std::vector<int>& theirs = peers[static_cast<size_t>(peer)];
      if (!std::binary_search(theirs.begin(), theirs.end(), next.front())) {
        violated("start-up: rank " + std::to_string(peer) + " does not expect rank " + std::to_string(next.front()));
      }
      if (std::exchange(reached[static_cast<size_t>(peer)], char{1}) == 0) next.push_back(peer);
    }
  }
  if (std::count(reached.begin(), reached.end(), 1) != job_.ranks)
    violated("start-up: rank 0 does not reach all ranks");
}

void Scale::check_quiet(const std::string& when) {
  for (int number = 0; number < job_.ranks; ++number) {
    if (rank(number).pending != 0) violated(when + ": rank " + std::to_string(number) + " still waits");
    if (rank(number).order != rank(0).order) violated(when + ": rank " + std::to_string(number) + " has another order");
  }
  for (const ScaleHost& each : hosts_) {
    if (!each.dead && each.relay->held() != 0) violated(when + ": a relay holds proposals although nothing is missing");
  }
}

void Scale::take_step(int step) {
  for (ScaleHost& each : hosts_) each.up_bytes = 0;
  root_messages_ = 0;
  root_bytes_ = 0;
  std::vector<int> all(static_cast<size_t>(job_.ranks));
  std::iota(all.begin(), all.end(), 0);
  submit_all(all);
  settle();
  check_quiet("step " + std::to_string(step));
  if (step < kWarmUp) return;
  for (const ScaleHost& each : hosts_) {
    const double bytes = static_cast<double>(each.up_bytes) / job_.tensors;
    report_.bytes_per_tensor_per_step = std::max(report_.bytes_per_tensor_per_step, bytes);
  }
  report_.rank0_messages_per_step = std::max(report_.rank0_messages_per_step, root_messages_);
  report_.rank0_bytes_per_step = std::max(report_.rank0_bytes_per_step, root_bytes_);
}

/// One rank gives another shape: all get one sentence, and the next step is as any.
void Scale::mismatch() {
  const int wrong = job_.ranks - 1 - static_cast<int>(random_.below(static_cast<size_t>(job_.ranks) / 2));
  for (int number = 0; number < job_.ranks; ++number) {
    submit(number, 7, number == wrong ? 1 : 107);
    pump(host_of_[static_cast<size_t>(number)]);
    if (random_.once_in(8)) move_some(4);
  }
  settle();
  const std::string expected = "rank " + std::to_string(wrong) + " (host ";
  for (int number = 0; number < job_.ranks; ++number) {
    const std::vector<std::string>& errors = rank(number).errors;
    if (errors.size() != 1 || errors != rank(0).errors) violated("the mismatch: another sentence on some rank");
    if (errors.size() == 1 && errors.front().find(expected) == std::string::npos)
      violated("the mismatch: " + errors.front());
  }
  check_quiet("the mismatch");
  take_step(0);
}

/// Every seventh rank joins early; the others take two more steps without it.
void Scale::join() {
  std::vector<int> others;
  for (int number = 0; number < job_.ranks; ++number) {
    if (number % 7 != 3) {
      others.push_back(number);
      continue;
    }
    submit_join(number);
    pump(host_of_[static_cast<size_t>(number)]);
  }
  move_some(1000);
  for (int step = 0; step < 2; ++step) {
    submit_all(others);
    settle();
  }
  random_.shuffle(others);
  for (const int number : others) {
    submit_join(number);
    pump(host_of_[static_cast<size_t>(number)]);
    if (random_.once_in(8)) move_some(4);
  }
  settle();
  for (int number = 0; number < job_.ranks; ++number) {
    if (rank(number).last_joined < 0 || rank(number).last_joined != rank(0).last_joined) {
      violated("the join: rank " + std::to_string(number) + " does not know which rank was the last");
    }
  }
  check_quiet("the join");
  take_step(0);
}

/// A leader dies in the middle of a step. Who has a connection with it, or shares its host, sees that by itself, and
/// passes the news on over the other edges of the tree.
void Scale::death() {
  if (tree_.hosts() < 2) return;
  const int dead = 1 + static_cast<int>(random_.below(static_cast<size_t>(tree_.hosts()) - 1));
  for (int number = 0; number < job_.ranks / 2; ++number) submit(number, 0, 100);
  host(dead).dead = true;
  const int victim = host(dead).locals.front();
  const core::Status why(core::Code::kPeerLost, "rank " + std::to_string(victim) + " died", victim);
  const auto end = [&](int number) {
    rank(number).participant->end(why);
    collect(number);
  };
  std::deque<std::pair<int, int>> told;
  for (size_t i = 1; i < host(dead).locals.size(); ++i) end(host(dead).locals[i]);
  told.emplace_back(core::ControlTree::parent(dead), 1);
  for (const int child : host(dead).below) told.emplace_back(child, 1);
  int farthest = 0;
  for (; !told.empty(); told.pop_front()) {
    const auto [number, hops] = told.front();
    ScaleHost& self = host(number);
    if (self.dead || std::exchange(self.ended, true)) continue;
    farthest = std::max(farthest, hops);
    for (const int local : self.locals) end(local);
    if (number != 0) told.emplace_back(core::ControlTree::parent(number), hops + 1);
    for (const int child : self.below) told.emplace_back(child, hops + 1);
  }
  if (farthest > 2 * tree_.depth()) violated("the death: news took more than twice the depth");
  for (int number = 0; number < job_.ranks; ++number) {
    if (number == victim) continue;
    if (rank(number).pending != 0) violated("the death: rank " + std::to_string(number) + " waits for ever");
    submit(number, 1, 101);
    if (rank(number).errors.empty() || rank(number).errors.back().find(why.sentence()) == std::string::npos) {
      violated("the death: rank " + std::to_string(number) + " does not name it");
    }
  }
}

}  // namespace rueda::sim
