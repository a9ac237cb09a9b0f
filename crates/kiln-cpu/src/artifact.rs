//! Compiled kernels as bytes, for the next process.
//!
//! A header of 20 bytes: magic, format version, checksum of the rest. Then what the code needs of
//! the machine and who made it, and the fields of [`Artifact`] in order. A change of the layout
//! raises [`FORMAT`].

use crate::copies::{AddedView, MOST_ADDED};
use crate::link::{Object, Reference};
use crate::report::SiteTable;
use crate::site::{Site, SiteKind};
use crate::symbol::Symbol;
use kiln_backend::ArgumentCount;
use kiln_backend::bytes::{Reader, Writer, checksum};
use kiln_ir::{Message, Scalar};

const MAGIC: [u8; 8] = *b"KILN-CPU";
const FORMAT: u32 = 2;
const HEADER: usize = 20;
/// The most bytes of alignment that code asks for: a page.
const MOST_ALIGNMENT: u32 = 4096;

/// What is kept of a compiled kernel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Artifact {
    pub(crate) table: SiteTable,
    pub(crate) arguments: ArgumentCount,
    /// Threads of a block.
    pub(crate) threads: u32,
    pub(crate) object: Object,
}

impl Artifact {
    /// `machine` is what the code needs, and who made it.
    pub(crate) fn encode(&self, machine: &str) -> Vec<u8> {
        let Artifact { table, arguments, threads, object } = self;
        let mut out = Writer(Vec::with_capacity(object.code.len() + 1024));
        out.0.extend(MAGIC);
        out.number(FORMAT);
        out.0.extend([0; 8]);
        out.text(machine);
        out.text(&table.kernel);
        out.number(table.messages.len() as u32);
        table.messages.iter().for_each(|message| out.text(message));
        out.number(table.sites.len() as u32);
        table.sites.iter().for_each(|site| write_site(&mut out, site));
        for number in [arguments.buffers as u32, arguments.numbers as u32, *threads] {
            out.number(number);
        }
        out.bytes(&object.code);
        out.number(object.alignment);
        out.number(object.references.len() as u32);
        for reference in &object.references {
            out.number(reference.at);
            out.0.extend(reference.symbol.encode());
            out.long(reference.addend as u64);
        }
        out.number(object.words.len() as u32);
        for words in &object.words {
            out.number(words.len() as u32);
            words.iter().for_each(|&word| out.long(word as u64));
        }
        out.number(object.scratch_bytes);
        out.number(object.checks_time.into());
        out.number(object.added.len() as u32);
        for AddedView { buffer, number, bytes } in &object.added {
            [buffer, number, bytes].into_iter().for_each(|&field| out.number(field));
        }
        let mut bytes = out.0;
        let sum = checksum(&bytes[HEADER..]);
        bytes[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// # Errors
    /// What is wrong with the bytes. Code for another machine than this one, or of another maker,
    /// is refused.
    pub(crate) fn decode(bytes: &[u8], machine: &str) -> Result<Artifact, &'static str> {
        let mut input = Reader::new(bytes);
        if input.take(8)? != MAGIC {
            return Err("they are no kernel compiled for a CPU");
        }
        if input.number()? != FORMAT {
            return Err("they were written by another version of Kiln");
        }
        let sum = input.long()?;
        if checksum(input.rest()) != sum {
            return Err("their checksum is wrong");
        }
        if input.text()? != machine {
            return Err("they are for another processor, or of another version of Kiln");
        }
        let kernel = input.text()?.to_owned();
        let count = input.count(4)?;
        let messages = (0..count).map(|_| input.text().map(str::to_owned)).collect::<Result<_, _>>()?;
        let count = input.count(9)?;
        let sites = (0..count).map(|_| read_site(&mut input)).collect::<Result<_, _>>()?;
        let (buffers, numbers) = (input.number()? as usize, input.number()? as usize);
        let artifact = Artifact {
            table: SiteTable { kernel, messages, sites },
            arguments: ArgumentCount { buffers, numbers },
            threads: input.number()?,
            object: read_object(&mut input)?,
        };
        if input.is_empty() { Ok(artifact) } else { Err("something follows them") }
    }
}

fn read_object(input: &mut Reader<'_>) -> Result<Object, &'static str> {
    let code = input.bytes()?.to_vec();
    let alignment = input.number()?;
    if !alignment.is_power_of_two() || alignment > MOST_ALIGNMENT {
        return Err("their alignment is none");
    }
    let count = input.count(17)?;
    let mut references = Vec::with_capacity(count);
    for _ in 0..count {
        let (at, symbol) = (input.number()?, Symbol::decode(input)?);
        references.push(Reference { at, symbol, addend: input.long()? as i64 });
    }
    let count = input.count(4)?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let count = input.count(8)?;
        words.push((0..count).map(|_| input.long().map(|word| word as i64)).collect::<Result<_, _>>()?);
    }
    let (scratch_bytes, checks_time) = (input.number()?, input.number()? != 0);
    let count = input.count(12)?;
    if count > MOST_ADDED {
        return Err("they add to too many views");
    }
    let mut added = Vec::with_capacity(count);
    for _ in 0..count {
        let (buffer, number, bytes) = (input.number()?, input.number()?, input.number()?);
        added.push(AddedView { buffer, number, bytes });
    }
    Ok(Object { code, alignment, references, words, scratch_bytes, checks_time, added })
}

fn write_site(out: &mut Writer, site: &Site) {
    let (kind, shown) = match &site.kind {
        SiteKind::Assert(message, elems) => (0, Some((message, elems))),
        SiteKind::Bounds => (1, None),
        SiteKind::Divisor => (2, None),
        SiteKind::Stopped => (3, None),
        SiteKind::Print(message, elems) => (4, Some((message, elems))),
    };
    out.0.push(kind);
    if let Some((message, elems)) = shown {
        out.number(message.0);
        out.number(elems.len() as u32);
        // The position in `Scalar::ALL`, which is the order of declaration.
        out.0.extend(elems.iter().map(|&elem| elem as u8));
    }
    out.text(&site.location);
    let block = site.block.unwrap_or_default();
    out.number(site.block.is_some().into());
    block.into_iter().for_each(|extent| out.number(extent));
}

fn read_site(input: &mut Reader<'_>) -> Result<Site, &'static str> {
    let kind = match input.byte()? {
        0 => {
            let (message, elems) = read_shown(input)?;
            SiteKind::Assert(message, elems)
        }
        1 => SiteKind::Bounds,
        2 => SiteKind::Divisor,
        3 => SiteKind::Stopped,
        4 => {
            let (message, elems) = read_shown(input)?;
            SiteKind::Print(message, elems)
        }
        _ => return Err("a report in them is of no known kind"),
    };
    let location = input.text()?.to_owned();
    let has_block = input.number()? != 0;
    let block = [input.number()?, input.number()?, input.number()?];
    if has_block && block.contains(&0) {
        return Err("a block in them is empty");
    }
    Ok(Site { kind, location, block: has_block.then_some(block) })
}

fn read_shown(input: &mut Reader<'_>) -> Result<(Message, Vec<Scalar>), &'static str> {
    let message = Message(input.number()?);
    let count = input.count(1)?;
    let elems = input.take(count)?.iter().map(|&index| Scalar::ALL.get(usize::from(index)).copied());
    let elems = elems.collect::<Option<_>>().ok_or("a value in them has no known type")?;
    Ok((message, elems))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbol::Function;
    use kiln_cpu_primitives::PrimitiveKey;

    const MACHINE: &str = "a machine";

    fn artifact() -> Artifact {
        let site = |kind, block| Site { kind, location: "kernel ü.rs:10:3".into(), block };
        let reference = |at, symbol| Reference { at, symbol, addend: -8 };
        Artifact {
            table: SiteTable {
                kernel: "softmax".into(),
                messages: vec!["x = {}".into(), String::new()],
                sites: vec![
                    site(SiteKind::Assert(Message(0), Scalar::ALL.to_vec()), Some([32, 2, 1])),
                    site(SiteKind::Bounds, None),
                    site(SiteKind::Divisor, Some([1; 3])),
                    site(SiteKind::Stopped, None),
                    site(SiteKind::Print(Message(1), vec![]), None),
                ],
            },
            arguments: ArgumentCount { buffers: 2, numbers: 5 },
            threads: 64,
            object: Object {
                code: (0..257u32).map(|i| (i * 7 + 3) as u8).collect(),
                alignment: 64,
                references: vec![
                    reference(0, Symbol::Words(1)),
                    reference(40, Symbol::Function(Function::Report)),
                    reference(99, Symbol::Primitive(PrimitiveKey::Dot(Scalar::F32))),
                ],
                words: vec![vec![1, -1].into(), vec![].into()],
                scratch_bytes: 4096,
                checks_time: true,
                added: vec![AddedView { buffer: 1, number: 3, bytes: 8 }],
            },
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let artifact = artifact();
        assert_eq!(Artifact::decode(&artifact.encode(MACHINE), MACHINE).as_ref(), Ok(&artifact));
    }

    #[test]
    fn another_machine_is_refused() {
        assert!(Artifact::decode(&artifact().encode("another"), MACHINE).is_err());
    }

    #[test]
    fn every_shorter_or_longer_run_of_bytes_is_refused() {
        let mut bytes = artifact().encode(MACHINE);
        for length in 0..bytes.len() {
            assert!(Artifact::decode(&bytes[..length], MACHINE).is_err(), "{length}");
        }
        bytes.push(0);
        assert!(Artifact::decode(&bytes, MACHINE).is_err());
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let mut bytes = artifact().encode(MACHINE);
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Artifact::decode(&bytes, MACHINE).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Damage that the checksum does not show, because it was computed anew: the fields are checked
    /// on their own, and nothing is allocated for a length that is wrong.
    #[test]
    fn damage_behind_a_right_checksum_does_not_panic() {
        let whole = artifact().encode(MACHINE);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize % below
        };
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=random(3) {
                let at = HEADER + random(bytes.len() - HEADER);
                bytes[at] = random(256) as u8;
            }
            if random(4) == 0 {
                bytes.truncate(HEADER + random(bytes.len() - HEADER));
            }
            let sum = checksum(&bytes[HEADER..]);
            bytes[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
            refused += usize::from(Artifact::decode(&bytes, MACHINE).is_err());
        }
        assert!(refused > 1000, "{refused}");
    }
}
