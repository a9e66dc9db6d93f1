// What ranks must agree on, for every collective, by name and by number: each field that differs gets one sentence on
// all ranks, each that has no meaning there changes nothing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "tests/bindings/submission.h"

namespace rueda::test {
namespace {

using Kind = Submission::Kind;

constexpr int kMatrixRanks = 3;

/// What one rank has otherwise than the others.
struct Field {
  const char* name;  ///< as in the sentence: "<name> differs"
  std::function<bool(const Submission&)> matters;
  std::function<void(Submission&)> change;
};

bool has_tensor(const Submission& s) { return s.kind != Kind::kBarrier; }
bool reduces(const Submission& s) { return s.reduces(); }

const std::vector<Field>& fields() {
  static const std::vector<Field> all = {
      // A send lies in a set of its own, where nothing else does.
      {"kind", [](const Submission& s) { return s.kind != Kind::kSend; },
       [](Submission& s) {
         if (s.kind == Kind::kSend) return;
         s.kind = s.kind == Kind::kAllreduce ? Kind::kBroadcast : Kind::kAllreduce;
       }},
      {"dtype", has_tensor, [](Submission& s) { s.dtype = RUEDA_I32; }},
      {"shape", has_tensor,
       [](Submission& s) {
         s.shape = {6, 1};
       }},
      {"shape", [](const Submission& s) { return has_tensor(s) && !s.exchanges(); },
       [](Submission& s) { s.shape = {9}; }},
      {"op", reduces, [](Submission& s) { s.op = RUEDA_MAX; }},
      {"codec", reduces, [](Submission& s) { s.codec = RUEDA_CODEC_FP16; }},
      {"root", [](const Submission& s) { return s.has_root(); },
       [](Submission& s) {
         if (s.has_root()) s.root = 1;
       }},
      {"prescale", reduces, [](Submission& s) { s.prescale = 0.5; }},
      {"postscale", reduces, [](Submission& s) { s.postscale = 0.25; }},
      {"average over", reduces, [](Submission& s) { s.over = RUEDA_OVER_CONTRIBUTORS; }},
  };
  return all;
}

/// One rank's ends of one cell of the matrix, to be compared with the others'.
class Sentences {
 public:
  void add(const std::string& cell, const std::string& sentence) {
    const core::MutexLock lock(mutex_);
    const auto [known, first] = by_cell_.emplace(cell, sentence);
    if (!first && known->second != sentence) {
      throw std::runtime_error(cell + " has two sentences: " + known->second + " | " + sentence);
    }
    ++count_;
  }
  size_t count() const { return count_; }

