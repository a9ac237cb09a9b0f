//! What the records that a kernel leaves mean: the tables of sites by program number, and the text
//! of faults and prints.

use crate::ptx::records::{FaultRecord, MAX_VALUES, PRINT_HEADER, Site, SiteKind};

use kiln_backend::{Error, Fault, FaultKind, Result, fill_message};
use kiln_ir::{Literal, Scalar};
use std::mem::offset_of;
use std::sync::{Arc, PoisonError, RwLock};

/// The sites of a program, and what else a report of it says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SiteTable {
    pub(super) kernel: String,
    /// The kernel was written for threads, so that a thread's index means something to its author.
    pub(super) per_thread: bool,
    pub(super) sites: Vec<Site>,
}

impl SiteTable {
    /// Whether the program can print.
    pub(super) fn prints(&self) -> bool {
        self.sites.iter().any(|site| matches!(site.kind, SiteKind::Print(_)))
    }
}

/// The tables of the programs of a device, by number. Numbers begin at 1: in a record, 0 is
/// "nothing was written here".
///
/// Tables live as long as the device, so that a report is readable after its program is gone. Equal
/// ones share a number.
#[derive(Default)]
pub(super) struct SiteTables(RwLock<Vec<Arc<SiteTable>>>);

impl SiteTables {
    /// The number of a table.
    pub(super) fn number(&self, table: &Arc<SiteTable>) -> u32 {
        // A table is pushed whole or not at all, so a panic elsewhere leaves the list usable.
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let index = tables.iter().position(|known| known == table).unwrap_or_else(|| {
            tables.push(table.clone());
            tables.len() - 1
        });
        index as u32 + 1
    }

    fn find(&self, number: u32) -> Option<Arc<SiteTable>> {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tables.get((number as usize).checked_sub(1)?).cloned()
    }

    /// The fault in the words of a [`FaultRecord`].
    ///
    /// # Errors
    /// An internal error for words that no kernel of these tables writes.
    pub(super) fn fault(&self, words: &[u32]) -> Result<Fault> {
        let unreadable = || Error::Internal {
            place: "the fault record",
            message: format!("nothing reports like this: {words:?}"),
        };
        let word = |byte: usize| words.get(byte / 4).copied();
        let axes = |byte: usize| Some([word(byte)?, word(byte + 4)?, word(byte + 8)?]);
        let decode = || {
            let table = self.find(word(offset_of!(FaultRecord, program))?)?;
            let site = table.sites.get(word(offset_of!(FaultRecord, site))? as usize)?;
            let values = values(words.get(offset_of!(FaultRecord, values) / 4..)?, site.values.len())?;
            let kind = match &site.kind {
                SiteKind::Assert(text) => FaultKind::Assert { message: fill(text, &site.values, &values) },
                SiteKind::Bounds => match values[..] {
                    [index, extent] => FaultKind::OutOfBounds { index: index as i64, extent: extent as i64 },
                    _ => return None,
                },
                SiteKind::Divisor => FaultKind::DivisionByZero,
                SiteKind::Print(_) => return None,
            };
            let thread = axes(offset_of!(FaultRecord, thread))?;
            Some(Fault {
                kernel: table.kernel.clone(),
                kind,
                location: site.location.clone(),
                block: axes(offset_of!(FaultRecord, block))?,
                thread: table.per_thread.then_some(thread),
            })
        };
        decode().ok_or_else(unreadable)
    }

    /// The text of the print records in a ring's words, in their order, up to the first that was
    /// not written.
    pub(super) fn prints(&self, mut ring: &[u32]) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some((text, rest)) = self.print(ring) {
            texts.push(text);
            ring = rest;
        }
        texts
    }

    /// The text of the first record, and the words after it.
    fn print<'a>(&self, ring: &'a [u32]) -> Option<(String, &'a [u32])> {
        let (header, rest) = ring.split_at_checked(PRINT_HEADER as usize)?;
        let table = self.find(header[0])?;
        let site = table.sites.get(header[1] as usize)?;
        let SiteKind::Print(text) = &site.kind else { return None };
        let values = values(rest, site.values.len())?;
        Some((fill(text, &site.values, &values), &rest[2 * values.len()..]))
    }
}

/// How many words a fault record has.
pub(super) const FAULT_WORDS: usize = size_of::<FaultRecord>() / 4;

/// The first `count` values of a record: the low word stands first.
fn values(words: &[u32], count: usize) -> Option<Vec<u64>> {
    let words = words.get(..2 * count).filter(|_| count <= MAX_VALUES)?;
    Some(words.chunks_exact(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32).collect())
}

