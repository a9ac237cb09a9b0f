//! Compiled kernels as bytes: what the backends write and read them with.

/// FNV-1a (Fowler, Noll, Vo) over words of 64 bits: the length, then the bytes with zeros behind
/// the last. Every step is a bijection of the sum, so no change of a single word goes unseen. Each
/// multiplication waits for the one before, so bytes one by one would take eight times as many.
///
/// ```
/// use kiln_backend::bytes::checksum;
/// assert_ne!(checksum(b"code"), checksum(b"code\0"));
/// ```
pub fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, word: [u8; 8]| (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3);
    let (words, rest) = bytes.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let length = step(0xcbf2_9ce4_8422_2325, (bytes.len() as u64).to_le_bytes());
    step(words.iter().copied().fold(length, step), last)
}

/// Writes numbers in little-endian order, and texts and bytes behind their lengths.
///
/// ```
/// use kiln_backend::bytes::{Reader, Writer};
/// let mut out = Writer::default();
/// out.number(7);
/// out.text("softmax");
/// let mut input = Reader::new(&out.0);
/// assert_eq!((input.number(), input.text()), (Ok(7), Ok("softmax")));
/// assert!(input.number().is_err() && input.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct Writer(
    /// What was written so far.
    pub Vec<u8>,
);

impl Writer {
    /// A number of 32 bits.
    pub fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    /// A number of 64 bits.
    pub fn long(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    /// Bytes, behind their number, which is less than 2^32.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u32);
        self.0.extend(bytes);
    }

    /// A text, behind the number of its bytes.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
}

/// Reads what a [`Writer`] wrote, from bytes that may be anything. An error says what is wrong with
/// *them*, as the rest of a sentence.
#[derive(Debug, Clone)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A reader of all of the bytes.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next bytes, which have no length before them.
    ///
    /// # Errors
    /// Where fewer are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("they are cut short")?;
        self.0 = rest;
        Ok(taken)
    }

    /// A byte.
    ///
    /// # Errors
    /// Where none is left.
    pub fn byte(&mut self) -> Result<u8, &'static str> {
        Ok(self.take(1)?[0])
    }

    /// A number of 32 bits.
    ///
    /// # Errors
    /// Where fewer bytes are left.
    pub fn number(&mut self) -> Result<u32, &'static str> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or("they are cut short")?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*bytes))
    }

    /// A number of 64 bits.
    ///
    /// # Errors
    /// Where fewer bytes are left.
    pub fn long(&mut self) -> Result<u64, &'static str> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or("they are cut short")?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// A number of things that have at least `least` bytes each, of which there are no more than
    /// fit what is left: nothing is allocated for a number that is wrong.
    ///
    /// # Errors
    /// Where there are fewer bytes.
    pub fn count(&mut self, least: usize) -> Result<usize, &'static str> {
        let count = self.number()? as usize;
        if count.saturating_mul(least) > self.0.len() { Err("they are cut short") } else { Ok(count) }
    }

    /// Bytes, behind their number.
    ///
    /// # Errors
    /// Where fewer bytes are left.
    pub fn bytes(&mut self) -> Result<&'a [u8], &'static str> {
        let length = self.number()?;
        self.take(length as usize)
    }

    /// A text, behind the number of its bytes.
    ///
    /// # Errors
    /// Where fewer bytes are left, or they are not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, &'static str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "a name in them is not UTF-8")
    }
}
