// Where a flight record goes, and what it says to people: a file, lines for the log, one line for a stall report. A
// file is written beside its target and renamed, because a process that dies may be writing it: a reader finds the
// whole record or the previous one, never a part.
#include "runtime/diagnosis/dump_file.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "runtime/diagnosis/replaceable.h"

namespace rueda::core {
namespace {

constexpr size_t kMostInFlight = 16;
constexpr size_t kMostOver = 8;
constexpr size_t kMostNow = 3;
constexpr std::string_view kPlaceholder = "{rank}";

/// `proposed 1.204 s ago`.
std::string since(const DumpedOp& op, const RankDump& dump) {
  return fmt::format("{} {:.3f} s ago", name_of(op.state), dump.taken - op.when[static_cast<size_t>(op.state)]);
}

/// `allreduce "w" (f32, 10 elements), proposed 1.204 s ago`.
std::string what(const DumpedOp& op, const RankDump& dump) {
  return fmt::format("{}{}, {}", op.describe(), dump.of_set(op.set), since(op, dump));
}

/// Returns how far an operation has come, or had come before it failed: "failed" alone would hide that.
OpState furthest(const DumpedOp& op) {
  auto state = OpState::kEnqueued;
  for (const OpState each : {OpState::kProposed, OpState::kAgreed, OpState::kStarted, OpState::kLaunched}) {
    if (op.when[static_cast<size_t>(each)] > 0) state = each;
  }
  return state;
}

void add(std::vector<std::string>& lines, const char* title, const std::vector<const DumpedOp*>& ops,
         const RankDump& dump, size_t most) {
  if (ops.empty()) return;
  lines.push_back(fmt::format("{}: {}", dump.who(), title));
  const size_t shown = std::min(ops.size(), most);
  for (size_t i = 0; i < shown; ++i) {
    const DumpedOp& op = *ops[i];
    lines.push_back(fmt::format("{}:   #{} {}{}: {}{}", dump.who(), op.number, op.describe(), dump.of_set(op.set),
                                since(op, dump), op.error.empty() ? "" : " with " + op.error));
  }
  if (shown < ops.size()) lines.push_back(fmt::format("{}:   and {} more", dump.who(), ops.size() - shown));
}

}  // namespace

std::string dump_path(const std::string& path, int rank) {
  if (path.find(kPlaceholder) == std::string::npos) return fmt::format("{}.{}", path, rank);
  std::string filled = path;
  const std::string number = std::to_string(rank);
  // Goes on behind the number it wrote, so it never looks at its own text again.
  for (size_t at = filled.find(kPlaceholder); at != std::string::npos;
       at = filled.find(kPlaceholder, at + number.size())) {
    filled.replace(at, kPlaceholder.size(), number);
  }
  return filled;
}

Status write_dump(const RankDump& dump, const std::string& path) {
  return replace_file("flight record", dump_path(path, dump.rank), to_json(dump) + "\n");
}

std::vector<std::string> dump_lines(const RankDump& dump) {
  std::vector<const DumpedOp*> in_flight;
  std::vector<const DumpedOp*> over;
  for (const DumpedOp& op : dump.operations) (op.state < OpState::kFinished ? in_flight : over).push_back(&op);
  std::reverse(over.begin(), over.end());
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{} of {} (host {}, pid {}): flight record of {} operations, {} in flight; status: {}",
                              dump.who(), dump.size, dump.host, dump.pid, dump.operations.size(), in_flight.size(),
                              dump.status));
  if (!dump.activity.empty()) lines.push_back(fmt::format("{}: the program says: {}", dump.who(), dump.activity));
  add(lines, "in flight, the oldest first:", in_flight, dump, kMostInFlight);
  add(lines, "over, the last first:", over, dump, kMostOver);
  return lines;
}

std::string now_doing(const RankDump& dump) {
  std::vector<std::string> in_flight;
  for (const DumpedOp& op : dump.operations) {
    if (op.state < OpState::kFinished) in_flight.push_back(what(op, dump));
  }
  std::string text;
  const size_t count = in_flight.size();
  in_flight.resize(std::min(count, kMostNow));
  if (count > 0) {
    text = fmt::format("has {} in flight: {}{}", count, fmt::join(in_flight, "; "), count > kMostNow ? "; ..." : "");
  } else if (dump.operations.empty()) {
    text = "has never submitted anything";
  } else {
    std::vector<std::string> last;
    for (auto op = dump.operations.rbegin(); op != dump.operations.rend() && last.size() < kMostNow; ++op) {
      last.push_back(what(*op, dump));
    }
    text = fmt::format("has nothing in flight; its last was {}", fmt::join(last, ", after "));
  }
  return dump.activity.empty() ? text : fmt::format("{}; it says: {}", text, dump.activity);
}

std::string last_words(const RankDump& dump) {
  std::vector<const DumpedOp*> unfinished;
  const double moment = dump.taken - 1.0;  // operations that the error itself has ended failed within this second
  for (const DumpedOp& op : dump.operations) {
    const bool ended_now = op.state == OpState::kFailed && op.when[static_cast<size_t>(OpState::kFailed)] > moment;
    if (op.state < OpState::kFinished || ended_now) unfinished.push_back(&op);
  }
  std::string text = fmt::format("{}: the epoch is over: {}; ", dump.who(), dump.status);
  if (unfinished.empty()) return text + "nothing was in flight";
  const DumpedOp& oldest = *unfinished.front();
  return text + fmt::format("{} operation{} had not finished, the oldest: {}{}, enqueued {:.3f} s ago, {}",
                            unfinished.size(), unfinished.size() == 1 ? "" : "s", oldest.describe(),
                            dump.of_set(oldest.set), dump.taken - oldest.when[static_cast<size_t>(OpState::kEnqueued)],
                            name_of(furthest(oldest)));
}

}  // namespace rueda::core
