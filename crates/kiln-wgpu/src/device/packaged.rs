//! Compiled kernels of packages: SPIR-V and what launches must know, as bytes.
//!
//! The code is the SPIR-V that a driver of Vulkan gets. WGSL, which every adapter takes, could not
//! say how floats are computed or name matrices, and would have to be parsed and written again.
//! Adapters that take no SPIR-V take no packages.
//!
//! All numbers are little-endian. A header of 20 bytes: magic, format version, checksum of the
//! rest. Then the fields of [`Packaged`] in order; texts and lists begin with their length. What is
//! read is checked, so that no launch of bytes with a right checksum panics. A change of the layout
//! raises [`FORMAT`].

use super::interface::{Holds, Interface, ParamNumbers, Slot};
use super::kept::{Read, flag, list, read_list, read_parameter, write_parameter};
use super::kept_ranges;
use crate::module::Binding;
use crate::parameters::Field;
use crate::report::{MAX_VALUES, Report, Site, SiteKind};
use kiln_backend::Places;
use kiln_backend::bytes::{Reader, Writer, checksum};
use kiln_ir::Scalar;

const MAGIC: [u8; 8] = *b"KILNWGPU";
const FORMAT: u32 = 1;
const HEADER: usize = 20;

/// The most threads of a block, and the most bytes of a parameter block.
const MOST_THREADS: u64 = 1024;
const MOST_BYTES: u32 = 1 << 16;

/// What a package has of a kernel.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Packaged {
    pub(super) interface: Interface,
    pub(super) report: Option<Report>,
    /// SPIR-V.
    pub(super) words: Vec<u32>,
}

