//! Limits for files that may be damaged or come from elsewhere: a small one can be large once it is unpacked.

use std::io::{self, BufRead, ErrorKind, Read};

/// The longest line of a file that is read line by line, and the longest event of a history in another form,
/// in bytes. Such a file may have any number of lines. The client protocol has the same limit.
pub const LINE_BYTES_MAX: u64 = 64 << 20;

/// The longest `run.toml`, `verdict.json`, `part.json` and the like, which are read whole, in bytes.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// The longest file of settings, in bytes: a plan, a scenario, a `lock.toml`.
pub const SETTINGS_BYTES_MAX: u64 = 16 << 20;

/// The longest `compare.json` that is read as a baseline, in bytes: a hundred thousand runs need a fortieth.
pub const BASELINE_BYTES_MAX: u64 = 1 << 30;

/// Reads the next line, with its line end, to the end of `line`. Gives the number of bytes; 0 at the end. A
/// line longer than [`LINE_BYTES_MAX`] is an error of the kind [`ErrorKind::FileTooLarge`].
pub fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    read_line_within(reader, line, LINE_BYTES_MAX)
}

fn read_line_within(reader: &mut impl BufRead, line: &mut Vec<u8>, bytes_max: u64) -> io::Result<usize> {
    let bytes = reader.take(bytes_max + 1).read_until(b'\n', line)?;
    match bytes as u64 > bytes_max {
        true => Err(too_long("the line", bytes_max)),
        false => Ok(bytes),
    }
}

/// Whether a line or a file was refused because of its length.
pub fn is_too_long(error: &io::Error) -> bool {
    error.kind() == ErrorKind::FileTooLarge
}

/// The whole text. Errors: the reader's, more bytes than `bytes_max`, and text that is not UTF-8.
pub(crate) fn read_text(reader: impl Read, bytes_max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    if reader.take(bytes_max + 1).read_to_end(&mut bytes)? as u64 > bytes_max {
        return Err(too_long("it", bytes_max));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not text in UTF-8"))
}

pub fn too_long(what: &str, bytes_max: u64) -> io::Error {
    let sentence = format!(
        "{what} is longer than {} MiB, which is the limit: the file is damaged, or not the one that was meant; restore it or name another",
        bytes_max >> 20
    );
    io::Error::new(ErrorKind::FileTooLarge, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_up_to_its_limit() {
        let mut reader = &b"1234\n12345\n"[..];
        let mut line = Vec::new();
        assert_eq!(read_line_within(&mut reader, &mut line, 5).unwrap(), 5);
        assert_eq!(line, b"1234\n");
        assert!(is_too_long(&read_line_within(&mut reader, &mut line, 5).unwrap_err()));
        let endless = read_line(&mut io::BufReader::new(io::repeat(0)), &mut line).unwrap_err();
        assert!(endless.to_string().starts_with("the line is longer than 64 MiB, which is the limit: "));
    }

    #[test]
    fn a_text_is_read_up_to_its_limit() {
        assert_eq!(read_text(&b"12345"[..], 5).unwrap(), "12345");
        assert!(is_too_long(&read_text(&b"123456"[..], 5).unwrap_err()));
        assert!(is_too_long(&read_text("1234é".as_bytes(), 5).unwrap_err()), "the limit cuts a character");
        assert_eq!(read_text(&[0xff][..], 5).unwrap_err().to_string(), "it is not text in UTF-8");
    }
}
