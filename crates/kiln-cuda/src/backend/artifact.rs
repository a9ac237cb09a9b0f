//! Compiled kernels as bytes, so that another process loads instead of compiling.
//!
//! All numbers are little-endian. A header of 20 bytes: magic, format version, checksum of the
//! rest. Then the fields of [`Artifact`] in order; texts and lists begin with their length. A
//! change of the layout raises [`FORMAT`].

use super::sites::SiteTable;
use crate::ptx::records::{MAX_VALUES, Site, SiteKind};
use crate::ptx::{TensorMap, Way};
use kiln_backend::bytes::{Reader, Writer, checksum};
use kiln_ir::Scalar;

const MAGIC: [u8; 8] = *b"KILNCUDA";
const FORMAT: u32 = 6;
const HEADER: usize = 20;

/// What is kept of a compiled kernel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Artifact {
    /// The kernel's sites.
    pub(super) table: SiteTable,
    /// The entry in the cubin.
    pub(super) entry: String,
    /// Threads of a block on x, y and z.
    pub(super) block: [u32; 3],
    /// Shared memory of a block, in bytes.
    pub(super) shared: u32,
    /// Words of its parameters, without hidden ones.
    pub(super) words: u32,
    /// The words among them that are addresses of views, in order.
    pub(super) addresses: Vec<u32>,
    /// Bytes of registers a thread spills.
    pub(super) spills: u32,
    /// The tensor maps that come before the words.
    pub(super) maps: Vec<TensorMap>,
    /// Blocks of a cluster, along x.
    pub(super) cluster: u32,
    /// Whether all blocks of a launch wait for each other.
    pub(super) grid_barrier: bool,
    /// What the driver loads.
    pub(super) code: Code,
}

/// Compiled code, as it can be kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Code {
    /// Machine code.
    Cubin(Vec<u8>),
    /// Text, for what the driver compiles as a whole program only: its cubin is kept in the
    /// driver's own cache.
    Ptx(String),
}

impl Artifact {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(self.code.len() + 1024));
        out.0.extend(MAGIC);
        out.number(FORMAT);
        out.0.extend([0; 8]);
        out.text(&self.table.kernel);
        out.number(self.table.per_thread.into());
        out.number(self.table.sites.len() as u32);
        for site in &self.table.sites {
            write_site(&mut out, site);
        }
        out.text(&self.entry);
        for number in self.block.into_iter().chain([self.shared, self.words, self.spills]) {
            out.number(number);
        }
        out.number(self.addresses.len() as u32);
        self.addresses.iter().for_each(|&word| out.number(word));
        out.number(self.maps.len() as u32);
        for map in &self.maps {
            write_map(&mut out, map);
        }
        out.number(self.cluster);
        out.number(self.grid_barrier.into());
        match &self.code {
            Code::Cubin(bytes) => {
                out.number(0);
                out.bytes(bytes);
            }
            Code::Ptx(text) => {
                out.number(1);
                out.text(text);
            }
        }
        let mut bytes = out.0;
        let sum = checksum(&bytes[HEADER..]);
        bytes[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// # Errors
    /// What is wrong with the bytes.
    pub(super) fn decode(bytes: &[u8]) -> Result<Artifact, &'static str> {
        let mut input = Reader::new(bytes);
        if input.take(8)? != MAGIC {
            return Err("they are no compiled CUDA kernel");
        }
        if input.number()? != FORMAT {
            return Err("they were written by another version of Kiln");
        }
        let sum = input.take(8)?;
        if checksum(input.rest()).to_le_bytes() != sum {
            return Err("their checksum is wrong");
        }
        let kernel = input.text()?.to_owned();
        let per_thread = input.number()? != 0;
        let count = input.number()?;
        let sites = (0..count).map(|_| read_site(&mut input)).collect::<Result<Vec<_>, _>>()?;
        let artifact = Artifact {
            table: SiteTable { kernel, per_thread, sites },
            entry: input.text()?.to_owned(),
            block: [input.number()?, input.number()?, input.number()?],
            shared: input.number()?,
            words: input.number()?,
            spills: input.number()?,
            addresses: {
                let count = input.number()?;
                (0..count).map(|_| input.number()).collect::<Result<_, _>>()?
            },
            maps: {
                let count = input.number()?;
                (0..count).map(|_| read_map(&mut input)).collect::<Result<_, _>>()?
            },
            cluster: input.number()?,
            grid_barrier: input.number()? != 0,
            code: match input.number()? {
                0 => Code::Cubin(input.bytes()?.to_vec()),
                1 => Code::Ptx(input.text()?.to_owned()),
                _ => return Err("their code is of no known kind"),
            },
        };
        if !artifact.addresses.is_sorted_by(|a, b| a < b)
            || artifact.addresses.last().is_some_and(|&last| last >= artifact.words)
        {
            return Err("their addresses are not among their parameters");
        }
        if input.is_empty() { Ok(artifact) } else { Err("something follows them") }
    }
}

impl Code {
    fn len(&self) -> usize {
        match self {
            Code::Cubin(bytes) => bytes.len(),
            Code::Ptx(text) => text.len(),
        }
    }
}