impl Packaged {
    pub(super) fn encode(&self) -> Vec<u8> {
        let Packaged { interface: of, report, words } = self;
        let mut out = Writer(Vec::with_capacity(words.len() * 4 + 1024));
        out.0.extend(MAGIC);
        out.number(FORMAT);
        out.0.extend([0; 8]);
        [&of.kernel, &of.location, &of.entry].into_iter().for_each(|text| out.text(text));
        of.block.into_iter().chain([of.shared]).for_each(|number| out.number(number));
        list(&mut out, &of.params, |out, param| {
            out.text(&param.name);
            out.number(param.is_view.into());
            out.number(param.rank as u32);
            out.long(param.elem_bytes);
        });
        list(&mut out, &of.bindings, |out, binding| {
            let numbers = [binding.binding, binding.parameter as u32, binding.writable.into()];
            numbers.into_iter().for_each(|number| out.number(number));
        });
        out.number(of.parameter_bytes);
        out.number(of.has_immediates.into());
        list(&mut out, &of.parameters, |out, field| {
            out.text(&field.name);
            write_parameter(out, field.parameter);
            out.number(field.offset);
            out.number(field.bytes);
        });
        list(&mut out, &of.slots, |out, slot| {
            out.number(slot.binding);
            out.number(slot.holds as u32);
        });
        kept_ranges::write(&mut out, &of.ranges);
        out.number(report.is_some().into());
        if let Some(report) = report {
            out.number(report.binding);
            out.number(report.per_thread.into());
            out.text(&report.kernel);
            list(&mut out, &report.sites, write_site);
        }
        list(&mut out, words, |out, &word| out.number(word));
        let mut bytes = out.0;
        let sum = checksum(&bytes[HEADER..]);
        bytes[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// # Errors
    /// What is wrong with the bytes.
    pub(super) fn decode(bytes: &[u8]) -> Read<Packaged> {
        let mut input = Reader::new(bytes);
        if input.take(8)? != MAGIC {
            return Err("they are no compiled kernel of wgpu");
        }
        if input.number()? != FORMAT {
            return Err("they were written by another version of Kiln");
        }
        let sum = input.take(8)?;
        if checksum(input.rest()).to_le_bytes() != sum {
            return Err("their checksum is wrong");
        }
        let interface = read_interface(&mut input)?;
        let report = match flag(&mut input)? {
            true => Some(Report {
                binding: input.number()?,
                per_thread: flag(&mut input)?,
                kernel: input.text()?.to_owned(),
                sites: read_list(&mut input, 16, read_site)?,
            }),
            false => None,
        };
        let words = read_list(&mut input, 4, Reader::number)?;
        if input.is_empty() {
            Ok(Packaged { interface, report, words })
        } else {
            Err("something follows them")
        }
    }

    /// Names today's places in all that it reports.
    pub(super) fn move_to(&mut self, places: &Places) {
        let steps = self.interface.ranges.steps.iter_mut().map(|step| &mut step.location);
        let sites = self.report.iter_mut().flat_map(|report| &mut report.sites);
        let all = steps.chain(sites.map(|site| &mut site.location)).chain([&mut self.interface.location]);
        all.for_each(|location| *location = places.now(location).to_owned());
    }
}

fn read_interface(input: &mut Reader<'_>) -> Read<Interface> {
    let [kernel, location, entry] = [input.text()?, input.text()?, input.text()?].map(str::to_owned);
    let block = [input.number()?, input.number()?, input.number()?];
    let threads = block.iter().fold(1, |all: u64, &extent| all.saturating_mul(extent.into()));
    if !(1..=MOST_THREADS).contains(&threads) {
        return Err("a block in them has no number of threads that there is");
    }
    let shared = input.number()?;
    let params = read_list(input, 20, |input| {
        let (name, is_view) = (input.text()?.to_owned(), flag(input)?);
        let (rank, elem_bytes) = (input.number()? as usize, input.long()?);
        if (rank > 0 && !is_view) || rank > 64 || ![1, 2, 4, 8].contains(&elem_bytes) {
            return Err("a parameter in them is of no kind that there is");
        }
        Ok(ParamNumbers { name, is_view, rank, elem_bytes, buffer: 0, first: 0 })
    })?;
    let params = ParamNumbers::placed(params);
    let bindings = read_list(input, 12, |input| {
        let (binding, parameter) = (input.number()?, input.number()? as usize);
        let writable = flag(input)?;
        match params.get(parameter) {
            Some(param) if param.is_view => Ok(Binding { binding, parameter, writable }),
            _ => Err("they bind a parameter that is no view"),
        }
    })?;
    let (parameter_bytes, has_immediates) = (input.number()?, flag(input)?);
    if parameter_bytes > MOST_BYTES || !parameter_bytes.is_multiple_of(4) {
        return Err("their parameters have no size that there is");
    }
    let parameters = read_list(input, 24, |input| {
        let name = input.text()?.to_owned();
        let parameter = read_parameter(input)?;
        let (offset, bytes) = (input.number()?, input.number()?);
        if ![4, 8].contains(&bytes) || offset.saturating_add(bytes) > parameter_bytes {
            return Err("a field in them lies beyond their parameters");
        }
        Ok(Field { parameter, name, offset, bytes })
    })?;
    let slots = read_list(input, 8, |input| {
        let (binding, holds) = (input.number()?, input.number()?);
        let all = [Holds::Parameters, Holds::Read, Holds::Written];
        let holds = all.get(holds as usize).copied().ok_or("a binding in them is of no known kind")?;
        Ok(Slot { binding, holds })
    })?;
    let ranges = kept_ranges::read(input)?;
    let interface = Interface {
        kernel,
        location,
        entry,
        block,
        shared,
        params,
        parameters,
        parameter_bytes,
        has_immediates,
        bindings,
        slots,
        ranges,
    };
    let of_ranges = interface.ranges.steps.iter().filter_map(|step| step.source.parameter());
    let mut asked = interface.parameters.iter().map(|field| field.parameter).chain(of_ranges);
    match asked.all(|parameter| interface.has(parameter)) {
        true => Ok(interface),
        false => Err("they ask for a number that no launch has"),
    }
}

fn write_site(out: &mut Writer, site: &Site) {
    let (kind, text, rounds) = match &site.kind {
        SiteKind::Assert(text) => (0, text.as_str(), 0),
        SiteKind::Bounds => (1, "", 0),
        SiteKind::Divisor => (2, "", 0),
        SiteKind::LoopLimit(rounds) => (3, "", *rounds),
        SiteKind::Print(text) => (4, text.as_str(), 0),
    };
    out.number(kind);
    out.text(text);
    out.number(rounds);
    out.text(&site.location);
    out.number(site.values.len() as u32);
    // The position in `Scalar::ALL`, which is the order of declaration.
    out.0.extend(site.values.iter().map(|&elem| elem as u8));
}

fn read_site(input: &mut Reader<'_>) -> Read<Site> {
    let (kind, text, rounds) = (input.number()?, input.text()?.to_owned(), input.number()?);
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
        3 => SiteKind::LoopLimit(rounds),
        4 => SiteKind::Print(text),
        _ => return Err("a report in them is of no known kind"),
    };
    Ok(Site { kind, location, values })
}

#[cfg(test)]
mod tests {
    use super::super::code::Code;
    use super::super::passes::ShaderTarget;
    use super::super::passes::shader;
    use super::super::program::report_of;
    use super::*;
    use crate::{Features, FloatModes};

