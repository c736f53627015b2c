#pragma once

#include "serve/http/http_server.h"
#include "serve/net/compression.h"

namespace fermata::serve {

// A response of a kilobyte or more as the client takes it; a smaller one stays as it is.
void compress_response(HttpResponse& response, Encoding encoding);

}  // namespace fermata::serve
