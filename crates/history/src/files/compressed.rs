//! Compressed files: histories are kept as gzip; other tools may hand over Zstandard.

use flate2::bufread::MultiGzDecoder;
use flate2::{Compression, write::GzEncoder};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Read, Write};

const BUFFER: usize = 1 << 18;
/// A history is eight to nine times smaller then; more effort takes twice the time for a tenth of the rest.
const EFFORT: u32 = 4;

/// Writes `plain` to `compressed`, as gzip. Errors: those of the reader and of the writer.
pub fn compress(mut plain: impl Read, compressed: impl Write) -> io::Result<()> {
    let mut encoder = GzEncoder::new(compressed, Compression::new(EFFORT));
    io::copy(&mut plain, &mut encoder)?;
    encoder.finish()?.flush()
}

/// The text of a plain file, or of gzip or Zstandard by its first bytes. Damage shows as it is read.
pub fn decompressed(file: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::with_capacity(BUFFER, file);
    let beginning = file.fill_buf()?;
    let text: Box<dyn Read> = if beginning.starts_with(&[0x1f, 0x8b]) {
        Box::new(MultiGzDecoder::new(file))
    } else if beginning.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Box::new(Zstandard { source: file, decoder: FrameDecoder::new() })
    } else {
        return Ok(Box::new(file));
    };
    Ok(Box::new(BufReader::with_capacity(BUFFER, text)))
}

/// Reads the frames of a file one after the other; the library's own reader ends with the first.
struct Zstandard<R> {
    source: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Zstandard<R> {
    fn begin_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                // A frame of another program's data, which the format says to pass over.
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => drop(io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstandard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if !self.decoder.is_finished() {
                let blocks = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, blocks).map_err(io::Error::other)?;
            } else if !self.begin_frame()? {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Cursor;

    fn text_of(file: Vec<u8>) -> io::Result<String> {
        let mut text = String::new();
        decompressed(Cursor::new(file))?.read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn every_form_reads_like_the_plain_file() {
        let plain = "a line of a history, or two\n".repeat(40_000);
        assert_eq!(text_of(plain.clone().into_bytes()).unwrap(), plain);
        let mut gzip = Vec::new();
        compress(plain.as_bytes(), &mut gzip).unwrap();
        assert!(gzip.len() * 8 < plain.len());
        assert_eq!(text_of(gzip).unwrap(), plain);
        let half = plain.len() / 2;
        let frame = |text: &str| compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        // A frame to be passed over stands between two.
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3].to_vec();
        let zstandard = [frame(&plain[..half]), skipped, frame(&plain[half..])].concat();
        assert_eq!(text_of(zstandard).unwrap(), plain);
        assert_eq!(text_of(Vec::new()).unwrap(), "");
    }

    #[test]
    fn a_file_that_is_cut_off_is_an_error() {
        let plain: String = (0..100_000).map(|number| format!("{number}\n")).collect();
        let mut gzip = Vec::new();
        compress(plain.as_bytes(), &mut gzip).unwrap();
        let zstandard = compress_to_vec(plain.as_bytes(), CompressionLevel::Fastest);
        for mut file in [gzip, zstandard] {
            file.truncate(file.len() / 2);
            assert!(text_of(file).is_err());
        }
    }
}
