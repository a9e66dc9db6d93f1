// NetLab for programs in other languages. Makes hosts, writes for each a line with the words that run a command there,
// and obeys the lines of its stdin until that ends; the hosts end with it. Usage: netlab HOSTS
//
//   cut N          takes down the host's network, and nobody is told
//   unplug N       pulls its cable (three hosts or more, as for deafen)
//   mute N         has all that it sends be lost
//   deafen N       has all that is sent to it be lost
//   kill N         ends every process of the host at once
//   processes N    answers with the names of what runs there
//
// Each line is answered by one. Exit code 77: there can be no hosts here, and the line on stderr says why.
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "tests/support/netlab.h"

namespace {

using rueda::test::NetLab;

const std::map<std::string, void (*)(NetLab&, int)> kStrikes = {
    {"cut", [](NetLab& lab, int host) { lab.cut(host); }},
    {"unplug", [](NetLab& lab, int host) { lab.unplug(host); }},
    {"mute", [](NetLab& lab, int host) { lab.mute(host); }},
    {"deafen", [](NetLab& lab, int host) { lab.deafen(host); }},
    {"kill", [](NetLab& lab, int host) { lab.kill_host(host); }},
};

std::string obey(NetLab& lab, const std::string& line) {
  std::istringstream words(line);
  std::string order;
  int host = -1;
  words >> order >> host;
  const auto strike = kStrikes.find(order);
  if (strike != kStrikes.end()) {
    strike->second(lab, host);
    return order;
  }
  if (order != "processes") throw std::runtime_error("unknown order: " + line);
  std::string names;
  for (const auto& process : lab.processes(host)) names += process.name + ' ';
  return names;
}

void serve(int hosts) {
  NetLab lab({.hosts = hosts});
  for (int host = 0; host < hosts; ++host) {
    for (const auto& word : lab.on(host)) std::cout << word << ' ';
    std::cout << '\n' << std::flush;
  }
  for (std::string line; std::getline(std::cin, line);) std::cout << obey(lab, line) << '\n' << std::flush;
}

}  // namespace

int main(int count, char** words) {
  if (const std::string why = NetLab::why_not(); !why.empty()) {
    std::cerr << "netlab: " << why << '\n';
    return 77;
  }
  try {
    serve(count == 2 ? std::atoi(words[1]) : 2);
  } catch (const std::exception& error) {
    std::cerr << "netlab: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
