#include "tests/bindings/random_program.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "tests/sim/random.h"

namespace rueda::test {
namespace {

using Kind = Submission::Kind;
using sim::Random;

constexpr int kMostRanks = 5;
constexpr int64_t kPeriod = 61;  ///< elements this far apart are equal

const std::vector<int32_t>& members_of(const Program& program, const ProgramOp& op) { return program.sets[op.set]; }

bool is_member(const std::vector<int32_t>& members, int rank) {
  return std::find(members.begin(), members.end(), rank) != members.end();
}

int place_of(const std::vector<int32_t>& members, int rank) {
  return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
}

/// Whole numbers so small that sums, products and maxima of a few are exact in every dtype.
double element(const ProgramOp& op, int rank, int64_t index) {
  Random random(op.salt * 1000003 + static_cast<uint64_t>(rank) * 8191 + static_cast<uint64_t>(index % kPeriod));
  if (op.dtype == RUEDA_BOOL) return static_cast<double>(random.below(2));
  if (op.op == RUEDA_PRODUCT) return static_cast<double>(1 + random.below(2));
  if (op.op == RUEDA_AVERAGE) return 60.0 * static_cast<double>(random.below(2));
  return static_cast<double>(random.below(7));
}

/// How many rows `rank` has for the member at `place`, where ranks have numbers of their own.
int64_t own_rows(const ProgramOp& op, int rank, int place) {
  Random random(op.salt * 31 + static_cast<uint64_t>(rank) * 131 + static_cast<uint64_t>(place) * 17 + 5);
  const int64_t most = op.rows + 1;
  return static_cast<int64_t>(random.below(static_cast<size_t>(most) + 1));
}

/// Rows as they are dealt out evenly: the first members one more.
int64_t dealt(int64_t rows, int size, int place) { return rows / size + (place < rows % size ? 1 : 0); }

std::vector<int32_t> contributors(const Program& program, const ProgramOp& op) {
  std::vector<int32_t> all;
  const std::vector<int32_t>& order = program.leavers[op.set];
  for (const int32_t rank : members_of(program, op)) {
    if (place_of(order, rank) >= static_cast<int>(op.joiners)) all.push_back(rank);
  }
  return all;
}

double folded(int32_t op, double a, double b) {
  switch (op) {
    case RUEDA_MIN: return std::min(a, b);
    case RUEDA_MAX: return std::max(a, b);
    case RUEDA_PRODUCT: return a * b;
    case RUEDA_BAND: return static_cast<double>(static_cast<int64_t>(a) & static_cast<int64_t>(b));
    case RUEDA_BOR: return static_cast<double>(static_cast<int64_t>(a) | static_cast<int64_t>(b));
    case RUEDA_BXOR: return static_cast<double>(static_cast<int64_t>(a) ^ static_cast<int64_t>(b));
    default: return a + b;
  }
}

double reduced(const Program& program, const ProgramOp& op, int64_t index) {
  const std::vector<int32_t> ranks = contributors(program, op);
  double value = element(op, ranks.front(), index) * op.prescale;
  for (size_t i = 1; i < ranks.size(); ++i) value = folded(op.op, value, element(op, ranks[i], index) * op.prescale);
  if (op.op == RUEDA_AVERAGE) {
    const bool all = op.over == RUEDA_OVER_MEMBERS;
    value /= static_cast<double>(all ? members_of(program, op).size() : ranks.size());
  }
  if (op.dtype == RUEDA_BOOL) value = value != 0 ? 1 : 0;
  return value * op.postscale;
}

/// Where the first row for the member at `place` lies among the rows that `rank` gives.
int64_t rows_before(const std::vector<int64_t>& given, int place) {
  return std::accumulate(given.begin(), given.begin() + place, int64_t{0});
}

/// Elements `first` and on of what repeats itself.
template <typename Value>
void append_period(std::vector<double>& to, int64_t first, int64_t count, Value value) {
  std::vector<double> period;
  for (int64_t i = 0; i < std::min(kPeriod, count); ++i) period.push_back(value(first + i));
  for (int64_t i = 0; i < count; ++i) to.push_back(period[static_cast<size_t>(i % kPeriod)]);
}

void append_rows(std::vector<double>& to, const ProgramOp& op, int rank, int64_t first, int64_t count) {
  append_period(to, first * op.row, count * op.row, [&](int64_t index) { return element(op, rank, index); });
}

Kind random_kind(Random& random, const std::vector<int32_t>& members) {
  for (;;) {
    const Kind kind = kAllKinds[random.below(kAllKinds.size())];
    if (kind != Kind::kSend || members.size() > 1) return kind;
  }
}

const std::vector<int32_t> kWholeTypes = {RUEDA_U8,  RUEDA_I8,  RUEDA_U16, RUEDA_I16, RUEDA_U32,
                                          RUEDA_I32, RUEDA_U64, RUEDA_I64, RUEDA_BOOL};
const std::vector<int32_t> kDtypes = {RUEDA_F16,        RUEDA_BF16, RUEDA_F32, RUEDA_F64, RUEDA_COMPLEX64,
                                      RUEDA_COMPLEX128, RUEDA_U8,   RUEDA_I8,  RUEDA_U16, RUEDA_I16,
                                      RUEDA_U32,        RUEDA_I32,  RUEDA_U64, RUEDA_I64, RUEDA_BOOL};

bool is_complex(int32_t dtype) { return dtype == RUEDA_COMPLEX64 || dtype == RUEDA_COMPLEX128; }

bool is_real(int32_t dtype) { return dtype >= RUEDA_F16 && dtype <= RUEDA_F64; }

/// Whether the dtype holds the sums of an average, which go up to 300.
bool averages(int32_t dtype) { return dtype != RUEDA_BOOL && dtype != RUEDA_U8 && dtype != RUEDA_I8; }

void fill_reduction(Random& random, ProgramOp& op) {
  op.op = random.pick<int32_t>({RUEDA_SUM, RUEDA_SUM, RUEDA_SUM, RUEDA_MIN, RUEDA_MAX, RUEDA_PRODUCT, RUEDA_AVERAGE,
                                RUEDA_BAND, RUEDA_BOR, RUEDA_BXOR});
  const bool bitwise = op.op == RUEDA_BAND || op.op == RUEDA_BOR || op.op == RUEDA_BXOR;
  const bool linear = op.op == RUEDA_SUM || op.op == RUEDA_AVERAGE;
  op.dtype = random.pick(bitwise ? kWholeTypes : kDtypes);
  while ((is_complex(op.dtype) && !linear) || (op.op == RUEDA_AVERAGE && !averages(op.dtype))) {
    op.dtype = random.pick(kDtypes);
  }
  if (linear && random.once_in(3)) op.dtype = RUEDA_F32;
  if (op.op == RUEDA_AVERAGE) op.over = random.once_in(2) ? RUEDA_OVER_MEMBERS : RUEDA_OVER_CONTRIBUTORS;
  if (!is_real(op.dtype) && !is_complex(op.dtype)) return;
  if (op.op != RUEDA_PRODUCT && random.once_in(4)) op.prescale = random.once_in(2) ? 2 : 0.5;
  if (random.once_in(4)) op.postscale = 4;
  const bool encodes = op.dtype == RUEDA_F32 || op.dtype == RUEDA_F64;
  if (encodes && random.once_in(3)) op.codec = random.once_in(2) ? RUEDA_CODEC_FP16 : RUEDA_CODEC_BF16;
}

ProgramOp random_op(Random& random, const Program& program, size_t set, Kind kind, uint64_t number) {
  ProgramOp op;
  op.set = set;
  op.kind = kind;
  op.salt = program.seed * 10007 + number;
  const std::vector<int32_t>& members = program.sets[set];
  op.row = random.once_in(12) ? 0 : random.between(1, 6);
  op.rows = random.once_in(8) ? random.between(0, 30'000) : random.between(0, 20);
  op.dtype = random.once_in(8) ? RUEDA_OPAQUE : random.pick(kDtypes);
  if (reduces(kind)) fill_reduction(random, op);
  op.root = random.pick(members);
  while (kind == Kind::kSend && (op.peer = random.pick(members)) == op.root) {
  }
  if (!random.once_in(3)) op.name = "n" + std::to_string(number);
  op.in_place = random.once_in(2);
  return op;
}

std::vector<std::vector<int32_t>> random_sets(Random& random, int size) {
  std::vector<int32_t> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::vector<int32_t>> sets = {all};
  for (size_t i = random.below(5); i > 0; --i) {
    random.shuffle(all);
    std::vector<int32_t> members(all.begin(), all.begin() + 1 + static_cast<std::ptrdiff_t>(random.below(all.size())));
    std::sort(members.begin(), members.end());
    sets.push_back(std::move(members));
  }
  return sets;
}

/// The ranks one after the other on up to three hosts, or here and there.
std::vector<std::string> random_hosts(Random& random, int size) {
  static constexpr std::array kNames = {"a", "b", "c"};
  const size_t hosts = 1 + random.below(kNames.size());
  const bool mixed = random.once_in(4);
  std::vector<std::string> names;
  for (int rank = 0; rank < size; ++rank) {
    const size_t host = static_cast<size_t>(rank) * hosts / static_cast<size_t>(size);
    names.emplace_back(kNames[mixed ? random.below(hosts) : host]);
  }
  return names;
}

/// A stretch of operations of one kind and set, named, as a group.
void make_group(Random& random, Program& program, std::vector<ProgramOp>& ops, uint64_t& number, size_t group) {
  const size_t set = random.below(program.sets.size());
  Kind kind = random_kind(random, program.sets[set]);
  while (kind == Kind::kBarrier) kind = random_kind(random, program.sets[set]);
  const ProgramOp first = random_op(random, program, set, kind, number);
  for (size_t i = 1 + random.below(4); i > 0; --i) {
    ProgramOp op = random_op(random, program, set, kind, number);
    op.root = first.root;
    op.peer = first.peer;
    op.op = first.op;
    op.dtype = first.dtype;
    op.prescale = first.prescale;
    op.postscale = first.postscale;
    op.over = first.over;
    op.codec = first.codec;
    op.in_place = first.in_place;
    op.name = "n" + std::to_string(number++);
    op.group = group;
    ops.push_back(std::move(op));
  }
}

/// What a set's members do while one after the other joins: each sees the operations before its own join.
std::vector<ProgramOp> make_tail(Random& random, const Program& program, size_t set, uint64_t& number) {
  std::vector<ProgramOp> tail;
  const size_t members = program.sets[set].size();
  for (size_t joined = 1; joined < members; ++joined) {
    for (size_t i = random.below(4); i > 0; --i) {
      const Kind kind = random.pick<Kind>({Kind::kAllreduce, Kind::kReducescatter, Kind::kReduce, Kind::kBarrier});
      ProgramOp op = random_op(random, program, set, kind, number++);
      op.joiners = joined;
      const std::vector<int32_t> left = contributors(program, op);
      op.root = left[random.below(left.size())];
      tail.push_back(std::move(op));
    }
  }
  return tail;
}

}  // namespace

Program random_program(uint64_t seed) {
  Random random(seed);
  Program program;
  program.seed = seed;
  program.size = random.between(1, kMostRanks);
  program.hosts = random_hosts(random, program.size);
  program.sets = random_sets(random, program.size);
  program.leavers = program.sets;
  for (auto& order : program.leavers) random.shuffle(order);
  uint64_t number = 0;
  size_t group = 0;
  for (int round = random.between(1, 4); round > 0; --round) {
    std::vector<ProgramOp> ops;
    for (size_t i = 1 + random.below(24); i > 0; --i) {
      if (random.once_in(5)) {
        make_group(random, program, ops, number, ++group);
        continue;
      }
      const size_t set = random.below(program.sets.size());
      ops.push_back(random_op(random, program, set, random_kind(random, program.sets[set]), number++));
    }
    // The same again: by number now.
    const bool again = random.once_in(2);
    program.rounds.push_back(std::move(ops));
    if (again) program.rounds.push_back(program.rounds.back());
  }
  for (size_t set = 0; set < program.sets.size(); ++set) {
    program.tails.push_back(random.once_in(2) ? make_tail(random, program, set, number) : std::vector<ProgramOp>());
  }
  return program;
}

bool takes_part(const Program& program, const ProgramOp& op, int rank) {
  if (op.kind == Kind::kSend) return rank == op.root || rank == op.peer;
  return is_member(members_of(program, op), rank) && is_member(contributors(program, op), rank);
}

bool receives(const ProgramOp& op, int rank) {
  switch (op.kind) {
    case Kind::kBarrier: return false;
    case Kind::kReduce:
    case Kind::kGather: return rank == op.root;
    case Kind::kSend: return rank == op.peer;
    default: return true;
  }
}

std::vector<int64_t> rows_given(const Program& program, const ProgramOp& op, int rank) {
  const std::vector<int32_t>& members = members_of(program, op);
  switch (op.kind) {
    case Kind::kBarrier: return {};
    case Kind::kAllgather:
    case Kind::kGather: return {own_rows(op, rank, 0)};
    case Kind::kAlltoall:
    case Kind::kScatter: {
      std::vector<int64_t> rows;
      for (size_t place = 0; place < members.size(); ++place) {
        const bool gives = op.kind == Kind::kAlltoall || rank == op.root;
        rows.push_back(gives ? own_rows(op, rank, static_cast<int>(place)) : 0);
      }
      return rows;
    }
    default: return {op.rows};
  }
}

std::vector<double> input_of(const Program& program, const ProgramOp& op, int rank) {
  const std::vector<int64_t> given = rows_given(program, op, rank);
  std::vector<double> values;
  append_rows(values, op, rank, 0, std::accumulate(given.begin(), given.end(), int64_t{0}));
  return values;
}

std::vector<double> expected_of(const Program& program, const ProgramOp& op, int rank) {
  std::vector<double> values;
  if (!receives(op, rank)) return values;
  const std::vector<int32_t>& members = members_of(program, op);
  const auto size = static_cast<int>(members.size());
  const int place = place_of(members, rank);
  if (reduces(op.kind)) {
    int64_t first = 0;
    int64_t count = op.rows;
    if (op.kind == Kind::kReducescatter) {
      for (int before = 0; before < place; ++before) first += dealt(op.rows, size, before);
      count = dealt(op.rows, size, place);
    }
    append_period(values, first * op.row, count * op.row, [&](int64_t i) { return reduced(program, op, i); });
    return values;
  }
  if (op.kind == Kind::kBroadcast || op.kind == Kind::kSend) return input_of(program, op, op.root);
  for (const int32_t from : members) {
    if (op.kind == Kind::kScatter && from != op.root) continue;
    const std::vector<int64_t> given = rows_given(program, op, from);
    const bool all = op.kind == Kind::kAllgather || op.kind == Kind::kGather;
    append_rows(values, op, from, all ? 0 : rows_before(given, place), given[all ? 0 : static_cast<size_t>(place)]);
  }
  return values;
}

std::string text_of(const Program& program, const ProgramOp& op) {
  std::string members;
  for (const int32_t rank : members_of(program, op)) members += (members.empty() ? "" : ", ") + std::to_string(rank);
  return std::string(name_of(op.kind)) + " \"" + op.name + "\" of [" + std::to_string(op.rows) + ", " +
         std::to_string(op.row) + "] of dtype " + std::to_string(op.dtype) + ", op " + std::to_string(op.op) +
         ", root " + std::to_string(op.root) + ", group " + std::to_string(op.group) + ", with " +
         std::to_string(op.joiners) + " joined, in set {" + members + "}";
}

}  // namespace rueda::test