 private:
  core::Mutex mutex_;
  std::map<std::string, std::string> by_cell_;
  size_t count_ = 0;
};

enum class Names { kFresh, kCached };

void run_cell(rueda_session* session, const Submission& usual, const Field& field, Names names, int odd_rank,
              const std::string& cell, Sentences& sentences) {
  const int rank = rueda_rank(session);
  Submission odd = usual;
  field.change(odd);
  if (!usual.concerns(rank)) return;
  for (int i = 0; names == Names::kCached && i < 2; ++i) {
    const Ending warm = run(session, usual, cell.c_str());
    expect(warm.code == RUEDA_OK, cell + ", before: " + warm.sentence);
  }
  const Ending ending = run(session, rank == odd_rank ? odd : usual, cell.c_str());
  expect(ending.code == (field.matters(usual) ? RUEDA_MISMATCH : RUEDA_OK),
         cell + " gave " + rueda_error_name(ending.code) + " " + ending.sentence);
  if (field.matters(usual)) {
    sentences.add(cell, ending.sentence);
    for (const std::string& words :
         {"\"" + cell + "\"", std::string(field.name) + " differs", "rank " + std::to_string(odd_rank)}) {
      expect(ending.sentence.find(words) != std::string::npos, cell + ": no '" + words + "' in " + ending.sentence);
    }
  }
  const Ending again = run(session, usual, cell.c_str());
  expect(again.code == RUEDA_OK, cell + ", the same name afterwards: " + again.sentence);
}

void expect_refused(rueda_session* session, const Submission& submission, const std::string& words) {
  std::vector<float> values(8);
  rueda_handle handle = 0;
  const int32_t code = enqueue(session, submission, values.data(), named("refused"), &handle);
  expect(code == RUEDA_INVALID_ARGUMENT && std::string(rueda_last_error()).find(words) != std::string::npos,
         std::string(name_of(submission.kind)) + ": " + rueda_last_error());
}

/// How this rank has proposed so far: by number, and in full.
struct Cache {
  uint64_t hits = 0;
  uint64_t misses = 0;
};

Cache cache_of(rueda_session* session) {
  std::string text(1 << 16, '\0');
  size_t bytes = 0;
  expect_code(rueda_stats(session, text.data(), text.size(), &bytes), RUEDA_OK, "stats");
  const auto number = [&text](const std::string& field) {
    const size_t at = text.find("\"" + field + "\":");
    expect(at != std::string::npos, "no " + field + " in " + text);
    return std::stoull(text.substr(at + field.size() + 3));
  };
  return {number("hits"), number("misses")};
}

}  // namespace

TEST_CASE("whatever differs between ranks gets one sentence, of every collective, cached and uncached") {
  Sentences sentences;
  size_t cells = 0;
  run_ranks(kMatrixRanks, [&](rueda_session* session, int rank) {
    for (const Kind kind : kAllKinds) {
      Submission usual;
      usual.kind = kind;
      usual.op = RUEDA_AVERAGE;
      usual.shape = {6};
      for (size_t f = 0; f < fields().size(); ++f) {
        for (const Names names : {Names::kFresh, Names::kCached}) {
          for (const int odd_rank : {0, kind == Kind::kSend ? 1 : 2}) {
            const std::string cell = std::string(name_of(kind)) + "." + std::to_string(f) +
                                     (names == Names::kCached ? ".cached." : ".") + std::to_string(odd_rank);
            run_cell(session, usual, fields()[f], names, odd_rank, cell, sentences);
            if (rank == 0) ++cells;
          }
        }
      }
      expect_usable(session, name_of(kind));
    }
  });
  CHECK(cells == kAllKinds.size() * fields().size() * 4);
  CHECK(sentences.count() == 4 * (48 * kMatrixRanks + 3 * 2));  // fields that matter, summed over the kinds
}

TEST_CASE("of every collective a name goes by number from its second use, and so does what has no name") {
  run_ranks(2, [&](rueda_session* session, int) {
    for (const Kind kind : kAllKinds) {
      const Submission usual{.kind = kind};
      for (const char* const name : {name_of(kind), static_cast<const char*>(nullptr)}) {
        // Twice: what waits until the set of two exists is counted with the next.
        for (int i = 0; i < 2; ++i) expect(run(session, usual, name).code == RUEDA_OK, "the first uses");
        const Cache before = cache_of(session);
        for (int i = 0; i < 3; ++i) expect(run(session, usual, name).code == RUEDA_OK, "a later use");
        const Cache after = cache_of(session);
        expect(after.hits == before.hits + 3 && after.misses == before.misses,
               std::string(name_of(kind)) + ": " + std::to_string(after.hits - before.hits) + " of 3 by number");
      }
    }
  });
}

TEST_CASE("elements of another size differ, of every collective that moves them as they are") {
  Sentences sentences;
  run_ranks(kMatrixRanks, [&](rueda_session* session, int) {
    const Field field{"element bytes", has_tensor, [](Submission& s) { s.element_bytes = 16; }};
    for (const Kind kind : kAllKinds) {
      Submission usual{.kind = kind, .dtype = RUEDA_OPAQUE, .shape = {6}, .element_bytes = 12};
      if (usual.reduces() || kind == Kind::kBarrier) continue;
      for (const Names names : {Names::kFresh, Names::kCached}) {
        const std::string cell = std::string(name_of(kind)) + (names == Names::kCached ? ".cached" : "");
        run_cell(session, usual, field, names, 1, cell, sentences);
      }
    }
    expect_usable(session, "at the end");
  });
  CHECK(sentences.count() == 2 * (5 * kMatrixRanks + 2));
}

TEST_CASE(
    "another order of the dimensions in memory differs, of every collective in which elements keep their places") {
  Sentences sentences;
  run_ranks(kMatrixRanks, [&](rueda_session* session, int) {
    const Field field{"order of dimensions in memory", has_tensor, [](Submission& s) { s.order = {2, 0, 1, 3}; }};
    for (const Kind kind : kAllKinds) {
      Submission usual{.kind = kind, .shape = {2, 2, 2, 1}, .order = {0, 2, 1, 3}};
      if (kind == Kind::kBarrier) continue;
      if (!usual.keeps_positions()) {
        expect_refused(session, usual, "row-major");
        continue;
      }
      for (const Names names : {Names::kFresh, Names::kCached}) {
        const std::string cell = std::string(name_of(kind)) + (names == Names::kCached ? ".cached" : "");
        run_cell(session, usual, field, names, 1, cell, sentences);
      }
    }
    expect_usable(session, "at the end");
  });
  CHECK(sentences.count() == 2 * (3 * kMatrixRanks + 2));
}

TEST_CASE("orders that come to the same are the same: where dimensions of extent 1 stand, and of no elements at all") {
  run_ranks(2, [](rueda_session* session, int rank) {
    const auto sum = [&](std::vector<int64_t> shape, std::vector<int64_t> order) {
      const Submission submission{.shape = std::move(shape), .order = std::move(order)};
      const Ending ending = run(session, submission, "w");
      expect(ending.code == RUEDA_OK, ending.sentence);
    };
    sum({1, 2, 2}, rank == 0 ? std::vector<int64_t>{2, 1, 0} : std::vector<int64_t>{0, 2, 1});
    sum({2, 1, 2}, rank == 0 ? std::vector<int64_t>{1, 0, 2} : std::vector<int64_t>{});
    sum({0, 2}, rank == 0 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{});
    for (const std::vector<int64_t>& order : {std::vector<int64_t>{0, 0}, {0, 2}, {-1, 0}}) {
      const Submission wrong{.shape = {2, 2}, .order = order};
      expect_refused(session, wrong, "each of the 2 dimensions once");
    }
  });
}

TEST_CASE("a group on one rank and a single tensor on the others are one mismatch") {
  Sentences sentences;
  run_ranks(kMatrixRanks, [&](rueda_session* session, int rank) {
    std::vector<float> values(6, 1);
    const CTensor tensor(values, RUEDA_F32);
    const char* const names[] = {"w"};
    const rueda_op_options options = named(rank == 1 ? "g" : "w");
    for (int i = 0; i < 3; ++i) {
      rueda_handle handle = 0;
      const int32_t code =
          rank == 1 ? rueda_grouped_gather_async(session, 1, tensor.get(), nullptr, names, 0, &options, &handle)
                    : rueda_gather_async(session, tensor.get(), nullptr, 0, &options, &handle);
      expect_code(code, RUEDA_OK, "enqueue");
      const Ending ending = finish(handle);
      expect(ending.code == RUEDA_MISMATCH, ending.sentence);
      sentences.add("w" + std::to_string(i), ending.sentence);
      expect(ending.sentence.find("group differs") != std::string::npos, ending.sentence);
    }
    expect_usable(session, "at the end");
  });
}

}  // namespace rueda::test
