//! Models, algorithms and evidence for lock histories.
