//! What a compiled program relies on in its parameters, which every launch is compared with.

use kiln_backend::{DevicePtr, view_span};
use kiln_ir::{Facts, IntFact, Param, Scalar};
use std::fmt;

/// The kind of a parameter, or of an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Given {
    Scalar(Scalar),
    View { elem: Scalar, rank: usize, mutable: bool },
}

impl Given {
    /// The rank of a view, and its element's size in bytes.
    pub(crate) fn view(self) -> Option<(usize, usize)> {
        match self {
            Given::Scalar(_) => None,
            Given::View { elem, rank, .. } => Some((rank, elem.bytes() as usize)),
        }
    }

    /// Whether it is a view that may be written.
    pub(crate) fn is_mutable(self) -> bool {
        matches!(self, Given::View { mutable: true, .. })
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Given::Scalar(elem) => write!(f, "a number of type {elem}"),
            Given::View { elem, rank, mutable } => {
                let kind = if *mutable { "a mutable" } else { "a read-only" };
                write!(f, "{kind} tensor of {elem} and rank {rank}")
            }
        }
    }
}

/// What a launch needs of a parameter.
pub(crate) struct ParamInfo {
    pub(crate) name: String,
    pub(crate) given: Given,
    /// Where its numbers begin.
    pub(crate) numbers: usize,
    /// The low bits of a view's address that are 0.
    aligned: u64,
    /// Whether a view spans less than 2 GiB.
    is_small: bool,
    /// Whether something is known of a number.
    is_known: bool,
    /// What is known of a view's single numbers, one after the other; empty if nothing is.
    limits: Box<[Limits]>,
    /// All that is known. They are large, and a launch looks at the parameters one by one.
    facts: Box<Facts>,
}

/// What is known of one number of a view.
#[derive(Clone)]
struct Limits {
    /// The low bits that are 0.
    zeros: u64,
    least: i64,
    most: i64,
}

impl Limits {
    fn new(known: &IntFact) -> Limits {
        let (least, most) = if known.fits_i32 { (0, i32::MAX.into()) } else { (i64::MIN, i64::MAX) };
        let equals = known.equals;
        Limits {
            // A power of two, as in `fact`.
            zeros: u64::from(known.divisor) - 1,
            least: equals.map_or(least, |n| n.max(least)),
            most: equals.map_or(most, |n| n.min(most)),
        }
    }

    /// Whether they say anything.
    fn limit(&self) -> bool {
        self.zeros != 0 || self.least != i64::MIN || self.most != i64::MAX
    }

    /// Whether they are true of a number. Without a branch: most often they are.
    fn hold(&self, n: u64) -> bool {
        (n & self.zeros == 0) & (self.least <= n as i64) & (n as i64 <= self.most)
    }

    /// Those of a view of this rank: of no number, or of each.
    fn list(rank: usize, facts: &Facts) -> Box<[Limits]> {
        let axes = |known: &[IntFact]| -> Vec<Limits> {
            let unknown = std::iter::repeat(IntFact::default());
            known.iter().copied().chain(unknown).take(rank).map(|fact| Limits::new(&fact)).collect()
        };
        let all = [axes(&facts.extents), axes(&facts.strides)].concat();
        if all.iter().any(Limits::limit) { all.into() } else { Box::default() }
    }
}

impl ParamInfo {
    /// The parameters in order; `numbers` runs on from one to the next.
    pub(crate) fn list(params: &[Param]) -> Vec<ParamInfo> {
        let mut numbers = 0;
        let info = |p: &Param| {
            let given = match p.ty.as_view() {
                Some(v) => Given::View { elem: v.elem, rank: v.rank as usize, mutable: p.mutable },
                None => Given::Scalar(p.ty.elem()),
            };
            let limits = match given {
                Given::View { rank, .. } => Limits::list(rank, &p.facts),
                Given::Scalar(_) => Box::default(),
            };
            let (name, facts, aligned) = (p.name.clone(), Box::new(p.facts.clone()), alignment(p) - 1);
            let (is_small, is_known) = (facts.span_fits_i32, facts.value != IntFact::default());
            let info = ParamInfo { name, given, numbers, aligned, is_small, is_known, limits, facts };
            numbers += p.numbers();
            info
        };
        params.iter().map(info).collect()
    }

    /// How many numbers it has.
    pub(crate) fn number_count(&self) -> usize {
        self.given.view().map_or(1, |(rank, _)| 2 * rank)
    }

