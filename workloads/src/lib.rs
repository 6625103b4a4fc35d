//! What the processes of a test do.
