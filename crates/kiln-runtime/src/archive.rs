//! Files of records with a digest at the end: packages, and what is exported of a cache.
//!
//! All numbers are little-endian. Magic, format version, what the file is, then the records: a byte
//! 1, the texts of the record behind their number, its bytes behind theirs. At the end a byte 0 and
//! the SHA-256 of all bytes before. A file is read whole or not at all.

use kiln_backend::bytes::{Reader, Writer};
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::ops::Range;

const MAGIC: [u8; 8] = *b"KILNFILE";
const FORMAT: u32 = 1;
const DIGEST: usize = 32;

/// Writes a file, record by record.
pub(crate) struct ArchiveWriter<'a> {
    out: &'a mut dyn Write,
    hash: Sha256,
}

impl<'a> ArchiveWriter<'a> {
    /// Begins a file of a kind, which its readers name.
    pub(crate) fn new(out: &'a mut dyn Write, kind: &str) -> io::Result<ArchiveWriter<'a>> {
        let mut writer = ArchiveWriter { out, hash: Sha256::new() };
        let mut head = Writer(MAGIC.to_vec());
        head.number(FORMAT);
        head.text(kind);
        writer.put(&head.0)?;
        Ok(writer)
    }

    pub(crate) fn record(&mut self, texts: &[&str], bytes: &[u8]) -> io::Result<()> {
        let mut head = Writer(vec![1]);
        head.number(texts.len() as u32);
        texts.iter().for_each(|text| head.text(text));
        head.number(bytes.len() as u32);
        self.put(&head.0)?;
        self.put(bytes)
    }

    /// Writes the end.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.put(&[0])?;
        let digest = self.hash.finalize();
        self.out.write_all(&digest)?;
        self.out.flush()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.out.write_all(bytes)
    }
}

/// A record of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) texts: Vec<String>,
    /// Where its bytes are in the file.
    pub(crate) bytes: Range<usize>,
}

/// The records of a file of a kind.
///
/// # Errors
/// What is wrong with the file, as the rest of a sentence about it.
pub(crate) fn read(kind: &str, file: &[u8]) -> Result<Vec<Record>, String> {
    let other = || format!("it is no Kiln {kind}");
    let body = file.strip_prefix(&MAGIC).ok_or_else(other)?;
    let mut input = Reader::new(body);
    let damaged = |reason: &str| format!("it is damaged: {reason}");
    let format = input.number().map_err(|_| damaged("it is cut short"))?;
    if format != FORMAT {
        return Err("it was written by another version of Kiln".to_owned());
    }
    let found = input.text().map_err(|_| damaged("its head is unreadable"))?;
    let (content, digest) = file.split_at(file.len().saturating_sub(DIGEST));
    if found != kind {
        return Err(other());
    }
    if Sha256::digest(content)[..] != *digest {
        return Err(damaged("its bytes do not have the digest that they were written with"));
    }
    records(&mut input, content.len()).map_err(damaged)
}

/// The records, up to the end of the content at byte `end` of the file.
fn records(input: &mut Reader<'_>, end: usize) -> Result<Vec<Record>, &'static str> {
    let mut records = Vec::new();
    loop {
        match input.byte()? {
            0 => break,
            1 => {}
            _ => return Err("a record in it is of no known kind"),
        }
        let count = input.count(4)?;
        let texts = (0..count).map(|_| input.text().map(str::to_owned)).collect::<Result<_, _>>()?;
        let length = input.bytes()?.len();
        // The digest is still to come.
        let after = (end + DIGEST).checked_sub(input.rest().len()).ok_or("it is cut short")?;
        records.push(Record { texts, bytes: after - length..after });
    }
    if input.rest().len() == DIGEST { Ok(records) } else { Err("something follows its end") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Given = Vec<(Vec<String>, Vec<u8>)>;

    fn written(kind: &str, records: &Given) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = ArchiveWriter::new(&mut file, kind).unwrap();
        for (texts, bytes) in records {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            writer.record(&texts, bytes).unwrap();
        }
        writer.finish().unwrap();
        file
    }

    fn given() -> impl Strategy<Value = Given> {
        let text = "[a-zü ]{0,9}";
        let record = (prop::collection::vec(text, 0..4), prop::collection::vec(any::<u8>(), 0..40));
        prop::collection::vec(record, 0..5)
    }

    /// The file with a right digest, so that the readers of what is in it are reached.
    fn sealed(mut content: Vec<u8>) -> Vec<u8> {
        let digest = Sha256::digest(&content);
        content.extend_from_slice(&digest);
        content
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(records in given()) {
            let file = written("package", &records);
            let read = read("package", &file).unwrap();
            let found: Given = read.into_iter().map(|r| (r.texts, file[r.bytes].to_vec())).collect();
            prop_assert_eq!(found, records);
        }

        #[test]
        fn a_changed_file_is_refused(records in given(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let whole = written("package", &records);
            let mut file = whole.clone();
            let place = at.index(file.len());
            file[place] ^= 1u8 << bit;
            prop_assert!(read("package", &file).is_err());
            prop_assert!(read("package", &whole[..place]).is_err());
            prop_assert!(read("cache", &whole).is_err());
        }

        #[test]
        fn any_bytes_with_a_right_digest_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut head = Writer(MAGIC.to_vec());
            head.number(FORMAT);
            head.text("package");
            let _ = read("package", &sealed(bytes.clone()));
            let _ = read("package", &bytes);
            head.0.extend_from_slice(&bytes);
            let file = sealed(head.0);
            for record in read("package", &file).unwrap_or_default() {
                prop_assert!(file.get(record.bytes).is_some());
            }
        }
    }
}
