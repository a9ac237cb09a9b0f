//! What faults and prints leave in a buffer, and what it means.
//!
//! A module that can fault or print has one storage buffer more: the *report*. Launches share it,
//! since each of its records says by a number which program wrote it.
//!
//! ```text
//! word   0       1 once a thread has faulted
//!        1       the number of the program that faulted
//!        2       the site: which check of the program
//!        3..6    the block's index on x, y, z
//!        6..9    the thread's index in its block
//!        10..26  the values that the check reports, two words each, the low one first
//!        26      how many words of print records there are; more than have room where it is full
//!        27      prints that found no room
//!        28..    print records: program, site, block, thread, then the values, two words each
//! ```
//!
//! The first thread to fault exchanges word 0 for a 1 and fills in the rest; the others report
//! nothing. So a launch that finds a fault in the buffer runs as ever. Zeros arm it again.

use kiln_backend::{Error, Fault, FaultKind, Result, fill_message};
use kiln_ir::{Literal, Scalar};
use std::sync::Arc;

/// The least size of a report buffer, in words of 32 bits. What it has beyond that holds prints.
pub const REPORT_WORDS: u32 = Word::Prints as u32;

/// Values that one check or print can report.
pub(crate) const MAX_VALUES: usize = 8;

/// Words of a print record before its values: program, site, block, thread.
pub(crate) const PRINT_HEADER: u32 = 8;

/// Where the parts of the report begin, in words.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    Claimed = 0,
    Program = 1,
    Site = 2,
    Block = 3,
    Thread = 6,
    Values = 10,
    PrintEnd = 26,
    PrintsLost = 27,
    Prints = 28,
}

/// A module's report buffer, and what its records mean.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The number of the binding in group 0: a storage buffer that the kernel writes to, of at
    /// least [`REPORT_WORDS`] words.
    pub binding: u32,
    /// Whether a thread's index means something to who wrote the kernel. A backend clears it for a
    /// kernel over tiles.
    pub per_thread: bool,
    pub(crate) kernel: String,
    pub(crate) sites: Vec<Site>,
}

/// A place in a kernel that can report.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Site {
    pub(crate) kind: SiteKind,
    /// `file:line:column`.
    pub(crate) location: String,
    /// The types of the values that it reports.
    pub(crate) values: Vec<Scalar>,
}

/// What a site reports.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum SiteKind {
    /// A failed assertion, with the text and its `{}`.
    Assert(String),
    /// An index and the extent that it missed.
    Bounds,
    /// A division by zero.
    Divisor,
    /// A loop that the driver ended, and after how many rounds it does.
    LoopLimit(u32),
    /// A print, with the text and its `{}`.
    Print(String),
}

/// What a report buffer says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reported {
    /// The first fault.
    pub fault: Option<Fault>,
    /// The texts of prints, in the order in which they were written.
    pub prints: Vec<String>,
    /// How many more prints found no room.
    pub lost: u32,
}

impl Report {
    /// Whether the kernel can print, so that its report buffer should have room for that.
    pub fn prints(&self) -> bool {
        self.sites.iter().any(|site| matches!(site.kind, SiteKind::Print(_)))
    }

    /// The fault of a record, from its site on.
    fn fault(&self, words: &[u32]) -> Option<Fault> {
        let at = |word: Word| words.get(word as usize..);
        let axes = |word: Word| Some([*at(word)?.first()?, *at(word)?.get(1)?, *at(word)?.get(2)?]);
        let site = self.sites.get(*at(Word::Site)?.first()? as usize)?;
        let values = values(at(Word::Values)?, site.values.len())?;
        let kind = match &site.kind {
            SiteKind::Assert(text) => FaultKind::Assert { message: fill(text, &site.values, &values) },
            SiteKind::Bounds => match values[..] {
                [index, extent] => FaultKind::OutOfBounds { index: index as i64, extent: extent as i64 },
                _ => return None,
            },
            SiteKind::Divisor => FaultKind::DivisionByZero,
            SiteKind::LoopLimit(rounds) => FaultKind::LoopLimit { rounds: *rounds },
            SiteKind::Print(_) => return None,
        };
        let thread = axes(Word::Thread)?;
        Some(Fault {
            kernel: self.kernel.clone(),
            kind,
            location: site.location.clone(),
            block: axes(Word::Block)?,
            thread: self.per_thread.then_some(thread),
        })
    }
}

