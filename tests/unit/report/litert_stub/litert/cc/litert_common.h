#include "litert/cc/litert_stub.h"
