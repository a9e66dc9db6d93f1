// RUEDA_DETERMINISTIC=1: the same bits whatever the timing, the fusion threshold, the order of enqueueing and the row.
#include <algorithm>
#include <catch2/catch.hpp>
#include <complex>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/bindings/submission.h"
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

using Kind = Submission::Kind;

Submission reduction(Kind kind, int32_t dtype, int64_t count, int32_t op) {
  return {.kind = kind, .dtype = dtype, .shape = {count}, .op = op, .root = 1};
}

// Types whose sums round, in sizes from a number to several chunks.
std::vector<Submission> tensors() {
  std::vector<Submission> all;
  for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{1000}, int64_t{3001}, int64_t{9000}, int64_t{70'001}}) {
    all.push_back(reduction(Kind::kAllreduce, RUEDA_F32, count, RUEDA_SUM));
    all.push_back(reduction(Kind::kAllreduce, RUEDA_F32, count / 2 + 1, RUEDA_AVERAGE));
    all.back().codec = RUEDA_CODEC_FP16;
    all.push_back(reduction(Kind::kAllreduce, RUEDA_F64, count / 3 + 1, RUEDA_SUM));
    all.back().postscale = 1.1;
    all.push_back(reduction(Kind::kAllreduce, RUEDA_COMPLEX64, count / 4 + 1, RUEDA_PRODUCT));
    all.push_back(reduction(Kind::kAllreduce, RUEDA_F32, count / 5 + 1, RUEDA_ADASUM));
    all.push_back(reduction(Kind::kAllreduce, RUEDA_F64, count / 3 + 2, RUEDA_ADASUM));
    all.push_back(reduction(Kind::kReducescatter, RUEDA_F32, count / 2 + 3, RUEDA_SUM));
    all.push_back(reduction(Kind::kReduce, RUEDA_F64, count / 4 + 2, RUEDA_AVERAGE));
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

void fill(const Submission& tensor, std::vector<std::byte>& bytes, uint64_t salt) {
  const size_t width = tensor.dtype == RUEDA_F32 ? 4 : 8;
  bytes.resize(static_cast<size_t>(tensor.shape[0]) * width);
  if (tensor.dtype == RUEDA_F64) return fill_with<double>(bytes, salt);
  fill_with<float>(bytes, salt);
}

/// FNV-1a, 64 bits.
uint64_t hashed(uint64_t hash, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3u;
  return hash;
}

/// Of what all ranks have alike, and of what each has for itself.
struct Hashes {
  uint64_t common = 0xcbf29ce484222325u;
  uint64_t own = 0xcbf29ce484222325u;
};

/// A stretch of work of a random length, so that ranks come at different times.
void delay(std::mt19937_64& random) {
  volatile uint64_t work = 1;  // so that nobody leaves it out
  for (uint64_t turns = random() % 20'000; turns > 0; --turns) work = work * 6364136223846793005u + turns;
}

void add_result(Hashes& hashes, const Submission& submission, rueda_handle handle, int rank,
                std::span<const std::byte> data) {
  if (submission.kind == Kind::kAllreduce) {
    hashes.common = hashed(hashes.common, data);
  } else if (submission.kind == Kind::kReducescatter) {
    rueda_tensor rows{};
    rows.struct_size = sizeof rows;
    expect_code(rueda_output(handle, 0, &rows), RUEDA_OK, "output");
    const auto bytes = static_cast<size_t>(rows.shape[0]) * sizeof(float);
    hashes.own = hashed(hashes.own, {static_cast<const std::byte*>(rows.data), bytes});
  } else if (rank == submission.root) {
    hashes.own = hashed(hashes.own, data);
  }
}

/// One step of one rank: all tensors enqueued, all waited for; the results are added in their own order.
void step(rueda_session* session, int rank, int number, std::mt19937_64* random, Hashes& hashes) {
  const std::vector<Submission> all = tensors();
  std::vector<std::vector<std::byte>> data(all.size());
  std::vector<rueda_handle> handles(all.size());
  std::vector<size_t> order(all.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (random != nullptr) std::shuffle(order.begin(), order.end(), *random);
  for (const size_t i : order) {
    fill(all[i], data[i], static_cast<uint64_t>(number * 1000 + rank) * 1000 + i);
    if (random != nullptr) delay(*random);
    const std::string name = "t" + std::to_string(i);
    expect_code(enqueue(session, all[i], data[i].data(), named(name.c_str()), &handles[i]), RUEDA_OK,
                "tensor " + std::to_string(i));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    expect_code(rueda_wait(handles[i], -1), RUEDA_OK, "tensor " + std::to_string(i));
    add_result(hashes, all[i], handles[i], rank, data[i]);
    expect_code(rueda_release(handles[i]), RUEDA_OK, "release");
  }
}

/// The hash of all results of the program, after the check that it is one on all ranks.
uint64_t run(int hosts, const Circumstances& how) {
  setenv("RUEDA_DETERMINISTIC", how.deterministic, 1);
  setenv("RUEDA_ALLREDUCE_ALGORITHM", how.row, 1);
  setenv("RUEDA_FUSION_THRESHOLD", how.fusion_threshold, 1);
  setenv("RUEDA_CALLER_PROGRESS", how.caller_progress, 1);
  std::vector<Hashes> hashes(kRunRanks);
  std::vector<std::string> names(kRunRanks, "a");
  if (hosts == 2) std::fill(names.begin() + kRunRanks / 2, names.end(), "b");
  run_ranks(names, [&](rueda_session* session, int rank) {
    std::mt19937_64 random(how.seed * 64 + static_cast<uint64_t>(rank));
    Hashes& own = hashes[static_cast<size_t>(rank)];
    for (int i = 0; i < kRunSteps; ++i) step(session, rank, i, how.seed != 0 ? &random : nullptr, own);
  });
  for (const char* name :
       {"RUEDA_DETERMINISTIC", "RUEDA_ALLREDUCE_ALGORITHM", "RUEDA_FUSION_THRESHOLD", "RUEDA_CALLER_PROGRESS"}) {
    unsetenv(name);
  }
  uint64_t all = hashes[0].common;
  for (const Hashes& each : hashes) {
    CHECK(each.common == hashes[0].common);
    all = hashed(all, std::as_bytes(std::span(&each.own, 1)));
  }
  return all;
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
    if (core::kThorough || row == rows.front()) CHECK(run(hosts, {row, "64MiB", seed++, "0"}) == quiet);
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
