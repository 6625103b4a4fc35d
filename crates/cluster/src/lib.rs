//! What a node is, and the drivers that start nodes.
