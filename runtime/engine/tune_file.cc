// Choices as JSON and back, and the file that holds them. A file may come from anywhere, so every value is held against
// what it can be. Whether its variants exist is for the tuner to see: it uses only those that it would try.
#include "runtime/engine/tune_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/base/isa.h"
#include "runtime/base/knob_values.h"
#include "runtime/base/printable.h"
#include "runtime/base/usable_cores.h"
#include "runtime/diagnosis/replaceable.h"
#include "runtime/engine/tune_log.h"

namespace rueda::core {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTuneFormat = "rueda choices 3";
constexpr uint8_t kMostShift = 7;
constexpr int kMostCounted = 1 << 20;  // ranks, hosts, cores

/// The value of this name among those numbered from 0.
template <typename Value>
Value named(const Json& json, const char* field, int count) {
  const std::string name = json.at(field).get<std::string>();
  for (int i = 0; i < count; ++i) {
    if (name == name_of(static_cast<Value>(i))) return static_cast<Value>(i);
  }
  throw std::runtime_error(fmt::format("{} \"{}\" is unknown", field, name));
}

int counted(const Json& value, const char* field) {
  if (!value.is_number_integer()) throw std::runtime_error(fmt::format("{} is not a whole number", field));
  const auto number = value.get<int64_t>();
  if (number < 1 || number > kMostCounted)
    throw std::runtime_error(fmt::format("{} is {}, not 1 to {}", field, number, kMostCounted));
  return static_cast<int>(number);
}

Json json_of(const NamedChoice& named) {
  const TuneClass& batches = named.choice.batches;
  const Variant& variant = named.choice.variant;
  return {{"operation", name_of(batches.kind)},
          {"type", name_of(batches.dtype)},
          {"codec", name_of(batches.codec)},
          {"bytes", least_bytes(batches.size)},
          {"short_tensors", batches.short_tensors},
          {"ranks", batches.ranks},
          {"hosts", batches.hosts},
          {"largest_host", batches.largest_host},
          {"distance", name_of(batches.distance)},
          {"algorithm", named.algorithm},
          {"chunk_shift", variant.chunk_shift},
          {"stores", print_stores(variant.stores)},
          {"waits", print_waits(variant.sleeps ? Waits::kSleep : Waits::kSpin)},
          {"lane_slots", print_lane_slots(variant.lane_slots)},
          {"sockets", print_sockets(variant.sockets)},
          {"ns_per_byte", named.choice.time}};
}

TuneClass class_from(const Json& json) {
  TuneClass batches;
  batches.kind = named<OpKind>(json, "operation", kOpKindCount);
  batches.dtype = named<Dtype>(json, "type", kDtypeCount);
  batches.codec = named<CodecId>(json, "codec", static_cast<int>(CodecId::kBf16) + 1);
  const auto bytes = json.at("bytes").get<uint64_t>();
  if (bytes == 0 || bytes > uint64_t{1} << 62)
    throw std::runtime_error(fmt::format("bytes is {}, not 1 to 2^62", bytes));
  batches.size = size_class(bytes);
  batches.short_tensors = json.at("short_tensors").get<bool>();
  batches.ranks = counted(json.at("ranks"), "ranks");
  batches.hosts = counted(json.at("hosts"), "hosts");
  batches.largest_host = counted(json.at("largest_host"), "largest_host");
  batches.distance = named<Distance>(json, "distance", static_cast<int>(Distance::kFar) + 1);
  return batches;
}

NamedChoice choice_from(const Json& json) {
  NamedChoice named;
  named.choice.batches = class_from(json);
  named.algorithm = json.at("algorithm").get<std::string>();
  const auto shift = json.at("chunk_shift").get<int64_t>();
  if (shift < 0 || shift > kMostShift)
    throw std::runtime_error(fmt::format("chunk_shift is {}, not 0 to {}", shift, kMostShift));
  named.choice.variant.chunk_shift = static_cast<uint8_t>(shift);
  const auto stores = parse_stores(json.at("stores").get<std::string>());
  if (!stores.ok()) throw std::runtime_error("stores: " + stores.status().sentence());
  named.choice.variant.stores = stores.value();
  const auto waits = parse_waits(json.at("waits").get<std::string>());
  if (!waits.ok()) throw std::runtime_error("waits: " + waits.status().sentence());
  named.choice.variant.sleeps = waits.value() == Waits::kSleep;
  const auto slots = parse_lane_slots(json.at("lane_slots").get<std::string>());
  if (!slots.ok()) throw std::runtime_error("lane_slots: " + slots.status().sentence());
  named.choice.variant.lane_slots = static_cast<uint8_t>(slots.value());
  const auto sockets = parse_sockets(json.at("sockets").get<std::string>());
  if (!sockets.ok()) throw std::runtime_error("sockets: " + sockets.status().sentence());
  if (sockets.value() == 1) throw std::runtime_error("sockets is 1, not auto or 2 to 16");
  named.choice.variant.sockets = static_cast<uint8_t>(sockets.value());
  named.choice.time = json.at("ns_per_byte").get<double>();
  if (!std::isfinite(named.choice.time) || named.choice.time <= 0)
    throw std::runtime_error(fmt::format("ns_per_byte is {}, not a time above 0", named.choice.time));
  return named;
}

}  // namespace