fn fill(text: &str, elems: &[Scalar], values: &[u64]) -> String {
    fill_message(text, elems.iter().zip(values).map(|(&elem, &bits)| Literal::from_bits(elem, bits)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    fn site(kind: SiteKind, values: &[Scalar]) -> Site {
        Site { kind, location: "k.rs:3:5".into(), values: values.to_vec() }
    }

    fn tables() -> (SiteTables, u32) {
        let tables = SiteTables::default();
        let other = Arc::new(SiteTable { kernel: "other".into(), per_thread: false, sites: vec![] });
        assert_eq!(tables.number(&other), 1);
        let sites = vec![
            site(SiteKind::Assert("{} of {}: {} {}".into()), &[Scalar::F32, Scalar::I32, Scalar::Bool]),
            site(SiteKind::Bounds, &[Scalar::I64, Scalar::I64]),
            site(SiteKind::Divisor, &[]),
            site(SiteKind::Print("x = {}, n = {}".into()), &[Scalar::BF16, Scalar::U64]),
            site(SiteKind::Print("here".into()), &[]),
        ];
        let table = Arc::new(SiteTable { kernel: "k".into(), per_thread: true, sites });
        let number = tables.number(&table);
        assert_eq!(tables.number(&Arc::new((*table).clone())), number, "equal tables share a number");
        (tables, number)
    }

    fn record(program: u32, site: u32, values: &[u64]) -> Vec<u32> {
        let mut words = vec![1, program, site, 1, 2, 3, 4, 5, 6, 0];
        words.extend(values.iter().flat_map(|&v| [v as u32, (v >> 32) as u32]));
        words.resize(FAULT_WORDS, 0xdddd_dddd);
        words
    }

    #[test]
    fn faults_of_every_kind() {
        let (tables, k) = tables();
        let values = [u64::from(1.5f32.to_bits()), u64::from(-7i32 as u32), 1];
        let fault = tables.fault(&record(k, 0, &values)).unwrap();
        let message = "1.5 of -7: true {}".to_owned();
        assert_eq!(
            fault,
            Fault {
                kernel: "k".into(),
                kind: FaultKind::Assert { message },
                location: "k.rs:3:5".into(),
                block: [1, 2, 3],
                thread: Some([4, 5, 6]),
            }
        );
        let fault = tables.fault(&record(k, 1, &[-1i64 as u64, 1 << 40])).unwrap();
        assert_eq!(fault.kind, FaultKind::OutOfBounds { index: -1, extent: 1 << 40 });
        assert_eq!(tables.fault(&record(k, 2, &[])).unwrap().kind, FaultKind::DivisionByZero);
    }

    #[test]
    fn a_program_over_tiles_names_no_thread() {
        let tables = SiteTables::default();
        let sites = vec![site(SiteKind::Divisor, &[])];
        let k = tables.number(&Arc::new(SiteTable { kernel: "t".into(), per_thread: false, sites }));
        assert_eq!(tables.fault(&record(k, 0, &[])).unwrap().thread, None);
    }

    #[test]
    fn records_that_make_no_sense_are_internal_errors() {
        let (tables, k) = tables();
        for words in [record(0, 0, &[]), record(99, 0, &[]), record(k, 5, &[]), record(k, 3, &[]), vec![1]] {
            assert!(matches!(tables.fault(&words), Err(Error::Internal { .. })), "{words:?}");
        }
    }

    fn printed(program: u32, site: u32, values: &[u64]) -> Vec<u32> {
        let mut words = vec![program, site, 0, 0, 0, 7, 0, 0];
        words.extend(values.iter().flat_map(|&v| [v as u32, (v >> 32) as u32]));
        words
    }

    #[test]
    fn prints_in_order_up_to_what_was_not_written() {
        let (tables, k) = tables();
        let half = u64::from(bf16::from_f32(-0.5).to_bits());
        let mut ring = printed(k, 3, &[half, u64::MAX]);
        ring.extend(printed(k, 4, &[]));
        ring.extend(printed(k, 3, &[half, 3]));
        let texts = ["x = -0.5, n = 18446744073709551615", "here", "x = -0.5, n = 3"];
        assert_eq!(tables.prints(&ring), texts);
        // Cut anywhere, whole records remain.
        for length in 0..ring.len() {
            let whole = [12, 20, 32].iter().filter(|&&end| end <= length).count();
            assert_eq!(tables.prints(&ring[..length]), texts[..whole], "{length}");
        }
        let zeros = [ring[..20].to_vec(), vec![0; 50]].concat();
        assert_eq!(tables.prints(&zeros), texts[..2]);
        // Not a print, not a site, not a program.
        for (program, site) in [(k, 0), (k, 9), (77, 0), (u32::MAX, u32::MAX)] {
            assert!(tables.prints(&printed(program, site, &[1, 2, 3])).is_empty());
        }
    }

    #[test]
    fn values_display_as_in_rust() {
        let shown = |elem, bits| fill("{}", &[elem], &[bits]);
        assert_eq!(shown(Scalar::F32, 1f32.to_bits().into()), "1");
        assert_eq!(shown(Scalar::F64, f64::NEG_INFINITY.to_bits()), "-inf");
        assert_eq!(shown(Scalar::F16, f16::from_f32(0.1).to_bits().into()), f16::from_f32(0.1).to_string());
        assert_eq!(shown(Scalar::I64, u64::MAX), "-1");
        assert_eq!(shown(Scalar::U32, u64::from(u32::MAX)), "4294967295");
    }
}
