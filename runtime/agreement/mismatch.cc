// The sentence of a mismatch. It has to answer "which rank is wrong?" at first reading, so it prints only the fields
// that differ, groups the ranks by what they sent, and writes the ranks as ranges:
//
//   allreduce "w1": shape differs: ranks 0-2 (host a) sent [12], rank 3 (host b) sent [10]
//
// A field is an entry of `kFields`: a name and a function that prints it. Values are compared as printed, so what looks
// equal to the reader is never reported as different.
#include "runtime/agreement/mismatch.h"

#include <cstdio>
#include <utility>

#include "runtime/agreement/messages.h"

namespace rueda::core {
namespace {

/// 17 digits tell any two doubles apart, so two scales that differ never print alike.
std::string print_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string print_shape(const Metadata& metadata) {
  std::string text = "[";
  const std::span<const int64_t> dimensions = metadata.dimensions();
  for (size_t i = 0; i < dimensions.size(); ++i) {
    // Ranks may bring different numbers of rows to an exchange, so dimension 0 is compared only if it is not 0.
    const bool free = i == 0 && exchanges(metadata.kind) && dimensions[0] == 0;
    text += (i == 0 ? "" : ", ") + (free ? "*" : std::to_string(dimensions[i]));
  }
  return text + "]";
}

std::string print_order(const Metadata& metadata) {
  if (metadata.order.empty()) return "row-major";
  std::string text;
  for (const uint8_t dimension : metadata.order) text += (text.empty() ? "[" : ", ") + std::to_string(dimension);
  return text + "]";
}

std::string print_element_bytes(const Metadata& metadata) {
  return metadata.dtype == Dtype::kOpaque ? std::to_string(metadata.element_bytes()) : "those of its dtype";
}

/// Groups are known by a hash, so their names cannot be listed; unequal hashes still show that names or order differ.
std::string print_group(const Metadata& metadata) {
  if (metadata.group_size == 0) return "no group";
  char text[64];
  std::snprintf(text, sizeof text, "a group of %u tensors (names' hash %016llx)", metadata.group_size,
                static_cast<unsigned long long>(metadata.group_hash));
  return text;
}

struct Field {
  const char* name;
  std::string (*print)(const Metadata& metadata);
};

constexpr Field kFields[] = {
    {"kind", [](const Metadata& m) -> std::string { return name_of(m.kind); }},
    {"dtype", [](const Metadata& m) -> std::string { return name_of(m.dtype); }},
    {"shape", print_shape},
    {"order of dimensions in memory", print_order},
    {"element bytes", print_element_bytes},
    {"op", [](const Metadata& m) -> std::string { return name_of(m.op); }},
    {"codec", [](const Metadata& m) -> std::string { return name_of(m.codec); }},
    {"root",
     [](const Metadata& m) -> std::string { return m.root < 0 ? "no root" : "rank " + std::to_string(m.root); }},
    {"prescale", [](const Metadata& m) { return print_number(m.prescale); }},
    {"postscale", [](const Metadata& m) { return print_number(m.postscale); }},
    {"average over",
     [](const Metadata& m) -> std::string {
       return m.over == AverageOver::kMembers ? "all members" : "those that contributed";
     }},
    {"device",
     [](const Metadata& m) { return m.device < 0 ? "host memory" : "device kind " + std::to_string(m.device); }},
    {"group", print_group},
};

/// Of thousands of ranks only the first are listed, so that the sentence has room for what the others sent.
constexpr size_t kMostRangeBytes = 400;

/// "ranks 0-2 (host a) sent [12], rank 3 (host b) sent [10]", or empty if all sent the same.
std::string who_sent_what(const Field& field, std::span<const Sent> sent, const RankNames& names) {
  // In order of first appearance, so that the lowest rank's value comes first in the sentence.
  std::vector<std::pair<std::string, std::vector<int>>> values;
  for (const Sent& each : sent) {
    const std::string value = field.print(*each.metadata);
    auto known = values.begin();
    while (known != values.end() && known->first != value) ++known;
    if (known == values.end()) known = values.insert(values.end(), {value, {}});
    known->second.push_back(each.rank);
  }
  if (values.size() < 2) return {};
  std::string text;
  for (const auto& [value, ranks] : values) {
    text += (text.empty() ? "" : ", ") + bounded_rank_ranges(ranks, names, kMostRangeBytes) + " sent " + value;
  }
  return text;
}

}  // namespace

std::string mismatch_sentence(const std::string& what, std::span<const Sent> sent, const RankNames& names) {
  std::string fields;
  for (const Field& field : kFields) {
    const std::string who = who_sent_what(field, sent, names);
    if (!who.empty()) fields += (fields.empty() ? "" : "; ") + std::string(field.name) + " differs: " + who;
  }
  // If even the kinds differ, no kind can stand at the head of the sentence.
  bool one_kind = true;
  for (const Sent& each : sent) one_kind = one_kind && each.metadata->kind == sent.front().metadata->kind;
  const std::string kind = one_kind ? name_of(sent.front().metadata->kind) : "tensor";
  return bounded_sentence(kind + " " + what + ": " + fields);
}

}  // namespace rueda::core