fn write_map(out: &mut Writer, map: &TensorMap) {
    out.text(&map.name);
    let [rows, columns] = map.extents;
    [map.word, map.rank, rows, columns].into_iter().for_each(|n| out.number(n));
    out.0.extend([map.elem as u8, map.way as u8]);
}

fn write_site(out: &mut Writer, site: &Site) {
    let (kind, text) = match &site.kind {
        SiteKind::Assert(text) => (0, text.as_str()),
        SiteKind::Bounds => (1, ""),
        SiteKind::Divisor => (2, ""),
        SiteKind::Print(text) => (3, text.as_str()),
    };
    out.number(kind);
    out.text(text);
    out.text(&site.location);
    out.number(site.values.len() as u32);
    // The position in `Scalar::ALL`, which is the order of declaration.
    out.0.extend(site.values.iter().map(|&elem| elem as u8));
}

fn read_map(input: &mut Reader<'_>) -> Result<TensorMap, &'static str> {
    let name = input.text()?.to_owned();
    let (word, rank) = (input.number()?, input.number()?);
    let extents = [input.number()?, input.number()?];
    let elem = Scalar::ALL.get(usize::from(input.take(1)?[0])).copied();
    let elem = elem.ok_or("they name an unknown element type")?;
    let way = Way::ALL.get(usize::from(input.take(1)?[0])).copied();
    let way = way.ok_or("a tensor map in them is of no known kind")?;
    Ok(TensorMap { name, word, rank, elem, extents, way })
}

fn read_site(input: &mut Reader<'_>) -> Result<Site, &'static str> {
    let kind = input.number()?;
    let text = input.text()?.to_owned();
    let location = input.text()?.to_owned();
    let count = input.number()? as usize;
    if count > MAX_VALUES {
        return Err("a message in them has too many values");
    }
    let elems = input.take(count)?.iter().map(|&index| Scalar::ALL.get(usize::from(index)).copied());
    let values = elems.collect::<Option<Vec<_>>>().ok_or("a value in them has no known type")?;
    let kind = match kind {
        0 => SiteKind::Assert(text),
        1 => SiteKind::Bounds,
        2 => SiteKind::Divisor,
        3 => SiteKind::Print(text),
        _ => return Err("a report in them is of no known kind"),
    };
    Ok(Site { kind, location, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact() -> Artifact {
        let site = |kind, values: &[Scalar]| Site {
            kind,
            location: "kernel ü.rs:10:3".into(),
            values: values.to_vec(),
        };
        Artifact {
            table: SiteTable {
                kernel: "softmax".into(),
                per_thread: true,
                sites: vec![
                    site(SiteKind::Assert("x = {}".into()), &Scalar::ALL[..8]),
                    site(SiteKind::Bounds, &[Scalar::I64, Scalar::I64]),
                    site(SiteKind::Divisor, &[]),
                    site(SiteKind::Print("{}".into()), &[Scalar::F64]),
                ],
            },
            entry: "kiln_softmax".into(),
            block: [128, 2, 1],
            shared: 49_153,
            words: 7,
            addresses: vec![0, 3],
            spills: 16,
            maps: vec![TensorMap {
                name: "a".into(),
                word: 5,
                rank: 3,
                elem: Scalar::BF16,
                extents: [128, 64],
                way: Way::LoadTransposed,
            }],
            cluster: 2,
            grid_barrier: true,
            code: Code::Cubin((0..257u32).map(|i| (i * 7 + 3) as u8).collect()),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let artifact = artifact();
        assert_eq!(Artifact::decode(&artifact.encode()).as_ref(), Ok(&artifact));
        let empty = Artifact {
            table: SiteTable { kernel: String::new(), per_thread: false, sites: vec![] },
            entry: String::new(),
            block: [0; 3],
            shared: 0,
            words: 0,
            addresses: vec![],
            spills: 0,
            maps: vec![],
            cluster: 1,
            grid_barrier: false,
            code: Code::Cubin(vec![]),
        };
        assert_eq!(Artifact::decode(&empty.encode()), Ok(empty));
        let text = Artifact { code: Code::Ptx("// ü\n.version 8.0".into()), ..artifact };
        assert_eq!(Artifact::decode(&text.encode()), Ok(text));
    }

    #[test]
    fn element_types_are_numbered_in_the_order_of_all() {
        for (index, elem) in Scalar::ALL.into_iter().enumerate() {
            assert_eq!(elem as usize, index);
        }
    }

    #[test]
    fn every_shorter_or_longer_run_of_bytes_is_refused() {
        let mut bytes = artifact().encode();
        for length in 0..bytes.len() {
            assert!(Artifact::decode(&bytes[..length]).is_err(), "{length}");
        }
        bytes.push(0);
        assert!(Artifact::decode(&bytes).is_err());
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let mut bytes = artifact().encode();
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Artifact::decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Damage that the checksum does not show, because it was computed anew: the fields are checked
    /// on their own.
    #[test]
    fn damage_behind_a_right_checksum_does_not_panic() {
        let whole = artifact().encode();
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
            refused += usize::from(Artifact::decode(&bytes).is_err());
        }
        assert!(refused > 1000, "{refused}");
    }
}
