use super::read_ready;
use std::io::{self, BufRead, Read};

/// Gives the elements of a JSON array as lines, numbered as the elements are, and any other text as it is.
pub struct ArrayLines<R> {
    reader: R,
    /// Not known before the first sign.
    is_array: Option<bool>,
    depth: usize,
    in_text: bool,
    escaped: bool,
    ready: Vec<u8>,
    given: usize,
}

impl<R: BufRead> ArrayLines<R> {
    pub fn new(reader: R) -> Self {
        let ready = Vec::new();
        ArrayLines { reader, is_array: None, depth: 0, in_text: false, escaped: false, ready, given: 0 }
    }

    fn sign(&mut self, byte: u8) -> u8 {
        if self.is_array.is_none() && !byte.is_ascii_whitespace() {
            self.is_array = Some(byte == b'[');
        }
        if self.is_array != Some(true) {
            return byte;
        }
        if self.in_text {
            (self.in_text, self.escaped) = (self.escaped || byte != b'"', !self.escaped && byte == b'\\');
            return if byte == b'\n' { b' ' } else { byte };
        }
        match byte {
            b'"' => self.in_text = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        let is_outer = (byte == b'[' && self.depth == 1) || (byte == b']' && self.depth == 0);
        match byte {
            b',' if self.depth == 1 => b'\n',
            b'\n' | b'\r' => b' ',
            _ if is_outer => b' ',
            byte => byte,
        }
    }
}

impl<R: BufRead> Read for ArrayLines<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        read_ready(self, to)
    }
}

impl<R: BufRead> BufRead for ArrayLines<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.given == self.ready.len() {
            let mut ready = std::mem::take(&mut self.ready);
            ready.clear();
            ready.extend_from_slice(self.reader.fill_buf()?);
            self.reader.consume(ready.len());
            for byte in &mut ready {
                *byte = self.sign(*byte);
            }
            (self.ready, self.given) = (ready, 0);
        }
        Ok(&self.ready[self.given..])
    }

    fn consume(&mut self, count: usize) {
        self.given += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> String {
        // A byte at a time: a sign may come at any border.
        let mut read = String::new();
        ArrayLines::new(io::BufReader::with_capacity(1, text.as_bytes())).read_to_string(&mut read).unwrap();
        read
    }

    #[test]
    fn elements_become_lines_and_other_text_stays() {
        assert_eq!(
            lines("[{\"a\":[1,2]},\n {\"b\":\"],\\\"\\n[\"}]\n"),
            " {\"a\":[1,2]}\n  {\"b\":\"],\\\"\\n[\"}  "
        );
        let plain = "{\"a\":[1,2]}\n{\"b\":\"[\"}\n";
        assert_eq!(lines(plain), plain);
        assert_eq!(lines("[]").trim(), "");
    }
}
