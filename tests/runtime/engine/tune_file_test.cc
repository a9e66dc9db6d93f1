#include "runtime/engine/tune_file.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"

using namespace rueda::core;
using Catch::Matchers::Contains;
using rueda::test::TemporaryFolder;
using rueda::test::text_of;

namespace {

TuneFile example() {
  TuneFile file;
  file.facts = {"EPYC \"9\"", "avx512", 2, 256 << 10, {2, 1}};
  TuneClass batches;
  batches.kind = OpKind::kReducescatter;
  batches.dtype = Dtype::kBf16;
  batches.codec = CodecId::kFp16;
  batches.size = size_class(3 << 20);
  batches.short_tensors = true;
  batches.ranks = 3;
  batches.hosts = batches.largest_host = 2;
  batches.distance = Distance::kFar;
  file.choices.push_back({{batches, {0, 2, Stores::kNonTemporal, true, 2, 4}, 0.1729}, "shm_reducescatter"});
  file.choices.push_back({{TuneClass(), {0, 0, Stores::kPlain}, 1e-3}, "shm_two_shot"});
  return file;
}

std::string refusal(const std::string& text) {
  const auto file = tune_file_from_json(text);
  REQUIRE_FALSE(file.ok());
  CHECK(file.status().code() == Code::kInvalidArgument);
  return file.status().sentence();
}

/// The example with one piece of its text replaced.
std::string with(const std::string& piece, const std::string& other) {
  std::string text = to_json(example());
  const size_t at = text.find(piece);
  REQUIRE(at != std::string::npos);
  return text.replace(at, piece.size(), other);
}

}  // namespace

TEST_CASE("a file of choices comes back as it was written") {
  const TuneFile sent = example();
  const TuneFile got = tune_file_from_json(to_json(sent)).value();
  CHECK(got.facts == sent.facts);
  REQUIRE(got.choices.size() == sent.choices.size());
  for (size_t i = 0; i < sent.choices.size(); ++i) {
    CHECK(got.choices[i].choice.batches == sent.choices[i].choice.batches);
    CHECK(got.choices[i].choice.variant == sent.choices[i].choice.variant);
    CHECK(got.choices[i].choice.time == sent.choices[i].choice.time);
    CHECK(got.choices[i].algorithm == sent.choices[i].algorithm);
  }
}

TEST_CASE("a file with a value that cannot be is refused with what is wrong") {
  CHECK_THAT(refusal(""), Contains("it is not a file of choices"));
  CHECK_THAT(refusal("{}"), Contains("format"));
  CHECK_THAT(refusal(with("rueda choices 3", "rueda choices 2")), Contains("format is not \"rueda choices 3\""));
  CHECK_THAT(refusal(with("\"far\"", "\"close\"")), Contains("distance \"close\" is unknown"));
  CHECK_THAT(refusal(with("\"bf16\"", "\"f8\"")), Contains("type \"f8\" is unknown"));
  CHECK_THAT(refusal(with("0.1729", "-1")), Contains("not a time above 0"));
  CHECK_THAT(refusal(with("0.1729", "0")), Contains("not a time above 0"));
  CHECK_THAT(refusal(with("\"chunk_shift\": 2", "\"chunk_shift\": 8")), Contains("chunk_shift is 8, not 0 to "));
  CHECK_THAT(refusal(with("\"non-temporal\"", "\"fast\"")), Contains("allowed: auto, plain, non-temporal"));
  CHECK_THAT(refusal(with("\"sleep\"", "\"doze\"")), Contains("waits: ") && Contains("allowed: auto, spin, sleep"));
  CHECK_THAT(refusal(with("\"lane_slots\": \"2\"", "\"lane_slots\": \"9\"")),
             Contains("lane_slots: ") && Contains("allowed: auto, 2, 3, 4"));
  CHECK_THAT(refusal(with("\"sockets\": \"4\"", "\"sockets\": \"17\"")),
             Contains("sockets: ") && Contains("allowed: auto, 1 to 16"));
  CHECK_THAT(refusal(with("\"sockets\": \"4\"", "\"sockets\": \"1\"")), Contains("sockets is 1, not auto or 2 to 16"));
  CHECK_THAT(refusal(with("\"ranks\": 3", "\"ranks\": 0")), Contains("ranks is 0, not 1 to"));
  CHECK_THAT(refusal(with("\"bytes\": 3145728", "\"bytes\": 0")), Contains("bytes is 0, not 1 to 2^62"));
  CHECK_THAT(refusal(with("\"cores\": 2", "\"cores\": 2.5")), Contains("cores is not a whole number"));
}

TEST_CASE("facts that differ are named with both values") {
  const TuneFacts facts = example().facts;
  CHECK(difference(facts, facts).empty());
  TuneFacts other = facts;
  other.cores = 64;
  CHECK(difference(facts, other) == "cores: 2 in the file, 64 here");
  other = facts;
  other.hosts = {3};
  CHECK(difference(facts, other) == "ranks of the hosts: 2+1 in the file, 3 here");
  CHECK(facts_of_machine().cores >= 1);
  CHECK_FALSE(facts_of_machine().vectors.empty());
}

TEST_CASE("a file of choices is replaced whole, and only a regular file of bounded length is read") {
  const TemporaryFolder folder;
  const std::string path = folder.file("choices.json");
  CHECK(read_tune_file(path).value().empty());
  REQUIRE(write_tune_file(path, "one").ok());
  REQUIRE(write_tune_file(path, "two").ok());
  CHECK(read_tune_file(path).value() == "two");
  const auto entries = std::filesystem::directory_iterator(folder.path());
  CHECK(std::distance(begin(entries), end(entries)) == 1);  // nothing is left beside it

  CHECK_THAT(read_tune_file(folder.path()).status().sentence(), Contains("not a regular file"));
  const std::string fifo = folder.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_THAT(read_tune_file(fifo).status().sentence(), Contains("not a regular file"));
  CHECK_FALSE(write_tune_file(fifo, "x").ok());
  const std::string large = folder.file("large");
  std::ofstream(large) << std::string(kMostTuneFileBytes + 1, ' ');
  CHECK_THAT(read_tune_file(large).status().sentence(), Contains("longer than 1048576 bytes"));
  CHECK_THAT(write_tune_file("/nowhere/choices", "x").sentence(), Contains("/nowhere/choices"));
}
