// RUEDA_DETERMINISTIC=1: the same bits whatever the timing, the fusion threshold, the order of enqueueing and the row.
#include <algorithm>
#include <catch2/catch.hpp>
#include <complex>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

constexpr int kRunRanks = 4;
constexpr int kRunSteps = 3;

/// What may differ between two runs of one program.
struct Circumstances {
  const char* row = "auto";
  const char* fusion_threshold = "64MiB";
  uint64_t seed = 0;  ///< of orders and delays, which differ between ranks; 0: neither
  const char* caller_progress = "1";
  const char* deterministic = "1";
};

struct RunTensor {
  int32_t dtype;
  int64_t count;
  int32_t op;
  int32_t codec = RUEDA_CODEC_NONE;
  double postscale = 1;
};

// Types whose sums round, in sizes from a number to several chunks.
std::vector<RunTensor> tensors() {
  std::vector<RunTensor> all;
  for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{1000}, int64_t{3001}, int64_t{9000}, int64_t{70'001}}) {
    all.push_back({RUEDA_F32, count, RUEDA_SUM});
    all.push_back({RUEDA_F32, count / 2 + 1, RUEDA_AVERAGE, RUEDA_CODEC_FP16});
    all.push_back({RUEDA_F64, count / 3 + 1, RUEDA_SUM, RUEDA_CODEC_NONE, 1.1});
    all.push_back({RUEDA_COMPLEX64, count / 4 + 1, RUEDA_PRODUCT});
  }
  return all;
}

template <typename T>
void fill_with(std::vector<std::byte>& bytes, uint64_t salt) {
  std::mt19937_64 numbers(salt);
  auto* values = reinterpret_cast<T*>(bytes.data());
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    const auto mixed = static_cast<double>(static_cast<int64_t>(numbers()) >> 20) * 0x1p-43;  // -1 to 1
    values[i] = static_cast<T>(i % 5 == 0 ? mixed * 1e5 : mixed);
  }
}

void fill(const RunTensor& tensor, std::vector<std::byte>& bytes, uint64_t salt) {
  const size_t width = tensor.dtype == RUEDA_F32 ? 4 : 8;
  bytes.resize(static_cast<size_t>(tensor.count) * width);
  if (tensor.dtype == RUEDA_F64) return fill_with<double>(bytes, salt);
  fill_with<float>(bytes, salt);
}

/// FNV-1a, 64 bits.
uint64_t hashed(uint64_t hash, const std::vector<std::byte>& bytes) {
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3u;
  return hash;
}

/// A stretch of work of a random length, so that ranks come at different times.
void delay(std::mt19937_64& random) {
  volatile uint64_t work = 1;  // so that nobody leaves it out
  for (uint64_t turns = random() % 20'000; turns > 0; --turns) work = work * 6364136223846793005u + turns;
}

/// One step of one rank: all tensors enqueued, all waited for; `hash` with the results in their own order.
uint64_t step(rueda_session* session, int rank, int number, std::mt19937_64* random, uint64_t hash) {
  const std::vector<RunTensor> all = tensors();
  std::vector<std::vector<std::byte>> data(all.size());
  std::vector<rueda_handle> handles(all.size());
  std::vector<size_t> order(all.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (random != nullptr) std::shuffle(order.begin(), order.end(), *random);
  for (const size_t i : order) {
    fill(all[i], data[i], static_cast<uint64_t>(number * 1000 + rank) * 1000 + i);
    if (random != nullptr) delay(*random);
    const CTensor tensor(data[i].data(), all[i].dtype, {all[i].count});
    const std::string name = "t" + std::to_string(i);
    rueda_op_options options = named(name.c_str());
    options.codec = all[i].codec;
    options.has_scale = 1;
    options.prescale = 1;
    options.postscale = all[i].postscale;
    expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), all[i].op, &options, &handles[i]), RUEDA_OK,
                "tensor " + std::to_string(i));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const Ending ending = finish(handles[i]);
    expect(ending.code == RUEDA_OK, ending.sentence);
    hash = hashed(hash, data[i]);
  }
  return hash;
}

rueda_session* join_on(const CallbackStore& store, int rank, const char* host) {
  static const char kKey[] = "0123456789abcdef";
  rueda_init_options options{};
  options.struct_size = sizeof options;
  options.has_rank = 1;
  options.rank = rank;
  options.size = kRunRanks;
  options.store = store.c_store();
  options.host_name = host;
  options.job_key = kKey;
  options.job_key_bytes = sizeof kKey;
  options.timeout_seconds = 120;
  rueda_session* session = nullptr;
  expect_code(rueda_init(&options, &session), RUEDA_OK, "init of rank " + std::to_string(rank));
  return session;
}

/// The hash of all results of the program, after the check that it is one on all ranks.
uint64_t run(int hosts, const Circumstances& how) {
  setenv("RUEDA_DETERMINISTIC", how.deterministic, 1);
  setenv("RUEDA_ALLREDUCE_ALGORITHM", how.row, 1);
  setenv("RUEDA_FUSION_THRESHOLD", how.fusion_threshold, 1);
  setenv("RUEDA_CALLER_PROGRESS", how.caller_progress, 1);
  std::vector<uint64_t> hashes(kRunRanks, 0xcbf29ce484222325u);
  const CallbackStore store;
  on_threads(kRunRanks, [&](int rank) {
    rueda_session* const session = join_on(store, rank, hosts == 1 || rank < kRunRanks / 2 ? "a" : "b");
    std::mt19937_64 random(how.seed * 64 + static_cast<uint64_t>(rank));
    uint64_t& hash = hashes[static_cast<size_t>(rank)];
    for (int i = 0; i < kRunSteps; ++i) hash = step(session, rank, i, how.seed != 0 ? &random : nullptr, hash);
    expect_code(rueda_shutdown(session), RUEDA_OK, "shutdown");
  });
  for (const char* name :
       {"RUEDA_DETERMINISTIC", "RUEDA_ALLREDUCE_ALGORITHM", "RUEDA_FUSION_THRESHOLD", "RUEDA_CALLER_PROGRESS"}) {
    unsetenv(name);
  }
  CHECK(hashes == std::vector<uint64_t>(kRunRanks, hashes[0]));
  return hashes[0];
}

/// Every row under every kind of circumstances against the quiet run.
void check_rows(int hosts, const std::vector<const char*>& rows) {
  const uint64_t quiet = run(hosts, {});
  uint64_t seed = 1;
  for (const char* row : rows) {
    for (const char* threshold : {"64MiB", "0", "20000"}) {
      if (!core::kThorough && threshold != std::string("20000")) continue;
      INFO(row << " on " << hosts << " hosts, fusion threshold " << threshold << ", seed " << seed);
      CHECK(run(hosts, {row, threshold, seed++}) == quiet);
    }
    CHECK(run(hosts, {row, "64MiB", seed++, "0"}) == quiet);
  }
}

}  // namespace

TEST_CASE("deterministic on one host: one hash over rows, thresholds, orders and delays") {
  check_rows(1, {"auto", "shm_two_shot"});
}

TEST_CASE("deterministic on two hosts: one hash over rows, thresholds, orders and delays") {
  check_rows(2, {"auto", "direct", "hierarchical"});
}

TEST_CASE("the bracket is the hosts': one host and two give sums that differ in their last bits") {
  CHECK(run(1, {}) != run(2, {}));
}

TEST_CASE("a row that adds in an order of its own gives another hash where it is allowed") {
  Circumstances ring;
  ring.row = "ring";
  ring.deterministic = "0";
  CHECK(run(2, ring) != run(2, {}));
}

}  // namespace rueda::test
