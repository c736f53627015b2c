#include "serve/json/message_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <string>

namespace fermata::serve {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Of a singular field, or of element `i` of a repeated one where i >= 0.
Json value_of(const Message& m, const FieldDescriptor* f, int i) {
  const Reflection& r = *m.GetReflection();
  const bool many = i >= 0;
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? r.GetRepeatedInt32(m, f, i) : r.GetInt32(m, f);
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? r.GetRepeatedInt64(m, f, i) : r.GetInt64(m, f);
    case FieldDescriptor::CPPTYPE_UINT32:
      return many ? r.GetRepeatedUInt32(m, f, i) : r.GetUInt32(m, f);
    case FieldDescriptor::CPPTYPE_UINT64:
      return many ? r.GetRepeatedUInt64(m, f, i) : r.GetUInt64(m, f);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? r.GetRepeatedDouble(m, f, i) : r.GetDouble(m, f);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return many ? r.GetRepeatedFloat(m, f, i) : r.GetFloat(m, f);
    case FieldDescriptor::CPPTYPE_BOOL:
      return many ? r.GetRepeatedBool(m, f, i) : r.GetBool(m, f);
    case FieldDescriptor::CPPTYPE_ENUM:
      return (many ? r.GetRepeatedEnum(m, f, i) : r.GetEnum(m, f))->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? r.GetRepeatedString(m, f, i) : r.GetString(m, f);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return message_to_json(many ? r.GetRepeatedMessage(m, f, i) : r.GetMessage(m, f));
}

// A map field is a repeated field of entries with the fields key and value.
Json map_of(const Message& m, const FieldDescriptor* f) {
  Json result = Json::object();
  const Reflection& r = *m.GetReflection();
  for (int i = 0; i < r.FieldSize(m, f); ++i) {
    const Message& entry = r.GetRepeatedMessage(m, f, i);
    const auto* type = entry.GetDescriptor();
    const Json key = value_of(entry, type->map_key(), -1);
    result[key.is_string() ? key.get<std::string>() : key.dump()] =
        value_of(entry, type->map_value(), -1);
  }
  return result;
}

Json list_of(const Message& m, const FieldDescriptor* f) {
  Json result = Json::array();
  for (int i = 0; i < m.GetReflection()->FieldSize(m, f); ++i) result.push_back(value_of(m, f, i));
  return result;
}

// Message fields and members of a oneof say whether they are there.
bool absent(const Message& m, const FieldDescriptor* f) {
  return f->has_presence() && !m.GetReflection()->HasField(m, f);
}

}  // namespace

Json message_to_json(const Message& message) {
  Json result = Json::object();
  const auto* type = message.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (field->is_map()) {
      result[field->name()] = map_of(message, field);
    } else if (field->is_repeated()) {
      result[field->name()] = list_of(message, field);
    } else if (!absent(message, field)) {
      result[field->name()] = value_of(message, field, -1);
    }
  }
  return result;
}

}  // namespace fermata::serve
