#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

namespace fermata::tune {

// Where rows with ids are, for ids that are given out one after another and rows that come and go
// nearly in that order: a table of pages in the order of the ids, without hashing. Not
// synchronised.
class PlacesById {
 public:
  void put(uint64_t id, uint64_t place) {
    const uint64_t at = id / kIds;
    if (pages_.empty()) first_ = at;
    for (; at < first_; --first_) pages_.emplace_front();
    while (at - first_ >= pages_.size()) pages_.emplace_back();
    std::unique_ptr<Page>& page = pages_[at - first_];
    if (page == nullptr) {
      page = spare_ == nullptr ? std::make_unique<Page>() : std::move(spare_);
      ++used_;
    }
    uint64_t& own = page->places[id % kIds];
    if (own == 0) ++page->used;
    own = place + 1;
  }

  // Null: it has none. Else one more than its place.
  uint64_t find(uint64_t id) const {
    const uint64_t at = id / kIds - first_;
    if (id / kIds < first_ || at >= pages_.size() || pages_[at] == nullptr) return 0;
    return pages_[at]->places[id % kIds];
  }

  void erase(uint64_t id, uint64_t place) {
    if (find(id) != place + 1) return;  // a row of the same id took it
    std::unique_ptr<Page>& page = pages_[id / kIds - first_];
    page->places[id % kIds] = 0;
    if (--page->used > 0) return;
    spare_ = std::move(page);
    --used_;
    for (; !pages_.empty() && pages_.front() == nullptr; ++first_) pages_.pop_front();
  }

  size_t bytes() const { return used_ * sizeof(Page) + pages_.size() * sizeof(pages_[0]); }

 private:
  static constexpr size_t kIds = 64;
  struct Page {
    std::array<uint64_t, kIds> places{};
    size_t used = 0;
  };
  std::deque<std::unique_ptr<Page>> pages_;
  uint64_t first_ = 0;  // the ids of the first page begin at kIds times this
  size_t used_ = 0;
  std::unique_ptr<Page> spare_;
};

// Rows with ids in the order in which they came; the first go first. They stay where they are.
template <class Row>
class Rows {
 public:
  // A fresh row of that id, which the caller fills in.
  Row& add(uint64_t id) {
    if (const uint64_t at = end_ - page_ * kRows; at == pages_.size() * kRows) {
      pages_.push_back(spare_ == nullptr ? std::make_unique<Page>() : std::move(spare_));
    }
    places_.put(id, end_);
    Row& row = at(end_++);
    row.id = decltype(row.id)(id);
    return row;
  }

  const Row* find(uint64_t id) const {
    const uint64_t place = places_.find(id);
    return place == 0 ? nullptr : &const_cast<Rows*>(this)->at(place - 1);
  }
  Row* find(uint64_t id) { return const_cast<Row*>(std::as_const(*this).find(id)); }

  void pop_front() {
    Row& row = at(begin_);
    places_.erase(number(row.id), begin_);
    row = Row();
    if (++begin_ % kRows != 0) return;
    spare_ = std::move(pages_.front());
    pages_.pop_front();
    ++page_;
  }

  bool empty() const { return begin_ == end_; }
  size_t size() const { return end_ - begin_; }
  const Row& operator[](size_t i) const { return const_cast<Rows*>(this)->at(begin_ + i); }
  const Row& front() const { return (*this)[0]; }
  size_t bytes() const { return pages_.size() * sizeof(Page) + places_.bytes(); }

 private:
  static constexpr uint64_t kRows = 64;
  using Page = std::array<Row, kRows>;

  static uint64_t number(uint64_t id) { return id; }
  template <class Id>
  static uint64_t number(Id id) {
    return id.value();
  }
  Row& at(uint64_t place) { return (*pages_[place / kRows - page_])[place % kRows]; }

  PlacesById places_;
  std::deque<std::unique_ptr<Page>> pages_;
  uint64_t page_ = 0;             // that have gone
  uint64_t begin_ = 0, end_ = 0;  // rows that went and that came
  std::unique_ptr<Page> spare_;
};

}  // namespace fermata::tune