TuneFacts facts_of_machine() {
  TuneFacts facts;
  facts.vectors = name_of(best_isa());
  facts.cores = usable_cores();
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    facts.processor = line.substr(colon + 2);
    break;
  }
  return facts;
}

std::string difference(const TuneFacts& file, const TuneFacts& here) {
  const auto tell = [](const char* what, const auto& there, const auto& own) {
    return fmt::format("{}: {} in the file, {} here", what, there, own);
  };
  if (file.processor != here.processor) return tell("processor", printable(file.processor), here.processor);
  if (file.vectors != here.vectors) return tell("vector instructions", printable(file.vectors), here.vectors);
  if (file.cores != here.cores) return tell("cores", file.cores, here.cores);
  if (file.slot_bytes != here.slot_bytes) return tell("bytes of a slot", file.slot_bytes, here.slot_bytes);
  if (file.hosts == here.hosts) return "";
  return tell("ranks of the hosts", fmt::format("{}", fmt::join(file.hosts, "+")),
              fmt::format("{}", fmt::join(here.hosts, "+")));
}

std::string to_json(const TuneFile& file) {
  const TuneFacts& facts = file.facts;
  Json json = {{"format", kTuneFormat}, {"processor", facts.processor},   {"vectors", facts.vectors},
               {"cores", facts.cores},  {"slot_bytes", facts.slot_bytes}, {"ranks_of_hosts", facts.hosts}};
  json["choices"] = Json::array();
  for (const NamedChoice& named : file.choices) json["choices"].push_back(json_of(named));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<TuneFile> tune_file_from_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (json.at("format").get<std::string>() != kTuneFormat)
      throw std::runtime_error(fmt::format("format is not \"{}\"", kTuneFormat));
    TuneFile file;
    file.facts.processor = json.at("processor").get<std::string>();
    file.facts.vectors = json.at("vectors").get<std::string>();
    file.facts.cores = counted(json.at("cores"), "cores");
    file.facts.slot_bytes = json.at("slot_bytes").get<uint64_t>();
    for (const Json& ranks : json.at("ranks_of_hosts")) file.facts.hosts.push_back(counted(ranks, "ranks_of_hosts"));
    const Json& choices = json.at("choices");
    if (!choices.is_array() || choices.size() > kMostTunedChoices)
      throw std::runtime_error(fmt::format("choices is not a list of at most {}", kMostTunedChoices));
    for (const Json& choice : choices) file.choices.push_back(choice_from(choice));
    return file;
  } catch (const std::exception& error) {
    return Status(Code::kInvalidArgument, fmt::format("it is not a file of choices: {}", printable(error.what())));
  }
}

Result<std::string> read_tune_file(const std::string& path) {
  const auto failed = [&path](const std::string& why) {
    return Status(Code::kSystem, path + " cannot be read: " + why);
  };
  // A FIFO would wait for a writer without O_NONBLOCK.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file.valid()) return errno == ENOENT ? Result<std::string>(std::string()) : failed(std::strerror(errno));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return failed(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return failed("it is not a regular file");
  std::string text(kMostTuneFileBytes + 1, '\0');
  size_t length = 0;
  while (length < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(std::strerror(errno));
    if (got == 0) break;
    length += static_cast<size_t>(got);
  }
  if (length > kMostTuneFileBytes) return failed(fmt::format("it is longer than {} bytes", kMostTuneFileBytes));
  text.resize(length);
  return text;
}

Status write_tune_file(const std::string& path, const std::string& text) {
  return replace_file("file of choices", path, text);
}

}  // namespace rueda::core
