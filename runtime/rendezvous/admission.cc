// Compares what the ranks bring to init. Each thing that must agree is a column; a column with two values becomes a
// line:
//
//   init: the ranks were started differently:
//     size of the job: "4" on ranks 0-2 (host a), "2" on rank 3 (host b)
//     RUEDA_COMPRESSION: "none" on ranks 0-2 (host a), "fp16" on rank 3 (host b)
//
// Programs come first and alone: the rest of a wish can only be read if protocol and build are the same.
#include "runtime/rendezvous/admission.h"

#include <algorithm>
#include <map>

#include "runtime/base/rank_ranges.h"

namespace rueda::core {
namespace {

/// The values of one thing that all ranks should agree on, with the ranks that have each.
class Column {
 public:
  void add(int rank, const std::string& value) {
    for (auto& [known, ranks] : values_) {
      if (known == value) return ranks.push_back(rank);
    }
    values_.push_back({value, {rank}});
  }
  bool agrees() const { return values_.size() < 2; }
  /// `"none" on ranks 0-2 (host a), "fp16" on rank 3 (host b)`
  std::string text(const RankNames& names) const {
    std::string text;
    for (const auto& [value, ranks] : values_) {
      text += (text.empty() ? "\"" : ", \"") + value + "\" on " + rank_ranges(ranks, names);
    }
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::vector<int>>> values_;
};

/// Columns with their names, in the order of the lines.
using Table = std::vector<std::pair<std::string, Column>>;

RankNames names_in(std::span<const Wish> wishes) {
  RankNames names;
  for (const Wish& wish : wishes) names.hosts.push_back(wish.endpoint.host);
  return names;
}

/// Adds a column for each setting with this mark. A rank whose settings cannot be read shows as "(unreadable)".
void add_settings(std::span<const Wish> wishes, Agreed mark, Table& table) {
  for (const Knob& knob : knobs()) {
    if (knob.agreed == mark) table.emplace_back(std::string("RUEDA_") + knob.variable, Column());
  }
  for (size_t rank = 0; rank < wishes.size(); ++rank) {
    const auto values = parse_agreed(wishes[rank].agreed);
    std::map<std::string, std::string> held;
    if (values.ok()) {
      for (const AgreedValue& agreed : values.value())
        held[std::string("RUEDA_") + agreed.knob->variable] = agreed.value;
    }
    for (auto& [name, column] : table) {
      const auto value = held.find(name);
      column.add(static_cast<int>(rank), value == held.end() ? "(unreadable)" : value->second);
    }
  }
}

/// A line for each column in which ranks differ.
std::string differences(const Table& table, const RankNames& names) {
  std::string text;
  for (const auto& [name, column] : table) {
    if (!column.agrees()) text += "\n  " + name + ": " + column.text(names);
  }
  return text;
}

Table program_table(std::span<const Wish> wishes) {
  Table table{{"protocol", {}}, {"build", {}}};
  for (size_t rank = 0; rank < wishes.size(); ++rank) {
    table[0].second.add(static_cast<int>(rank), std::to_string(wishes[rank].protocol));
    table[1].second.add(static_cast<int>(rank), wishes[rank].build);
  }
  return table;
}

/// Compares the marks of the keys only if every rank has a key; otherwise the line "job key" says which have none.
Table start_table(std::span<const Wish> wishes) {
  Table table{{"size of the job", {}}, {"process sets", {}}, {"job key", {}}};
  const auto keyed = [](const Wish& wish) { return !wish.key_mark.empty(); };
  const bool marked = std::all_of(wishes.begin(), wishes.end(), keyed);
  if (marked) table.emplace_back("mark of the job key", Column());
  for (size_t rank = 0; rank < wishes.size(); ++rank) {
    table[0].second.add(static_cast<int>(rank), std::to_string(wishes[rank].size));
    table[1].second.add(static_cast<int>(rank), wishes[rank].process_sets);
    table[2].second.add(static_cast<int>(rank), keyed(wishes[rank]) ? "yes" : "no");
    if (marked) table[3].second.add(static_cast<int>(rank), wishes[rank].key_mark);
  }
  return table;
}

}  // namespace

Status admit(std::span<const Wish> wishes) {
  const RankNames names = names_in(wishes);
  const std::string program = differences(program_table(wishes), names);
  // Another protocol or build may encode the rest differently, so nothing else is compared.
  if (!program.empty()) return {Code::kMismatch, "init: the ranks run different programs:" + program};
  for (const Wish& wish : wishes) {
    if (wish.unfit.empty()) continue;
    return {Code::kSystem,
            "init: " + rank_name(wish.rank, wish.endpoint.host, wish.endpoint.pid) + " cannot take part: " + wish.unfit,
            wish.rank};
  }
  Table settings;
  add_settings(wishes, Agreed::kMustMatch, settings);
  const std::string start = differences(start_table(wishes), names) + differences(settings, names);
  if (!start.empty()) return {Code::kMismatch, "init: the ranks were started differently:" + start};
  return {};
}

std::vector<std::string> overruled(std::span<const Wish> wishes) {
  Table table;
  add_settings(wishes, Agreed::kRankZero, table);
  std::vector<std::string> sentences;
  const RankNames names = names_in(wishes);
  for (const auto& [name, column] : table) {
    if (!column.agrees()) sentences.push_back(name + " is " + column.text(names) + "; rank 0's value holds for all");
  }
  return sentences;
}

Status check_published(const std::string& agreed, const Settings& own) {
  const auto values = parse_agreed(agreed);
  if (!values.ok()) return values.status();
  std::string differences;
  for (const AgreedValue& published : values.value()) {
    if (published.knob->agreed != Agreed::kMustMatch) continue;
    Settings theirs;  // one value has several spellings, so what `print` makes of it is compared
    RUEDA_RETURN_IF_ERROR(published.knob->parse(published.value, theirs));
    const std::string there = published.knob->print(theirs), here = published.knob->print(own);
    if (there != here) {
      differences += std::string(differences.empty() ? "" : "; ") + "RUEDA_" + published.knob->variable + " is \"" +
                     there + "\" there, \"" + here + "\" here";
    }
  }
  if (differences.empty()) return {};
  return {Code::kMismatch, "init: the store gives other settings as rank 0's than this rank has: " + differences +
                               "; rank 0 found them equal, so check what else writes to the store"};
}

}  // namespace rueda::core