    /// The extent of this view on an axis, from the numbers of a launch.
    pub(crate) fn extent(&self, numbers: &[u64], axis: usize) -> u64 {
        numbers[self.numbers + axis]
    }

    /// Whether all declared facts are true of these numbers, and of where a view is, which the
    /// parameter would be launched with: [`violated`](Self::violated) for each launch.
    #[inline]
    pub(crate) fn holds(&self, address: Option<DevicePtr>, numbers: &[u64]) -> bool {
        let Given::View { elem, rank, .. } = self.given else {
            return !self.is_known || fact(&self.facts.value, numbers[0], self.given).is_none();
        };
        let (extents, strides) = numbers.split_at(rank);
        let spans = || view_span(extents, strides).saturating_mul(elem.bytes().into());
        address.is_none_or(|address| address.0 & self.aligned == 0)
            && self.limits.iter().zip(numbers).fold(true, |all, (limits, &n)| all & limits.hold(n))
            && (!self.is_small || is_small(extents, strides) || i32::try_from(spans()).is_ok())
    }

    /// A declared fact that is not true of these numbers, or of where a view is.
    pub(crate) fn violated(&self, address: Option<DevicePtr>, numbers: &[u64]) -> Option<String> {
        let Given::View { elem, rank, .. } = self.given else {
            return fact(&self.facts.value, numbers[0], self.given).map(|what| format!("it {what}"));
        };
        let size = u64::from(elem.bytes());
        let (extents, strides) = (&numbers[..rank], &numbers[rank..]);
        if address.is_some_and(|address| address.0 & self.aligned != 0) {
            return Some(format!("its address is a multiple of {} bytes", self.aligned + 1));
        }
        for (what, facts, numbers) in
            [("extent", &self.facts.extents, extents), ("stride", &self.facts.strides, strides)]
        {
            let broken = facts.iter().zip(numbers).enumerate();
            for (axis, (known, &n)) in broken {
                if let Some(why) = fact(known, n, Given::Scalar(Scalar::I64)) {
                    return Some(format!("its {what} {axis} {why}"));
                }
            }
        }
        let fits = !self.facts.span_fits_i32
            || i32::try_from(view_span(extents, strides).saturating_mul(size)).is_ok();
        (!fits).then(|| "it spans less than 2 GiB".to_owned())
    }
}

/// Whether a view surely spans less than 2 GiB, whatever its elements are: no sum or product of
/// numbers this small is too large for 64 bits, and elements have 16 bytes at most.
fn is_small(extents: &[u64], strides: &[u64]) -> bool {
    let axes = extents.iter().zip(strides);
    let (all, end) = axes.fold((0, 0u64), |(all, end), (extent, stride)| {
        (all | extent | stride, end.wrapping_add(extent.wrapping_mul(*stride)))
    });
    all < 1 << 28 && end < 1 << 27
}

/// The multiple of bytes that a view's address is, a power of two: the verifier has seen to that.
fn alignment(param: &Param) -> u64 {
    let align = if param.facts.align == 0 { param.ty.elem().bytes() } else { param.facts.align };
    align.into()
}

/// A fact that is not true of a number, in words.
fn fact(known: &IntFact, bits: u64, given: Given) -> Option<String> {
    if *known == IntFact::default() {
        return None;
    }
    let n = match given {
        Given::Scalar(Scalar::I32) => i64::from(bits as i32),
        Given::Scalar(Scalar::I8) => i64::from(bits as i8),
        Given::Scalar(Scalar::I16) => i64::from(bits as i16),
        _ => bits as i64,
    };
    if !divides(known.divisor.into(), n.unsigned_abs()) {
        return Some(format!("is a multiple of {}", known.divisor));
    }
    match known.equals {
        Some(expected) if expected != n => Some(format!("is {expected}")),
        _ if known.fits_i32 && !(0..=i64::from(i32::MAX)).contains(&n) => Some("fits 31 bits".to_owned()),
        _ => None,
    }
}

