#pragma once

#include "base/document.h"
#include "model/confusion.h"

namespace fermata {

// {"accuracy", "recall", "confusion"}: recall by class, null for a class without an
// example; confusion as rows by true class. Accuracy is null where there is none at all.
Json confusion_json(const Confusion& confusion);

// The matrix of such a document: square, counts from 0.
Confusion read_confusion(Reader reader);

}  // namespace fermata
