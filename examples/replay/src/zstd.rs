//! Decompresses zstd, as a `Read`. (The decoder in Rust takes 3 s to build. That in C is some three
//! times as fast and takes 35 s, which each reader of the README would wait for.)

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, Read};

/// A stream of frames, each with its checksum, if it has one.
pub struct Decoder<R> {
    input: R,
    frame: FrameDecoder,
}

impl<R: BufRead> Decoder<R> {
    /// Reads the header of the first frame.
    pub fn new(mut input: R) -> io::Result<Self> {
        let mut frame = FrameDecoder::new();
        frame.init(&mut input).map_err(io::Error::other)?;
        Ok(Self { input, frame })
    }

    /// The frame is over. Reads the header of the next; false if there is none.
    fn next_frame(&mut self) -> io::Result<bool> {
        let (stored, counted) =
            (self.frame.get_checksum_from_data(), self.frame.get_calculated_checksum());
        if stored.is_some() && stored != counted {
            return Err(io::Error::other("a checksum is wrong"));
        }
        if self.input.fill_buf()?.is_empty() {
            return Ok(false);
        }
        self.frame.reset(&mut self.input).map_err(io::Error::other)?;
        Ok(true)
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.frame.can_collect() == 0 {
            if !self.frame.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.frame.decode_blocks(&mut self.input, one).map_err(io::Error::other)?;
            } else if !self.next_frame()? {
                return Ok(0);
            }
        }
        self.frame.read(buffer)
    }
}
