//! The limit of open files, which a run with many nodes can reach.

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// As many as a run with a dozen nodes needs; most systems allow more.
const ENOUGH: u64 = 1024;

/// Raises the limit to what a run needs, as far as this process may.
pub fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < ENOUGH
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, ENOUGH.min(hard), hard);
    }
}

/// What to do, as the end of a sentence that says that the limit was reached; of any other, nothing.
pub fn advice(sentence: &str) -> String {
    let reached = [Errno::EMFILE, Errno::ENFILE].iter().any(|error| sentence.contains(error.desc()));
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((limit, _)) if reached => format!(
            "; {limit} may be open at once here, and each node needs a dozen or more: raise that, such as by `ulimit -n {ENOUGH}`"
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_reached_the_limit_is_advised_to_raise_it() {
        let reached = std::io::Error::from_raw_os_error(Errno::EMFILE as i32);
        assert!(advice(&format!("cannot start the sandbox: {reached}")).contains("ulimit -n 1024"));
        assert_eq!(advice("cannot start the sandbox: No such file or directory (os error 2)"), "");
    }
}
