#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/settings.h"

/// Text to value and back for the types that knobs have. Every failure is kInvalidArgument with a sentence that names
/// the value and what is allowed; every `print_` gives text that its `parse_` takes.
namespace rueda::core {

/// 1, true, yes, on; 0, false, no, off; any case.
Result<bool> parse_switch(const std::string& text);
std::string print_switch(bool value);
/// As a switch, or "auto".
Result<Choice> parse_choice(const std::string& text);
std::string print_choice(Choice value);
/// A whole number from 0 to 2^32.
Result<uint64_t> parse_count(const std::string& text);
std::string print_count(uint64_t value);
/// Seconds, a fraction allowed, from 0 to a year.
Result<std::chrono::duration<double>> parse_seconds(const std::string& text);
std::string print_seconds(std::chrono::duration<double> value);
/// Core numbers and ranges below 1024: 0,2,8-11. Each once, in the order given.
Result<std::vector<int>> parse_cores(const std::string& text);
std::string print_cores(const std::vector<int>& value);
/// 1 to 16.
Result<int> parse_lanes(const std::string& text);
std::string print_lanes(int value);
/// auto, which is 0, or 1 to 16.
Result<int> parse_sockets(const std::string& text);
std::string print_sockets(int value);
/// The name of an algorithm, or "auto": lower-case letters, digits and underscores. The selector checks whether there
/// is such an algorithm.
Result<std::string> parse_algorithm(const std::string& text);
/// auto, tcp, mpi. "gloo", as scripts for Horovod say, means tcp.
Result<std::string> parse_transport(const std::string& text);
/// none, fp16, bf16.
Result<CodecId> parse_codec(const std::string& text);
std::string print_codec(CodecId value);
/// auto, plain, non-temporal.
Result<Stores> parse_stores(const std::string& text);
std::string print_stores(Stores value);
/// auto, spin, sleep.
Result<Waits> parse_waits(const std::string& text);
std::string print_waits(Waits value);
/// auto, which is 0, or 2 to 4.
Result<int> parse_lane_slots(const std::string& text);
std::string print_lane_slots(int value);
/// 0, or bytes from 64KiB to 1GiB, as in 128KiB.
Result<uint64_t> parse_chunk(const std::string& text);
/// "control" (false) or "all" (true).
Result<bool> parse_tls(const std::string& text);
std::string print_tls(bool value);
/// Names, globs or CIDR, separated by commas: printable, at most 1024 bytes.
Result<std::string> parse_interfaces(const std::string& text);
/// Paths, separated by colons: at most 4096 bytes.
Result<std::string> parse_paths(const std::string& text);
/// A file's path: printable, at most 4096 bytes.
Result<std::string> parse_file(const std::string& text);
/// 0 to 65535.
Result<uint16_t> parse_port(const std::string& text);
std::string print_port(uint16_t value);
/// SIGUSR1, SIGUSR2, SIGHUP or SIGQUIT, also without SIG; empty for 0, none.
Result<int> parse_signal(const std::string& text);
std::string print_signal(int value);
/// trace, debug, info, warning, error, fatal, off: 0 to 6.
Result<int> parse_log_level(const std::string& text);
std::string print_log_level(int value);
std::string print_text(const std::string& value);

}  // namespace rueda::core
