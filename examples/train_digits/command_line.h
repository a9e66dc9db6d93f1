#pragma once
#include <cstdint>
#include <string>

/// The flags of train_digits.
struct CommandLine {
  int epochs = 20;
  uint32_t seed = 1;
  bool fp16 = false;
  bool help = false;
  std::string data;  ///< path of digits.csv.gz; default: next to the executable
};

inline constexpr const char* kUsage =
    "usage: train_digits [--epochs N] [--seed N] [--fp16] [--data FILE]\n"
    "  --epochs N   passes over the training images, 1 to 10000 (20)\n"
    "  --seed N     of the first weights and of the order of the images (1)\n"
    "  --fp16       gradients travel as 16-bit floats\n"
    "  --data FILE  the images (digits.csv.gz beside the program)\n"
    "Run it with: hvdrun -np 2 train_digits\n";

/// Throws std::invalid_argument that names the flag and its value.
CommandLine read_command_line(int argc, char** argv);
