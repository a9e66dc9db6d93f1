#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "runtime/engine/tune_file.h"
#include "runtime/rendezvous/locality.h"
#include "tests/runtime/engine/engine_ranks.h"
#include "tests/support/temporary_folder.h"

using namespace rueda::core;
using rueda::test::EngineRanks;
using rueda::test::require;

namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> found;
  std::istringstream text(line);
  for (std::string field; std::getline(text, field, ',');) found.push_back(field);
  return found;
}

/// The rows of a log, by the names of its columns.
std::vector<Row> rows_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = fields(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> values = fields(line);
    REQUIRE(values.size() == names.size());
    Row& row = rows.emplace_back();
    for (size_t i = 0; i < names.size(); ++i) row[names[i]] = values[i];
  }
  return rows;
}

/// How the batches of a set have waited, and in how many slots.
std::set<std::string> refinements_of(const std::vector<Row>& rows, const std::string& set) {
  std::set<std::string> found;
  for (const Row& row : rows) {
    if (row.at("set") == set) found.insert(row.at("waits") + " " + row.at("lane_slots"));
  }
  return found;
}

/// Which variants a set's batches have run in.
std::set<std::string> tried(const std::vector<Row>& rows, const std::string& set) {
  std::set<std::string> variants;
  for (const Row& row : rows) {
    if (row.at("set") == set)
      variants.insert(row.at("algorithm") + " " + row.at("chunk_bytes") + " " + row.at("stores"));
  }
  return variants;
}

/// Values whose sum rounds, so that another order of adding shows.
std::vector<float> input_of(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = 1.0f / static_cast<float>(i % 977 + 3 + static_cast<size_t>(rank) * 31);
  return values;
}

/// Sums over the set again and again; each sum has the bits of the first.
void sum_often(Engine& engine, int rank, SetId set, const std::string& name, int times, size_t count = 16 << 10) {
  const std::vector<float> input = input_of(rank, count);
  std::vector<float> first;
  for (int i = 0; i < times; ++i) {
    std::vector<float> values = input;
    rueda::test::Sum sum{name, {&values}};
    sum.set = set;
    const auto operation = rueda::test::start_sum(engine, sum);
    require(rueda::test::finish(engine, *operation).ok(), name);
    if (first.empty()) first = values;
    require(values == first, name + " has other bits in batch " + std::to_string(i));
  }
}

/// Batches in which a check runs every way beside the choice, and too few for a new contest, however slow the machine:
/// that takes four odd times, of which the fourth would come after 44 pairs, of four batches or more.
constexpr int kAllWays = 120;

/// Choices for sums of 64 KiB, as a job like this one would have left them.
TuneFile kept_for(const EngineRanks::Options& options) {
  TuneFile file;
  file.facts = facts_of_machine();
  file.facts.slot_bytes = layout_for(options.settings, options.size).slot_bytes;
  file.facts.hosts = {options.size};
  for (const Distance distance : {Distance::kUnknown, Distance::kNear, Distance::kFar}) {
    TuneClass batches;
    batches.size = size_class(64 << 10);
    batches.ranks = batches.largest_host = options.size;
    batches.distance = distance;
    file.choices.push_back({{batches, {0, 0, Stores::kPlain}, 0.2}, "shm_two_shot"});
  }
  return file;
}

EngineRanks::Options logged(int size, const std::string& path) {
  EngineRanks::Options options;
  options.size = size;
  options.settings.autotune_log = path;
  return options;
}

}  // namespace

TEST_CASE("a job's batches run in several variants with the same bits, and the log tells of them") {
  const rueda::test::TemporaryFolder folder;
  const std::string path = folder.file("trials.csv");
  EngineRanks::run(logged(2, path), [](Engine& engine, int rank) { sum_often(engine, rank, kGlobalSet, "x", 200); });
  const std::vector<Row> rows = rows_of(path);
  CHECK(tried(rows, "0").size() >= 2);
  for (const Row& row : rows) {
    CHECK((row.at("operation") == "allreduce" && row.at("type") == "f32" && row.at("bytes") == "65536"));
    CHECK((row.at("ranks") == "2" && std::stod(row.at("microseconds")) > 0));
  }
}

