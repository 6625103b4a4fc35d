//! LinePrinter on standard output and standard error.

use fencepost_campaign::LinePrinter;
use fencepost_history::is_steering;
use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// Why standard output could not be written to, where it could not.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Standard output. If the reader closes the pipe (`| head`), the run and its clean-up go on, and the exit
/// code is that of the verdict. Any other failure ends the program as failed, after its work.
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

pub fn failure() -> Option<&'static io::Error> {
    let _ = Output.flush();
    FAILURE.get()
}

/// A message without its middle, where it repeats a value that is longer than anyone reads.
pub fn shortened(message: &str) -> Cow<'_, str> {
    const BEGINNING: usize = 6000;
    const END: usize = 1000;
    if message.len() <= BEGINNING + END {
        return Cow::Borrowed(message);
    }
    let is_between = |at: &usize| message.is_char_boundary(*at);
    let beginning = (0..BEGINNING).rev().find(is_between).unwrap_or_default();
    let end = (message.len() - END..message.len()).find(is_between).unwrap_or(message.len());
    let left_out = end - beginning;
    Cow::Owned(format!("{} […{left_out} bytes…] {}", &message[..beginning], &message[end..]))
}

/// A text without what could steer the terminal that shows it, end a line early for a program that reads it,
/// or be a command to a runner of GitHub's: names and texts come from files and clients of anyone. Breaks and
/// tabs stay, and with `colours` what sets colours, which are our own.
pub fn shown(text: &str, colours: bool) -> Cow<'_, str> {
    match without_controls(text, colours) {
        shown if commands_a_runner(&shown) => Cow::Owned(without_commands(&shown)),
        shown => shown,
    }
}

/// Whether a line begins with `::` after blanks, or has `##[`: a runner takes that for a command.
fn commands_a_runner(text: &str) -> bool {
    text.contains("##[") || text.lines().any(|line| line.trim_start().starts_with("::"))
}

fn without_commands(text: &str) -> String {
    let line = |line: &str| match line.trim_start().starts_with("::") {
        true => line.replacen("::", ":\u{fffd}:", 1),
        false => line.to_owned(),
    };
    let lines: Vec<String> = text.split('\n').map(line).collect();
    lines.join("\n").replace("##[", "##\u{fffd}[")
}

fn without_controls(line: &str, colours: bool) -> Cow<'_, str> {
    let is_plain = |c: char| !is_steering(c) || matches!(c, '\n' | '\t');
    if line.chars().all(is_plain) {
        return Cow::Borrowed(line);
    }
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(|c| !is_plain(c)) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = colour(rest).filter(|_| colours);
        shown.push_str(length.map_or("\u{fffd}", |length| &rest[..length]));
        rest = &rest[length.unwrap_or_else(|| rest.chars().next().map_or(0, char::len_utf8))..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// The length of the escape sequence at the beginning of this text, where it is one that sets a colour.
fn colour(text: &str) -> Option<usize> {
    let figures = text.strip_prefix("\u{1b}[")?;
    let end = figures.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    figures[end..].starts_with('m').then_some("\u{1b}[".len() + end + 1)
}

/// Prints a line on standard output; see [`Output`].
pub fn print(words: std::fmt::Arguments<'_>) {
    let _ = writeln!(Output, "{}", shown(&words.to_string(), console::colors_enabled()));
}

/// Prints a line on standard error, uncoloured. A closed terminal is no error: the run must end in order.
pub fn print_error(words: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", shown(&words.to_string(), false));
}

/// The terminal, for crates that know nothing of it.
pub struct Terminal;

impl LinePrinter for Terminal {
    fn say(&self, line: &str) {
        say!("{line}");
    }

    fn complain(&self, line: &str) {
        complain!("{line}");
    }
}

/// Prints a line on standard output; see [`print`].
macro_rules! say {
    ($($words:tt)*) => { $crate::output::print(format_args!($($words)*)) };
}
pub(crate) use say;

/// Prints a line on standard error; see [`print_error`].
macro_rules! complain {
    ($($words:tt)*) => { $crate::output::print_error(format_args!($($words)*)) };
}
pub(crate) use complain;

#[cfg(test)]
mod tests {
    use super::{shortened, shown};

    #[test]
    fn what_steers_a_terminal_is_not_printed_and_own_colours_are() {
        let hostile = "a\u{1b}[2J\u{1b}]0;b\u{7}\r::error::\u{9b}31mc\td\ne";
        let harmless = "a\u{fffd}[2J\u{fffd}]0;b\u{fffd}\u{fffd}::error::\u{fffd}31mc\td\ne";
        assert_eq!(shown(hostile, true), harmless);
        let coloured = "\u{1b}[1;31mred\u{1b}[0m täglich \u{1b}[31";
        assert_eq!(shown(coloured, true), "\u{1b}[1;31mred\u{1b}[0m täglich \u{fffd}[31");
        assert_eq!(shown(coloured, false), "\u{fffd}[1;31mred\u{fffd}[0m täglich \u{fffd}[31");
    }

    #[test]
    fn no_line_is_a_command_to_a_runner() {
        for (hostile, harmless) in [
            ("a\n::error file=x::b\nc", "a\n:\u{fffd}:error file=x::b\nc"),
            ("::add-mask::b", ":\u{fffd}:add-mask::b"),
            (
                "lock      a\n  \t\u{2003}::stop-commands::b\n",
                "lock      a\n  \t\u{2003}:\u{fffd}:stop-commands::b\n",
            ),
            ("a ##[error]b", "a ##\u{fffd}[error]b"),
        ] {
            assert_eq!(shown(hostile, false), harmless);
        }
        let plain = "a::b\n[::1]:80 # [c] ## d";
        assert_eq!(shown(plain, false), plain);
    }

    #[test]
    fn a_value_that_is_too_long_to_read_is_cut_in_a_message() {
        let message = format!("invalid value '{}': expected a number", "é".repeat(1 << 20));
        let short = shortened(&message);
        assert!(short.starts_with("invalid value 'é") && short.ends_with("é': expected a number"), "{short}");
        assert!(short.len() < 7100, "{} bytes", short.len());
        assert_eq!(shortened("invalid value 'x'"), "invalid value 'x'");
    }
}
