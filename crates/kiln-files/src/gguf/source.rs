//! The header of a GGUF file, read from its beginning on. Nothing is allocated that the rest of the
//! file could not fill.

use std::fs::File;
use std::io::{self, BufReader, Read};

/// What is wrong with a file, and where.
#[derive(Debug)]
pub(super) enum Problem {
    /// It is damaged or of another format.
    Format {
        /// The offset in bytes.
        at: u64,
        /// What is there.
        problem: String,
    },
    /// The system could not read it.
    Io(io::Error),
}

impl Problem {
    pub(super) fn at(at: u64, problem: impl Into<String>) -> Problem {
        Problem::Format { at, problem: problem.into() }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        Problem::Io(error)
    }
}

/// A file that is read front to back.
#[derive(Debug)]
pub(super) struct Source {
    file: BufReader<File>,
    offset: u64,
    size: u64,
}

impl Source {
    pub(super) fn new(file: File, size: u64) -> Source {
        Source { file: BufReader::new(file), offset: 0, size }
    }

    /// The file, for what comes after the header.
    pub(super) fn into_file(self) -> File {
        self.file.into_inner()
    }

    /// How many bytes have been read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Refuses to read more bytes than there are.
    fn expect(&self, bytes: Option<u64>, what: impl FnOnce() -> String) -> Result<usize, Problem> {
        let left = self.size.saturating_sub(self.offset);
        match bytes {
            Some(bytes) if bytes <= left => usize::try_from(bytes)
                .map_err(|_| Problem::at(self.offset, "it is larger than memory can be")),
            _ => {
                let problem = format!("{} would go beyond the file's {} bytes", what(), self.size);
                Err(Problem::at(self.offset, problem))
            }
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Problem> {
        self.file.read_exact(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// A number of `N` bytes.
    pub(super) fn number<T, const N: usize>(&mut self, of: impl Fn([u8; N]) -> T) -> Result<T, Problem> {
        self.expect(Some(N as u64), || format!("a value of {N} bytes"))?;
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(of(bytes))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Problem> {
        self.number(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Problem> {
        self.number(u64::from_le_bytes)
    }

    /// Numbers of `N` bytes each.
    pub(super) fn numbers<T, const N: usize>(
        &mut self,
        len: u64,
        of: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, Problem> {
        let bytes = self.expect(len.checked_mul(N as u64), || format!("an array of {len} values"))?;
        let mut data = vec![0; bytes];
        self.fill(&mut data)?;
        Ok(data.as_chunks::<N>().0.iter().map(|&bytes| of(bytes)).collect())
    }

    /// Values of at least so many bytes each.
    pub(super) fn many<T>(
        &mut self,
        len: u64,
        least: u64,
        mut read: impl FnMut(&mut Source) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        self.expect(len.checked_mul(least), || format!("an array of {len} values"))?;
        let mut values = Vec::new();
        for _ in 0..len {
            values.push(read(self)?);
        }
        Ok(values)
    }

    /// A text: its length in bytes, and UTF-8.
    pub(super) fn string(&mut self) -> Result<String, Problem> {
        let at = self.offset;
        let len = self.u64()?;
        let bytes = self.expect(Some(len), || format!("a text of {len} bytes"))?;
        let mut text = vec![0; bytes];
        self.fill(&mut text)?;
        String::from_utf8(text).map_err(|_| Problem::at(at, "a text is not UTF-8"))
    }
}
