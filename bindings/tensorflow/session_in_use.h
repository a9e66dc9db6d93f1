#pragma once
#include <string>

#include "bindings/c/rueda.h"

namespace rueda::tensorflow {

/// The session that ops enqueue in: that of the Python package, which all frameworks of the process share. The package
/// tells of each new one; a session that has ended stays a valid pointer, whose calls fail with NOT_INITIALIZED.
/// Any thread.
void use_session(rueda_session* session);

/// Takes the session away until use_session() is called again. `why` is a sentence for the user. Any thread.
void refuse_sessions(const char* why);

/// The session, or NULL if there is none, or if this process was forked from the rank that has it; `why` then says so.
rueda_session* session_in_use(std::string& why);

}  // namespace rueda::tensorflow