/// Whether a power of two divides a number.
fn divides(power: u64, n: u64) -> bool {
    n & (power - 1) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::{Space, Type};

    fn matrix(facts: Facts) -> ParamInfo {
        let ty = Type::view(Scalar::F32, 2, Space::Global);
        let param = Param { name: "x".into(), ty, mutable: false, facts };
        ParamInfo::list(&[param]).remove(0)
    }

    #[test]
    fn every_fact_of_a_view_is_checked() {
        let (address, numbers) = (DevicePtr(0x100), [6, 12, 12, 1]);
        let by = |divisor| IntFact { divisor, ..IntFact::default() };
        let none = IntFact::default;
        let cases = [
            (Facts::default(), None),
            (Facts { align: 256, ..Facts::default() }, None),
            (Facts { align: 512, ..Facts::default() }, Some("its address is a multiple of 512 bytes")),
            (Facts { extents: [by(2), by(4)].into_iter().collect(), ..Facts::default() }, None),
            (
                Facts { extents: [by(4), none()].into_iter().collect(), ..Facts::default() },
                Some("its extent 0 is a multiple of 4"),
            ),
            (
                Facts { strides: [by(4), by(4)].into_iter().collect(), ..Facts::default() },
                Some("its stride 1 is a multiple of 4"),
            ),
        ];
        for (facts, expected) in cases {
            let param = matrix(facts.clone());
            assert_eq!(param.violated(Some(address), &numbers).as_deref(), expected, "{facts:?}");
            assert_eq!(param.holds(Some(address), &numbers), expected.is_none(), "{facts:?}");
        }
        let small = matrix(Facts { span_fits_i32: true, ..Facts::default() });
        assert_eq!(small.violated(Some(address), &numbers), None);
        let huge = [1 << 20, 1 << 10, 1 << 10, 1];
        assert_eq!(small.violated(Some(address), &huge).as_deref(), Some("it spans less than 2 GiB"));
        let fits = matrix(Facts {
            extents: [IntFact { fits_i32: true, ..none() }, none()].into_iter().collect(),
            ..Facts::default()
        });
        let long = [1 << 40, 1, 1, 1];
        assert_eq!(fits.violated(Some(address), &long).as_deref(), Some("its extent 0 fits 31 bits"));
    }

    #[test]
    fn the_quick_check_says_the_same() {
        let by = |divisor, equals, fits_i32| IntFact { divisor, equals, fits_i32 };
        let known = [
            by(1, None, false),
            by(8, None, false),
            by(1, Some(1), true),
            by(4, Some(8), false),
            by(1, Some(1 << 33), true),
            by(16, None, true),
        ];
        let numbers = [0, 1, 8, 12, 1 << 20, i32::MAX as u64, 1 << 31, 1 << 33, u64::MAX];
        let (mut held, mut broken) = (0, 0);
        for (a, b) in known.iter().flat_map(|a| known.iter().map(move |b| (*a, *b))) {
            for (align, span_fits_i32) in [(0, false), (32, false), (4, true)] {
                let (extents, strides) = ([a, b].into_iter().collect(), [b, a].into_iter().collect());
                let param = matrix(Facts { align, extents, strides, span_fits_i32, ..Facts::default() });
                for (n, m) in numbers.iter().flat_map(|n| numbers.iter().map(move |m| (*n, *m))) {
                    for (address, numbers) in
                        [(0x40, [n, m, m, n]), (0x44, [n, m, m, n]), (0x42, [m, n, n, 1])]
                    {
                        let address = DevicePtr(address);
                        let holds = param.violated(Some(address), &numbers).is_none();
                        assert_eq!(
                            param.holds(Some(address), &numbers),
                            holds,
                            "{address:?} {numbers:?} {a:?} {b:?} {align} {span_fits_i32}"
                        );
                        if holds { held += 1 } else { broken += 1 }
                    }
                }
            }
        }
        assert!(held > 100 && broken > 100, "{held} {broken}");
    }

    #[test]
    fn facts_of_a_number_are_checked_with_its_sign() {
        let number = |elem, value| {
            let facts = Facts { value, ..Facts::default() };
            let param = Param { name: "n".into(), ty: Type::scalar(elem), mutable: false, facts };
            ParamInfo::list(&[param]).remove(0)
        };
        let minus = IntFact { equals: Some(-1), ..IntFact::default() };
        assert_eq!(number(Scalar::I32, minus).violated(None, &[u64::from(u32::MAX)]), None);
        assert_eq!(number(Scalar::I64, minus).violated(None, &[7]).as_deref(), Some("it is -1"));
        let by = IntFact { divisor: 16, ..IntFact::default() };
        assert_eq!(number(Scalar::I64, by).violated(None, &[(-32i64) as u64]), None);
        assert_eq!(number(Scalar::I64, by).violated(None, &[8]).as_deref(), Some("it is a multiple of 16"));
    }
}