/// Reads the words of a report buffer after launches. `program` gives the [`Report`] of the module
/// that was launched with a number in the field [`Parameter::Program`](crate::Parameter::Program).
///
/// ```
/// use kiln_wgpu::{Features, REPORT_WORDS, compile, read_report};
/// use std::sync::Arc;
/// let text = "file \"k.rs\"\nkernel @k(%n: i32) thread [32, 1, 1] {\n  %0 = const 0 : i32\n  \
///             %1 = gt %n, %0 : bool\n  assert %1, \"n is {}\", %n @0:7:5\n}";
/// let kernel = kiln_ir::parse(text).unwrap();
/// let report = Arc::new(compile(&kernel, Features::default())?.report.unwrap());
/// let mut words = vec![0; REPORT_WORDS as usize];
/// assert_eq!(read_report(&words, |_| Some(report.clone()))?, Default::default());
///
/// // What block [2, 0, 0] of program 5 would leave for `n` = -1.
/// (words[0], words[1], words[3], words[10]) = (1, 5, 2, u32::MAX);
/// let fault = read_report(&words, |number| (number == 5).then(|| report.clone()))?.fault.unwrap();
/// assert_eq!(
///     fault.to_string(),
///     "assertion failed in `k`: n is -1, at k.rs:7:5, block [2, 0, 0], thread [0, 0, 0]"
/// );
/// # Ok::<(), kiln_backend::Error>(())
/// ```
///
/// # Errors
/// [`Error::Internal`] for words that none of these modules leaves.
pub fn read_report(words: &[u32], program: impl Fn(u32) -> Option<Arc<Report>>) -> Result<Reported> {
    let unreadable = || Error::Internal {
        place: "the report buffer",
        message: format!("nothing reports like this: {:?}", &words[..words.len().min(REPORT_WORDS as usize)]),
    };
    let Some((head, ring)) = words.split_at_checked(REPORT_WORDS as usize) else { return Err(unreadable()) };
    let fault = match head[Word::Claimed as usize] {
        0 => None,
        _ => {
            let report = program(head[Word::Program as usize]);
            Some(report.and_then(|report| report.fault(head)).ok_or_else(unreadable)?)
        }
    };
    let end = (head[Word::PrintEnd as usize] as usize).min(ring.len());
    let mut rest = &ring[..end];
    let mut prints = Vec::new();
    while let Some((text, after)) = print(rest, &program) {
        prints.push(text);
        rest = after;
    }
    Ok(Reported { fault, prints, lost: head[Word::PrintsLost as usize] })
}

/// The text of the first print record, and the words after it; `None` where none was written.
fn print<'a>(words: &'a [u32], program: &impl Fn(u32) -> Option<Arc<Report>>) -> Option<(String, &'a [u32])> {
    let (header, rest) = words.split_at_checked(PRINT_HEADER as usize)?;
    let report = program(header[0])?;
    let site = report.sites.get(header[1] as usize)?;
    let SiteKind::Print(text) = &site.kind else { return None };
    let values = values(rest, site.values.len())?;
    Some((fill(text, &site.values, &values), &rest[2 * values.len()..]))
}

