//! Files about an outcome that is on the terminal already, which stands whether or not they are written.

use crate::exit::FAILED;
use crate::output::complain;
use anyhow::Result;

/// Names each file that was not written on standard error, and gives the exit code. 1 stays, because it is
/// about what was found. Any other becomes that of a failure: somebody counts on the file. `subject` is the
/// printed outcome, such as "the verdict"; `written` is the result of each file.
pub fn with_files(subject: &str, written: impl IntoIterator<Item = Result<()>>, code: i32) -> i32 {
    let mut failed = false;
    for error in written.into_iter().filter_map(Result::err) {
        failed = true;
        complain!("fencepost: {subject} above stands, but one of its files could not be written: {error:#}");
    }
    if failed && code != 1 { FAILED } else { code }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn a_missing_file_is_no_success_and_hides_no_violation() {
        for (code, with_one_missing) in [(0, FAILED), (1, 1), (2, FAILED), (FAILED, FAILED)] {
            assert_eq!(with_files("the verdict", [Ok(()), Ok(())], code), code);
            let written = [Ok(()), Err(anyhow!("the disk is full")), Ok(())];
            assert_eq!(with_files("the verdict", written, code), with_one_missing);
        }
    }
}
