// A rank's flight record as JSON and back. Every field is written by `to_json` and read by `dump_from_json`, in the
// same order; "format" comes first, so that a reader knows at once whether it understands the rest. Times are turned
// into seconds since 1970 here, because steady clocks of different hosts have nothing to do with each other.
#include "runtime/diagnosis/dump.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/printable.h"
#include "runtime/base/rank_ranges.h"
#include "runtime/diagnosis/set_words.h"

namespace rueda::core {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "rueda flight record 1";

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

Json to_json(const DumpedOp& op) {
  Json json = {{"number", op.number}, {"set", op.set},     {"kind", op.kind},
               {"name", op.name},     {"dtype", op.dtype}, {"count", op.count}};
  json["state"] = name_of(op.state);
  if (!op.error.empty()) json["error"] = op.error;
  // Fields that mean nothing yet are left out, so that a reader sees at once how far an operation came.
  if (op.batch) json["batch"] = *op.batch;
  if (op.batch) json["algorithm"] = op.algorithm;
  for (int state = 0; state < kOpStates; ++state) {
    const double when = op.when[static_cast<size_t>(state)];
    if (when > 0) json[name_of(static_cast<OpState>(state))] = when;
  }
  return json;
}

DumpedOp op_from_json(const Json& json) {
  DumpedOp op;
  op.number = json.at("number").get<uint64_t>();
  op.set = json.at("set").get<uint32_t>();
  op.kind = json.at("kind").get<std::string>();
  op.name = json.at("name").get<std::string>();
  op.dtype = json.at("dtype").get<std::string>();
  op.count = json.at("count").get<int64_t>();
  op.error = json.value("error", "");
  if (json.contains("batch")) op.batch = json.at("batch").get<uint64_t>();
  // Absent, like the batch, in the record of an operation that is in no batch yet.
  op.algorithm = json.value("algorithm", "");
  for (int state = 0; state < kOpStates; ++state) {
    const char* name = name_of(static_cast<OpState>(state));
    op.when[static_cast<size_t>(state)] = json.value(name, 0.0);
    if (json.at("state").get<std::string>() == name) op.state = static_cast<OpState>(state);
  }
  return op;
}

}  // namespace

double unix_now() { return seconds(std::chrono::system_clock::now().time_since_epoch()); }

std::string DumpedOp::describe() const {
  std::string text = kind;
  if (!name.empty()) text += fmt::format(" \"{}\"", printable(name));
  if (!dtype.empty() && kind != name_of(OpKind::kJoin)) text += fmt::format(" ({}, {} elements)", dtype, count);
  return text;
}

std::string RankDump::who() const { return worker_name(worker_of(rank), rank, plan); }

int64_t RankDump::worker_of(int other) const {
  const auto at = static_cast<size_t>(other);
  return other >= 0 && at < workers.size() ? workers[at] : -1;
}

std::string RankDump::of_set(uint32_t set_number) const {
  if (set_number == 0) return {};
  const auto found =
      std::find_if(sets.begin(), sets.end(), [set_number](const DumpedSet& set) { return set.number == set_number; });
  return found != sets.end() ? core::of_set(found->name, found->ranks) : " of a process set that was removed";
}

std::vector<DumpedOp> dumped(std::span<const OpRecord> records,
                             const std::function<std::string(uint8_t)>& algorithm_name) {
  // One offset for all records: their order and distances stay those of the steady clock.
  const double offset = unix_now() - seconds(SteadyClock::now().time_since_epoch());
  std::vector<DumpedOp> ops;
  ops.reserve(records.size());
  for (const OpRecord& record : records) {
    DumpedOp& op = ops.emplace_back();
    op.number = record.number;
    op.set = record.set;
    op.kind = name_of(record.kind);
    op.name = record.name();
    if (record.kind != OpKind::kBarrier) op.dtype = name_of(record.dtype);
    op.count = record.count;
    op.state = record.state;
    if (record.error != Code::kOk) op.error = code_name(record.error);
    if (record.batch != OpRecord::kNoBatch) {
      op.batch = record.batch;
      op.algorithm = algorithm_name(record.algorithm);
    }
    for (size_t state = 0; state < op.when.size(); ++state) {
      const auto since_epoch = record.when[state].time_since_epoch();
      if (since_epoch.count() != 0) op.when[state] = seconds(since_epoch) + offset;
    }
  }
  return ops;
}