    /// Checks, prints, a loop, several parameters.
    const KERNEL: &str = "file \"k.rs\"
kernel @k(%x: view<f32, 2, global>, %n: i32, %y: mut view<i64, 1, global>) tile {
  %0 = program_id x : i64 @0:3:1
  %c = const 16 : i64 @0:3:2
  %at = mul %0, %c : i64 @0:3:3
  %zero = const 0 : i32 @0:4:1
  %fine = ge %n, %zero : bool @0:4:2
  assert %fine, \"n {}\", %n @0:4:3
  %pad = const 1.0 : f32 @0:5:1
  %t = load %x[%0, %at] pad %pad : f32[1, 16] @0:5:2
  %w = cast %t : i64[1, 16] @0:6:1
  %m = cast %n : i64 @0:6:2
  %s = broadcast %m : i64[1, 16] @0:6:3
  %u = add %w, %s : i64[1, 16] @0:6:4
  %v = reshape %u : i64[16] @0:6:5
  store %y[%at] = %v @0:7:1
}
";

    fn packaged(features: Features) -> Packaged {
        let kernel = kiln_ir::parse(KERNEL).unwrap_or_else(|error| panic!("{error}"));
        let features = Features { float_modes: Some(FloatModes::ALL), ..features };
        let target = ShaderTarget { device: "a GPU", features, max_threads: 256, shared_memory: 16 << 10 };
        let module = shader(&kernel, &target).unwrap();
        let (interface, report) = (Interface::of(&kernel, &module), report_of(&kernel, &module));
        let Ok(Code::Words(words)) = Code::of(module) else { panic!("it is no SPIR-V") };
        Packaged { interface, report, words }
    }

    /// With 64-bit integers and parameters that are immediates, and with neither.
    fn all() -> [Packaged; 2] {
        let more = Features { int64: true, immediate_bytes: 128, ..Features::default() };
        [packaged(more), packaged(Features::default())]
    }

    #[test]
    fn what_is_written_is_read() {
        for packaged in all() {
            assert!(packaged.report.is_some() && packaged.interface.params.len() == 3);
            let bytes = packaged.encode();
            let read = Packaged::decode(&bytes).unwrap();
            assert_eq!(read.encode(), bytes);
            let launches = |of: &Packaged| Interface { ranges: Default::default(), ..of.interface.clone() };
            assert_eq!((launches(&read), &read.report), (launches(&packaged), &packaged.report));
            assert_eq!(read.interface.ranges.steps, packaged.interface.ranges.steps);
            assert_eq!(read.words, packaged.words);
        }
        let [more, less] = all().map(|packaged| packaged.interface);
        assert!(more.has_immediates && !less.has_immediates && !less.ranges.steps.is_empty());
    }

    #[test]
    fn every_shorter_or_longer_run_of_bytes_is_refused() {
        for packaged in all() {
            let mut bytes = packaged.encode();
            for length in 0..bytes.len() {
                assert!(Packaged::decode(&bytes[..length]).is_err(), "{length}");
            }
            bytes.push(0);
            assert!(Packaged::decode(&bytes).is_err());
        }
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let [mut bytes, _] = all().map(|packaged| packaged.encode());
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Packaged::decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Damage that the checksum does not show, because it was computed anew: what a launch looks up
    /// is there, or the bytes are refused.
    #[test]
    fn damage_behind_a_right_checksum_does_not_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize % below
        };
        let mut refused = 0;
        for packaged in all() {
            let whole = packaged.encode();
            // What comes before the words of SPIR-V, which nothing here looks at.
            let end = whole.len() - 4 * packaged.words.len();
            for _ in 0..20_000 {
                let mut bytes = whole.clone();
                for _ in 0..=random(3) {
                    bytes[HEADER + random(end - HEADER)] = [0, 1, 2, 3, 4, 255, random(256) as u8][random(7)];
                }
                if random(4) == 0 {
                    bytes.truncate(HEADER + random(bytes.len() - HEADER));
                }
                let sum = checksum(&bytes[HEADER..]);
                bytes[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
                let Ok(Packaged { interface, .. }) = Packaged::decode(&bytes) else {
                    refused += 1;
                    continue;
                };
                let numbers = vec![3; interface.arguments().numbers];
                for param in interface.params.iter().filter(|param| param.is_view) {
                    let _ = param.span(&numbers);
                }
                let _ = interface.ranges.check(|parameter| {
                    assert!(interface.has(parameter));
                    5
                });
            }
        }
        assert!(refused > 2000, "{refused}");
    }

    #[test]
    fn places_are_those_of_today() {
        let [_, mut packaged] = all();
        let kernel = |text: &str| kiln_ir::parse(text).unwrap();
        let recorded = Places::record(&kernel(KERNEL));
        let places = Places::since(&recorded, &kernel(&KERNEL.replace("@0:", "@0:1"))).unwrap();
        packaged.move_to(&places);
        let sites = packaged.report.iter().flat_map(|report| &report.sites).map(|site| &site.location);
        let steps = packaged.interface.ranges.steps.iter().map(|step| &step.location);
        let mut all = sites.chain(steps).chain([&packaged.interface.location]);
        assert!(all.all(|place| !place.contains("k.rs") || place.starts_with("k.rs:1")));
        assert_eq!(packaged.interface.location, "k.rs:13:1");
    }
}
