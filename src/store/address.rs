//! Addresses of object stores.

/// Whether it is the address of an object store, and no path: `s3://bucket/prefix`.
pub fn is_address(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.chars().all(|letter| letter.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths_are_kept_apart() {
        for text in ["s3://bucket", "gs://bucket/runs", "file:///srv/runs"] {
            assert!(is_address(text), "{text}");
        }
        for text in ["results", "/srv/results", "./s3:", "a/b://c", "://x"] {
            assert!(!is_address(text), "{text}");
        }
    }
}
