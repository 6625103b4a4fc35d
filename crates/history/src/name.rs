/// The name of an operation or of a key. Nearly all are short, and are kept in place: a history has millions.
pub type Name = compact_str::CompactString;