/// The first `count` values: the low word stands first.
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
    use half::bf16;

    fn site(kind: SiteKind, values: &[Scalar]) -> Site {
        Site { kind, location: "k.rs:3:5".into(), values: values.to_vec() }
    }

    fn report(per_thread: bool) -> Arc<Report> {
        let sites = vec![
            site(SiteKind::Assert("{} of {}: {} {}".into()), &[Scalar::F32, Scalar::I32, Scalar::Bool]),
            site(SiteKind::Bounds, &[Scalar::I64, Scalar::I64]),
            site(SiteKind::Divisor, &[]),
            site(SiteKind::Print("x = {}, n = {}".into()), &[Scalar::BF16, Scalar::U64]),
            site(SiteKind::Print("here".into()), &[]),
            site(SiteKind::LoopLimit(65_535), &[]),
        ];
        Arc::new(Report { binding: 3, per_thread, kernel: "k".into(), sites })
    }

    fn read(words: &[u32], per_thread: bool) -> Result<Reported> {
        read_report(words, |number| (number == 2).then(|| report(per_thread)))
    }

    fn faulted(program: u32, site: u32, values: &[u64]) -> Vec<u32> {
        let mut words = vec![1, program, site, 1, 2, 3, 4, 5, 6, 0];
        words.extend(values.iter().flat_map(|&v| [v as u32, (v >> 32) as u32]));
        words.resize(Word::PrintEnd as usize, 0xdddd_dddd);
        words.resize(REPORT_WORDS as usize, 0);
        words
    }

    #[test]
    fn faults_of_every_kind() {
        let values = [u64::from(1.5f32.to_bits()), u64::from(-7i32 as u32), 1];
        let fault = read(&faulted(2, 0, &values), true).unwrap().fault.unwrap();
        assert_eq!(fault.kind, FaultKind::Assert { message: "1.5 of -7: true {}".into() });
        assert_eq!((fault.block, fault.thread), ([1, 2, 3], Some([4, 5, 6])));
        assert_eq!((fault.kernel.as_str(), fault.location.as_str()), ("k", "k.rs:3:5"));
        let fault = read(&faulted(2, 1, &[-1i64 as u64, 1 << 40]), false).unwrap().fault.unwrap();
        assert_eq!(fault.kind, FaultKind::OutOfBounds { index: -1, extent: 1 << 40 });
        assert_eq!(fault.thread, None, "a program over tiles names no thread");
        let fault = read(&faulted(2, 2, &[]), true).unwrap().fault.unwrap();
        assert_eq!(fault.kind, FaultKind::DivisionByZero);
        let fault = read(&faulted(2, 5, &[]), true).unwrap().fault.unwrap();
        assert_eq!(fault.kind, FaultKind::LoopLimit { rounds: 65_535 });
    }

    #[test]
    fn words_that_make_no_sense_are_internal_errors() {
        let short = vec![0; REPORT_WORDS as usize - 1];
        // Not a program, not a site, a print.
        for words in [short, faulted(0, 0, &[]), faulted(2, 9, &[]), faulted(2, 3, &[])] {
            assert!(matches!(read(&words, true), Err(Error::Internal { .. })), "{words:?}");
        }
    }

    fn printed(site: u32, values: &[u64]) -> Vec<u32> {
        let mut words = vec![2, site, 0, 0, 0, 7, 0, 0];
        words.extend(values.iter().flat_map(|&v| [v as u32, (v >> 32) as u32]));
        words
    }

    #[test]
    fn prints_in_order_up_to_their_end() {
        let half = u64::from(bf16::from_f32(-0.5).to_bits());
        let ring = [printed(3, &[half, u64::MAX]), printed(4, &[]), printed(3, &[half, 3])].concat();
        let texts = ["x = -0.5, n = 18446744073709551615", "here", "x = -0.5, n = 3"];
        // Cut anywhere, and with an end that lies beyond the buffer, whole records stay.
        for length in 0..=ring.len() {
            let mut words = vec![0; REPORT_WORDS as usize];
            (words[Word::PrintEnd as usize], words[Word::PrintsLost as usize]) = (99, 4);
            words.extend(&ring[..length]);
            let whole = [12, 20, 32].iter().filter(|&&end| end <= length).count();
            let want = Reported {
                prints: texts[..whole].iter().map(|&text| text.to_owned()).collect(),
                lost: 4,
                fault: None,
            };
            assert_eq!(read(&words, true).unwrap(), want, "{length}");
        }
        // What lies behind the end was not written by these launches.
        let mut words = vec![0; REPORT_WORDS as usize];
        words[Word::PrintEnd as usize] = 12;
        words.extend(&ring);
        assert_eq!(read(&words, true).unwrap().prints, texts[..1]);
    }
}
