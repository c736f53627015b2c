#include "model/confusion_document.h"

#include <nlohmann/json.hpp>

namespace fermata {
namespace {

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

Json confusion_json(const Confusion& confusion) {
  Json recall = Json::array(), matrix = Json::array();
  for (uint32_t truth = 0; truth < confusion.classes(); ++truth) {
    recall.push_back(or_null(confusion.recall(truth)));
    Json& row = matrix.emplace_back(Json::array());
    for (uint32_t answer = 0; answer < confusion.classes(); ++answer) {
      row.push_back(confusion.at(truth, answer));
    }
  }
  return {{"accuracy", or_null(confusion.accuracy())}, {"recall", recall}, {"confusion", matrix}};
}

Confusion read_confusion(Reader reader) {
  const std::vector<Reader> rows = reader.list(1);
  Confusion confusion(static_cast<uint32_t>(rows.size()));
  for (uint32_t truth = 0; truth < rows.size(); ++truth) {
    const std::vector<Reader> cells = rows[truth].list();
    if (cells.size() != rows.size()) {
      rows[truth].fail("as many counts as there are rows");
      return confusion;
    }
    for (uint32_t answer = 0; answer < cells.size(); ++answer) {
      const int64_t count = cells[answer].integer(0, int64_t{1} << 53);
      confusion.add(truth, answer, static_cast<uint64_t>(count));
    }
  }
  return confusion;
}

}  // namespace fermata