TEST_CASE("the way that was found is tried with other waits and fewer slots, with the same bits") {
  const rueda::test::TemporaryFolder folder;
  EngineRanks::Options options = logged(2, folder.file("trials.csv"));
  options.settings.tune_file = folder.file("choices.json");
  TuneFile kept = kept_for(options);
  for (NamedChoice& named : kept.choices) {
    named.choice.batches.size = size_class(1 << 20);
    named.choice.variant.sleeps = true;
    named.choice.variant.lane_slots = 2;
  }
  options.settings.autotune_check = true;  // all ways run beside the kept one, whatever their times
  REQUIRE(write_tune_file(options.settings.tune_file, to_json(kept)).ok());
  EngineRanks::run(options,
                   [](Engine& engine, int rank) { sum_often(engine, rank, kGlobalSet, "x", kAllWays, (1 << 20) / 4); });
  const std::vector<Row> rows = rows_of(options.settings.autotune_log);
  CHECK(refinements_of(rows, "0") == std::set<std::string>{"spin auto", "sleep auto", "spin 2", "sleep 2"});
  for (const Row& row : rows) {
    if (row.at("chosen") == "2") CHECK(row.at("waits") + " " + row.at("lane_slots") == "sleep 2");
  }
}

TEST_CASE("two levels between hosts are tried with other waits and fewer slots, with the same bits") {
  const rueda::test::TemporaryFolder folder;
  EngineRanks::Options options = logged(4, folder.file("trials.csv"));
  options.hosts = {"a", "a", "b", "b"};
  options.settings.tune_file = folder.file("choices.json");
  options.settings.autotune_check = true;
  TuneFile kept = kept_for(options);
  kept.facts.hosts = {2, 2};
  for (NamedChoice& named : kept.choices) {
    named.algorithm = "hierarchical";
    named.choice.batches.size = size_class(1 << 20);
    named.choice.batches.hosts = named.choice.batches.largest_host = 2;
  }
  REQUIRE(write_tune_file(options.settings.tune_file, to_json(kept)).ok());
  EngineRanks::run(options,
                   [](Engine& engine, int rank) { sum_often(engine, rank, kGlobalSet, "x", kAllWays, (1 << 20) / 4); });
  std::vector<Row> by_host;
  for (const Row& row : rows_of(options.settings.autotune_log)) {
    if (row.at("algorithm") == "hierarchical") by_host.push_back(row);
  }
  CHECK(refinements_of(by_host, "0") == std::set<std::string>{"spin auto", "sleep auto", "spin 2", "sleep 2"});
}

TEST_CASE("between hosts a long batch is tried with more sockets to a peer, with the same bits") {
  const rueda::test::TemporaryFolder folder;
  const bool two_levels = GENERATE(false, true);
  EngineRanks::Options options = logged(two_levels ? 4 : 2, folder.file("trials.csv"));
  options.hosts = {"a", "b"};
  if (two_levels) options.hosts = {"a", "a", "b", "b"};
  options.settings.tune_file = folder.file("choices.json");
  options.settings.autotune_check = true;  // all ways run beside the kept one, whatever their times
  TuneFile kept = kept_for(options);
  const int on_host = two_levels ? 2 : 1;
  kept.facts.hosts = {on_host, on_host};
  for (NamedChoice& named : kept.choices) {
    named.algorithm = two_levels ? "hierarchical" : "direct";
    named.choice.batches.size = size_class(4 << 20);
    named.choice.batches.hosts = 2;
    named.choice.batches.largest_host = on_host;
    named.choice.variant = {0, 0, two_levels ? Stores::kPlain : Stores::kByDistance, false, 0, 2};
  }
  REQUIRE(write_tune_file(options.settings.tune_file, to_json(kept)).ok());
  EngineRanks::run(options,
                   [](Engine& engine, int rank) { sum_often(engine, rank, kGlobalSet, "x", kAllWays, (4 << 20) / 4); });
  std::set<std::string> own, all;
  for (const Row& row : rows_of(options.settings.autotune_log)) {
    all.insert(row.at("sockets"));
    if (row.at("chosen") == "2") own.insert(row.at("sockets"));
  }
  CHECK(own == std::set<std::string>{"2"});
  CHECK(all == std::set<std::string>{"auto", "2", "4"});
}

