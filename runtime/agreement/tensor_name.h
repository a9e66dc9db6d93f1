#pragma once
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace rueda::core {

/// The name of a tensor. A name of at most 39 bytes lies inside, so that an operation with such a name allocates
/// nothing for it: std::string has room for 15, and names of layers are longer. The text keeps its address until the
/// name is assigned, moved or destroyed.
class TensorName {
 public:
  TensorName() = default;
  TensorName(std::string_view text) { assign(text); }
  TensorName(const std::string& text) { assign(text); }
  TensorName(const char* text) { assign(text); }
  TensorName(const TensorName& other) { assign(other.view()); }
  TensorName(TensorName&& other) noexcept { take(other); }
  TensorName& operator=(const TensorName& other) {
    if (this != &other) assign(other.view());
    return *this;
  }
  TensorName& operator=(TensorName&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~TensorName() = default;

  std::string_view view() const { return {outside_ != nullptr ? outside_.get() : inside_.data(), size_}; }
  operator std::string_view() const { return view(); }
  std::string str() const { return std::string(view()); }
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  friend bool operator==(const TensorName& a, const TensorName& b) { return a.view() == b.view(); }
  friend bool operator==(const TensorName& a, std::string_view b) { return a.view() == b; }
  friend bool operator==(const TensorName& a, const char* b) { return a.view() == b; }
  friend bool operator==(const TensorName& a, const std::string& b) { return a.view() == b; }

 private:
  static constexpr size_t kInside = 39;
  /// `text` must not be a part of this name. If there is no memory, it throws and changes nothing.
  void assign(std::string_view text) {
    std::unique_ptr<char[]> outside;
    if (text.size() > kInside) outside = std::make_unique_for_overwrite<char[]>(text.size());
    if (!text.empty()) std::memcpy(outside != nullptr ? outside.get() : inside_.data(), text.data(), text.size());
    outside_ = std::move(outside);
    size_ = text.size();
  }
  void take(TensorName& other) noexcept {
    outside_ = std::move(other.outside_);
    size_ = std::exchange(other.size_, 0);
    if (outside_ == nullptr) std::memcpy(inside_.data(), other.inside_.data(), size_);
  }

  size_t size_ = 0;
  std::unique_ptr<char[]> outside_;   ///< null if the text lies inside
  std::array<char, kInside> inside_;  // NOLINT(cppcoreguidelines-pro-type-member-init): only `size_` bytes are read
};

}  // namespace rueda::core
