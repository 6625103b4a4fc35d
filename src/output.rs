//! Lines on standard output.

/// Prints a line. The reader may have closed the pipe (`| head`): the run and its clean-up go on all the same.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($words)*);
    }};
}
pub(crate) use say;