std::string to_json(const RankDump& dump) {
  Json json = {{"format", kFormat}, {"job", dump.job}, {"epoch", dump.epoch}};
  if (!dump.workers.empty()) {
    json["plan"] = dump.plan;
    json["worker"] = dump.worker_of(dump.rank);
    json["workers"] = dump.workers;
  }
  json["rank"] = dump.rank;
  json["size"] = dump.size;
  json["host"] = dump.host;
  json["pid"] = dump.pid;
  json["taken"] = dump.taken;
  json["status"] = dump.status;
  json["activity"] = dump.activity;
  json["left_out"] = dump.left_out;
  json["process_sets"] = Json::array();
  for (const DumpedSet& set : dump.sets) {
    json["process_sets"].push_back({{"number", set.number}, {"name", set.name}, {"ranks", set.ranks}});
  }
  json["operations"] = Json::array();
  for (const DumpedOp& op : dump.operations) json["operations"].push_back(to_json(op));
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

/// Leaves out operations until the text fits. Those that are over go first, the oldest first, then the youngest in
/// flight: the oldest in flight is what a reader needs. Each round estimates from the size of the text how many can
/// stay, and keeps half as many, so few rounds are needed.
std::string to_json_within(RankDump dump, size_t most) {
  std::string json = to_json(dump);
  while (json.size() > most && !dump.operations.empty()) {
    const size_t count = dump.operations.size() - dump.operations.size() * most / json.size() / 2;
    size_t left = count;
    std::erase_if(dump.operations,
                  [&left](const DumpedOp& op) { return op.state >= OpState::kFinished && left > 0 && left-- > 0; });
    dump.operations.resize(dump.operations.size() - left);
    dump.left_out += count;
    json = to_json(dump);
  }
  return json;
}

Result<RankDump> dump_from_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (json.at("format").get<std::string>() != kFormat)
      throw std::runtime_error("its \"format\" is not \"" + std::string(kFormat) + "\"");
    RankDump dump;
    dump.job = json.at("job").get<std::string>();
    dump.epoch = json.at("epoch").get<uint64_t>();
    dump.rank = json.at("rank").get<int>();
    dump.size = json.at("size").get<int>();
    if (json.contains("plan")) {
      dump.plan = json.at("plan").get<uint64_t>();
      dump.workers = json.at("workers").get<std::vector<int64_t>>();
      if (dump.workers.size() != static_cast<size_t>(dump.size))
        throw std::runtime_error(fmt::format("it names {} workers for {} ranks", dump.workers.size(), dump.size));
    }
    dump.host = json.at("host").get<std::string>();
    dump.pid = json.at("pid").get<int64_t>();
    dump.taken = json.at("taken").get<double>();
    dump.status = json.at("status").get<std::string>();
    dump.activity = json.at("activity").get<std::string>();
    dump.left_out = json.at("left_out").get<uint64_t>();
    for (const Json& set : json.at("process_sets")) {
      dump.sets.push_back({set.at("number").get<uint32_t>(), set.at("name").get<std::string>(),
                           set.at("ranks").get<std::vector<int>>()});
    }
    for (const Json& op : json.at("operations")) dump.operations.push_back(op_from_json(op));
    return dump;
  } catch (const std::exception& error) {
    return Status(Code::kInvalidArgument, fmt::format("this is not a flight record: {}", error.what()));
  }
}

}  // namespace rueda::core
