//! Backends: lock services and the client side of the client protocol.
