#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace fermata {

// How often each true class (row) was answered as each class (column): the matrix Z of
// SneakPeek's equations 7 to 9. Cheap to ask, O(classes) a question.
class Confusion {
 public:
  // Of a classifier. A matrix has the square of it, and is part of documents.
  static constexpr uint32_t kMostClasses = 1024;

  Confusion() = default;  // of no class
  explicit Confusion(uint32_t classes) : classes_(classes), cells_(size_t{classes} * classes) {}

  // Both are below classes().
  void add(uint32_t truth, uint32_t answer, uint64_t times = 1) {
    cells_[size_t{truth} * classes_ + answer] += times;
  }

  uint32_t classes() const { return classes_; }
  uint64_t at(uint32_t truth, uint32_t answer) const {
    return cells_[size_t{truth} * classes_ + answer];
  }
  uint64_t examples(uint32_t truth) const;  // of one class
  uint64_t examples() const;
  // Equation 7; nothing without an example.
  std::optional<double> accuracy() const;
  // The share of a class that was answered right; nothing without an example of it.
  std::optional<double> recall(uint32_t truth) const;

  bool operator==(const Confusion&) const = default;

 private:
  uint32_t classes_ = 0;
  std::vector<uint64_t> cells_;
};

}  // namespace fermata