TEST_CASE("a check times the choice beside every way, with the same bits") {
  const rueda::test::TemporaryFolder folder;
  EngineRanks::Options options = logged(2, folder.file("trials.csv"));
  options.settings.autotune_check = true;
  // Kept choices, so that the check begins at once.
  options.settings.tune_file = folder.file("choices.json");
  REQUIRE(write_tune_file(options.settings.tune_file, to_json(kept_for(options))).ok());
  EngineRanks::run(options, [](Engine& engine, int rank) { sum_often(engine, rank, kGlobalSet, "x", 300); });
  int own = 0;
  std::vector<Row> others;
  for (const Row& row : rows_of(options.settings.autotune_log)) {
    if (row.at("chosen") == "2") {
      ++own;
      CHECK(row.at("algorithm") + " " + row.at("chunk_bytes") + " " + row.at("stores") == "shm_two_shot 262144 plain");
    }
    if (row.at("chosen") == "3") others.push_back(row);
  }
  CHECK(own >= 20);
  CHECK(others.size() >= 20);
  CHECK(tried(others, "0").size() >= 4);
  CHECK(refinements_of(others, "0") ==
        std::set<std::string>{"spin auto", "sleep auto"});  // one chunk: slots mean nothing
}

TEST_CASE("a process set without rank 0 is tuned by what its own ranks measure") {
  const rueda::test::TemporaryFolder folder;
  const std::string path = folder.file("trials.csv");
  EngineRanks::run(logged(3, path), [](Engine& engine, int rank) {
    if (rank == 0) return rueda::test::require_usable(engine, "end");
    const auto pair = engine.add_process_set({1, 2}, "pair");
    require(pair.ok(), pair.status().sentence());
    sum_often(engine, rank, pair.value(), "y", 200);
    rueda::test::require_usable(engine, "end");
  });
  CHECK(tried(rows_of(path), "1").size() >= 2);
}

TEST_CASE("what settings name is not tried, and without tuning nothing is") {
  const rueda::test::TemporaryFolder folder;
  EngineRanks::Options plain = logged(2, folder.file("plain.csv"));
  plain.settings.stores = Stores::kPlain;
  plain.settings.allreduce_algorithm = "shm_two_shot";
  plain.settings.chunk_bytes = 64 << 10;
  plain.settings.waits = Waits::kSpin;
  EngineRanks::Options off = logged(2, folder.file("off.csv"));
  off.settings.autotune = false;
  for (const EngineRanks::Options& options : {plain, off}) {
    EngineRanks::run(options, [](Engine& engine, int rank) { sum_often(engine, rank, kGlobalSet, "x", 60); });
  }
  CHECK(std::ifstream(plain.settings.autotune_log).good());
  CHECK(tried(rows_of(plain.settings.autotune_log), "0").empty());
  CHECK_FALSE(std::ifstream(off.settings.autotune_log).good());
}

TEST_CASE("what a tune file keeps holds from the start, and the file is written again") {
  const rueda::test::TemporaryFolder folder;
  EngineRanks::Options options = logged(2, folder.file("trials.csv"));
  options.settings.tune_file = folder.file("choices.json");
  REQUIRE(write_tune_file(options.settings.tune_file, to_json(kept_for(options))).ok());
  EngineRanks::run(options, [](Engine& engine, int rank) { sum_often(engine, rank, kGlobalSet, "x", 70); });
  // One batch in 32 is timed, and each in the variant that was kept.
  CHECK(tried(rows_of(options.settings.autotune_log), "0") == std::set<std::string>{"shm_two_shot 262144 plain"});
  const TuneFile after = tune_file_from_json(read_tune_file(options.settings.tune_file).value()).value();
  CHECK(after.facts == kept_for(options).facts);
  CHECK(after.choices.size() == 3);
}

TEST_CASE("a tune file of another machine, or of something else, is not used and not touched") {
  const rueda::test::TemporaryFolder folder;
  EngineRanks::Options options = logged(2, folder.file("trials.csv"));
  options.settings.tune_file = folder.file("choices.json");
  TuneFile foreign = kept_for(options);
  foreign.facts.cores += 1;
  for (const std::string& text : {to_json(foreign), std::string("my thesis\n")}) {
    std::ofstream(options.settings.tune_file) << text;
    EngineRanks::run(options, [](Engine& engine, int rank) { sum_often(engine, rank, kGlobalSet, "x", 200); });
    CHECK(tried(rows_of(options.settings.autotune_log), "0").size() >= 2);
    CHECK(rueda::test::text_of(options.settings.tune_file) == text);
  }
}

TEST_CASE("a log that cannot be written costs a warning and nothing else") {
  EngineRanks::run(logged(2, "/nowhere/trials.csv"),
                   [](Engine& engine, int rank) { sum_often(engine, rank, kGlobalSet, "x", 40); });
}
