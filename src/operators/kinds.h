#pragma once

#include <memory>

#include "operators/operator.h"

// One reader a kind of operator; docs/operators.md says what each does and which options it has.
namespace fermata::operators {

std::shared_ptr<const Operator> read_decode_image(ObjectReader& options, Resolve resolve);
std::shared_ptr<const Operator> read_resize(ObjectReader& options, Resolve resolve);
std::shared_ptr<const Operator> read_normalise(ObjectReader& options, Resolve resolve);
std::shared_ptr<const Operator> read_crop(ObjectReader& options, Resolve resolve);
std::shared_ptr<const Operator> read_rotate(ObjectReader& options, Resolve resolve);
std::shared_ptr<const Operator> read_text_boxes(ObjectReader& options, Resolve resolve);
std::shared_ptr<const Operator> read_ctc_decode(ObjectReader& options, Resolve resolve);
std::shared_ptr<const Operator> read_argmax(ObjectReader& options, Resolve resolve);
std::shared_ptr<const Operator> read_top_k(ObjectReader& options, Resolve resolve);
std::shared_ptr<const Operator> read_threshold(ObjectReader& options, Resolve resolve);
std::shared_ptr<const Operator> read_decode_sound(ObjectReader& options, Resolve resolve);
std::shared_ptr<const Operator> read_windows(ObjectReader& options, Resolve resolve);
std::shared_ptr<const Operator> read_keep(ObjectReader& options, Resolve resolve);

}  // namespace fermata::operators
