//! Lines on standard output and standard error.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// Why standard output could not be written to, where it could not.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Standard output. The reader may have closed the pipe (`| head`): the run and its clean-up go on all the same, and the exit
/// code is that of the verdict. Any other failure ends the program as failed, once it is over.
pub struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        keep(io::stdout().write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        keep(io::stdout().flush());
        Ok(())
    }
}

fn keep(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = FAILURE.set(error);
    }
}

/// Why standard output could not be written to, where it could not.
pub fn failure() -> Option<&'static io::Error> {
    let _ = Output.flush();
    FAILURE.get()
}

/// Prints a line; see [`Output`].
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write;
        let _ = writeln!($crate::output::Output, $($words)*);
    }};
}
pub(crate) use say;

/// Prints a line on standard error. Where there is nothing to print to, since the terminal was closed, the program goes on:
/// the run has to be ended in order.
macro_rules! complain {
    ($($words:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}
pub(crate) use complain;
