//! What goes wrong in a test, when, and to whom.
