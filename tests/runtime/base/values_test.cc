// The small values of runtime/base: dtype, status, deadline, environment, ranges of ranks, random names.
#include <catch2/catch.hpp>
#include <set>

#include "runtime/base/build_id.h"
#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/environment.h"
#include "runtime/base/extents.h"
#include "runtime/base/printable.h"
#include "runtime/base/random.h"
#include "runtime/base/rank_ranges.h"
#include "runtime/base/reduction.h"
#include "runtime/base/status.h"

namespace rueda::core {
namespace {

TEST_CASE("what a terminal would take for a command is not shown") {
  CHECK(printable("layer \xc3\xa4.weight") == "layer \xc3\xa4.weight");
  CHECK(printable("\x1b[2J\x7f\xc2\x9bz\n\t") == "?[2J??z??");
  CHECK(printable("a\n\tb\r", "\n\t") == "a\n\tb?");
}

TEST_CASE("every dtype has a size of 1, 2, 4, 8 or 16 bytes and a name of its own") {
  std::set<std::string> names;
  for (int value = 0; value < kDtypeCount; ++value) {
    const auto dtype = static_cast<Dtype>(value);
    CHECK(valid(dtype));
    const size_t bytes = size_of(dtype);
    CHECK((bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16));
    CHECK(names.insert(name_of(dtype)).second);
  }
  CHECK_FALSE(valid(static_cast<Dtype>(-1)));
  CHECK_FALSE(valid(static_cast<Dtype>(kDtypeCount)));
  CHECK(name_of(static_cast<Dtype>(99)) == std::string("?"));
}

TEST_CASE("a kind of operation is found by its number, and has a name and traits that agree with each other") {
  std::set<std::string> names;
  for (int number = 0; number < kOpKindCount; ++number) {
    const auto kind = static_cast<OpKind>(number);
    CHECK(facts_of(kind).kind == kind);
    CHECK(names.insert(name_of(kind)).second);
    CHECK_FALSE((exchanges(kind) && (reduces(kind) || keeps_positions(kind))));
  }
  CHECK(names.count("?") == 0);
  CHECK(name_of(OpKind::kAlltoall) == std::string("alltoall"));
  CHECK(name_of(OpKind::kJoin) == std::string("join"));
  CHECK_FALSE(has_root(OpKind::kJoin));
  CHECK(name_of(static_cast<OpKind>(kOpKindCount)) == std::string("?"));
  CHECK(name_of(static_cast<OpKind>(-1)) == std::string("?"));
}

TEST_CASE("f16, bf16, f32 and f64 are the floating-point types") {
  int floats = 0;
  for (int value = 0; value < kDtypeCount; ++value) floats += is_float(static_cast<Dtype>(value)) ? 1 : 0;
  CHECK(floats == 4);
  CHECK(is_float(Dtype::kBf16));
  CHECK_FALSE(is_float(Dtype::kBool));
}

TEST_CASE("a complex number has two of its part, any other dtype is its own part") {
  CHECK(part_of(Dtype::kC64) == Dtype::kF32);
  CHECK(part_of(Dtype::kC128) == Dtype::kF64);
  for (int value = 0; value < kDtypeCount; ++value) {
    const auto dtype = static_cast<Dtype>(value);
    CHECK(size_of(dtype) == size_of(part_of(dtype)) * (is_complex(dtype) ? 2 : 1));
    CHECK_FALSE(is_complex(part_of(dtype)));
  }
}

TEST_CASE("an op that has no meaning for a dtype is told with a way out, every other one is defined") {
  CHECK(why_undefined(ReduceOp::kAverage, Dtype::kBool) ==
        "an average of bool is not defined; use sum (or) or product (and)");
  CHECK(why_undefined(ReduceOp::kMax, Dtype::kC128) ==
        "complex numbers have no order: max of c128 is not defined; sum, average and product are");
  CHECK(why_undefined(ReduceOp::kBxor, Dtype::kF16) ==
        "bxor works on the bits of integers and bool; the tensor is f16");
  int defined = 0;
  for (int value = 0; value < kDtypeCount; ++value) {
    for (const int op : {0, 1, 3, 4, 5, 6, 7, 8}) {
      defined += why_undefined(static_cast<ReduceOp>(op), static_cast<Dtype>(value)).empty() ? 1 : 0;
    }
  }
  CHECK(defined == 8 * 8 + 7 + 4 * 5 + 2 * 3);  // integers, bool, floats, complex numbers
}

TEST_CASE("a status keeps code, sentence and rank, and a copy shares them") {
  const Status ok;
  CHECK(ok.ok());
  CHECK(ok.code() == Code::kOk);
  CHECK(ok.rank() == -1);
  CHECK(ok.sentence().empty());
  const Status lost(Code::kPeerLost, "rank 3 died", 3);
  Status copy;
  copy = lost;
  CHECK_FALSE(copy.ok());
  CHECK(copy.code() == Code::kPeerLost);
  CHECK(copy.rank() == 3);
  CHECK(copy.sentence() == "rank 3 died");
  CHECK(code_name(copy.code()) == std::string("PEER_LOST"));
}

TEST_CASE("a result holds a value or the reason why there is none") {
  const Result<int> value = 7;
  CHECK(value.ok());
  CHECK(value.value() == 7);
  CHECK(value.status().ok());
  const Result<int> failure = Status(Code::kTimeout, "late");
  CHECK_FALSE(failure.ok());
  CHECK(failure.status().code() == Code::kTimeout);
}

TEST_CASE("a deadline passes, never passes, and gives at most the cap") {
  using std::chrono::hours;
  using std::chrono::nanoseconds;
  const Deadline past = Deadline::after(nanoseconds(-1));
  CHECK(past.passed());
  CHECK(past.left(hours(1)) == nanoseconds(0));
  const Deadline later = Deadline::after(hours(2));
  CHECK_FALSE(later.passed());
  CHECK(later.left(hours(1)) == hours(1));
  CHECK(Deadline::never().left(hours(1)) == hours(1));
  CHECK_FALSE(Deadline::never().passed());
  CHECK(Deadline::never().earlier(past).passed());
  CHECK(past.earlier(later).passed());
}

TEST_CASE("an environment is a snapshot in which empty variables are unset") {
  const Environment environment({{"A", "1"}, {"EMPTY", ""}});
  CHECK(environment("A") == "1");
  CHECK_FALSE(environment("EMPTY").has_value());
  CHECK_FALSE(environment("B").has_value());
  CHECK(process_environment()("PATH").has_value());
}

TEST_CASE("ranks are named as ranges, with their hosts where known") {
  const std::vector<std::string> hosts = {"a", "a", "b", "b"};
  CHECK(rank_ranges(std::vector<int>{0, 1, 2, 3}, {hosts}) == "ranks 0-1 (host a), ranks 2-3 (host b)");
  CHECK(rank_ranges(std::vector<int>{0, 2, 3, 4, 9}, {}) == "rank 0, ranks 2-4, rank 9");
  CHECK(rank_ranges({}, {}).empty());
}

TEST_CASE("a rank is named with its host, and with its process where that is known") {
  CHECK(rank_name(3, "b", 77) == "rank 3 (host b, pid 77)");
  CHECK(rank_name(3, "b", 0) == "rank 3 (host b)");
}

TEST_CASE("in an elastic job a range of ranks says which workers they are, and ends where these do not go on") {
  const RankNames names{{"a", "a", "a", "b", "b"}, {0, 2, 3, 4, 9}, 7};
  const std::vector<int> all = {0, 1, 2, 3, 4};
  CHECK(rank_ranges(all, names) ==
        "rank 0 (worker 0, host a), ranks 1-2 (workers 2-3, host a), rank 3 (worker 4, host b), "
        "rank 4 (worker 9, host b)");
  CHECK(rank_ranges(all, {{}, names.workers, 7}) == "rank 0 (worker 0), ranks 1-3 (workers 2-4), rank 4 (worker 9)");
  CHECK(bounded_rank_ranges(all, names, 55) == "rank 0 (worker 0, host a), ... (5 ranks in all)");
  CHECK(rank_name(1, "a", 77, 2) == "rank 1 (worker 2, host a, pid 77)");
  CHECK(worker_name(2, 1, 7) == "worker 2 (rank 1 of plan 7)");
  CHECK(worker_name(2, 1, 0) == "worker 2");
  CHECK(worker_name(-1, 1, 0) == "rank 1");
  CHECK(in_plan(7) == " in plan 7");
  CHECK(in_plan(0).empty());
}

TEST_CASE("a long list of ranks is cut between ranges and says how many there are") {
  const std::vector<int> ranks = {0, 1, 2, 5, 7, 9};
  const std::string whole = rank_ranges(ranks, {});
  CHECK(whole == "ranks 0-2, rank 5, rank 7, rank 9");
  CHECK(bounded_rank_ranges(ranks, {}, whole.size()) == whole);
  CHECK(bounded_rank_ranges(ranks, {}, whole.size() - 1) == "ranks 0-2, rank 5, rank 7, ... (6 ranks in all)");
}

TEST_CASE("extents hold what a vector would, and refuse what exceeds them") {
  Extents extents = {2, 3};
  extents.push_back(4);
  CHECK(extents == Extents{2, 3, 4});
  CHECK(extents != Extents{2, 3});
  CHECK(extents != Extents{2, 3, 5});
  CHECK((extents.front() == 2 && extents.back() == 4 && extents[1] == 3));

  extents.resize(1);
  extents.resize(3);
  CHECK(extents == Extents{2, 0, 0});
  const Extents copy = extents;
  extents[0] = 7;
  CHECK(copy == Extents{2, 0, 0});

  extents.resize(Extents::kCapacity);
  CHECK_THROWS_AS(extents.push_back(1), std::length_error);
  CHECK_THROWS_AS(extents.resize(Extents::kCapacity + 1), std::length_error);
  CHECK_THROWS_AS(Extents(std::vector<int64_t>(Extents::kCapacity + 1)), std::length_error);
  CHECK(extents.size() == Extents::kCapacity);
  extents.clear();
  CHECK((extents.empty() && extents == Extents{}));
}

TEST_CASE("random names have 32 hex digits and do not meet again") {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) {
    const std::string name = random_name().value();
    CHECK(name.size() == 32);
    CHECK(name.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(names.insert(name).second);
  }
  CHECK(random_key().value() != random_key().value());
}

TEST_CASE("the build id names version and sources") {
  const std::string id = build_id();
  CHECK(id.size() > 17);
  CHECK(id.find('-') == id.size() - 17);
}

}  // namespace
}  // namespace rueda::core
