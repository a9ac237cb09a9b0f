//! The facts about a tensor to which a launch specializes the kernel.

use crate::tensor::Layout;
use kiln_ir::MAX_VIEW_RANK;
use kiln_lang::param::{Facts, IntFact};

/// The largest divisor that is worth knowing: 16 elements, or 16 bytes of an address, make the
/// widest access.
const MOST: u64 = 16;

/// The bits of [`bits`] for the whole tensor, and for each axis.
const OF_TENSOR: usize = 4;
const OF_AXIS: usize = 9;
const _: () =
    assert!(OF_TENSOR + OF_AXIS * MAX_VIEW_RANK <= u64::BITS as usize, "the facts of a view fit a word");

/// The facts of a tensor at an address. Tensors with equal [`bits`] have equal facts.
pub(crate) fn facts(layout: &Layout, address: u64, elem_bytes: usize) -> Facts {
    let axis = |n: usize, unit: bool| IntFact {
        divisor: 1 << divisor_log2(n as u64),
        equals: (unit && n == 1).then_some(1),
        fits_i32: i32::try_from(n).is_ok(),
    };
    Facts {
        align: 1 << divisor_log2(address),
        extents: layout.shape.iter().map(|&n| axis(n, false)).collect(),
        strides: layout.strides.iter().map(|&n| axis(n, true)).collect(),
        span_fits_i32: i32::try_from(layout.span() * elem_bytes).is_ok(),
        value: IntFact::default(),
    }
}

/// What is known of a parameter by two sources that are both right.
pub(crate) fn both(declared: &Facts, known: Facts) -> Facts {
    let fact = |a: &IntFact, b: &IntFact| IntFact {
        divisor: a.divisor.max(b.divisor),
        equals: a.equals.or(b.equals),
        fits_i32: a.fits_i32 || b.fits_i32,
    };
    let axes = |declared: &[IntFact], known: &[IntFact]| match declared.is_empty() {
        true => known.iter().copied().collect(),
        false => declared.iter().zip(known).map(|(a, b)| fact(a, b)).collect(),
    };
    Facts {
        align: declared.align.max(known.align),
        extents: axes(&declared.extents, &known.extents),
        strides: axes(&declared.strides, &known.strides),
        span_fits_i32: declared.span_fits_i32 || known.span_fits_i32,
        value: fact(&declared.value, &known.value),
    }
}

/// [`facts`] in one word. They say nothing of more than [`MAX_VIEW_RANK`] axes, which no launch
/// takes.
pub(crate) fn bits(layout: &Layout, address: u64, elem_bytes: usize) -> u64 {
    let fits = |n: usize| u64::from(i32::try_from(n).is_ok());
    let mut word = divisor_log2(address) << 1 | fits(layout.span() * elem_bytes);
    for (&extent, &stride) in layout.shape.iter().zip(&layout.strides) {
        word = word << 4 | divisor_log2(extent as u64) << 1 | fits(extent);
        word = word << 5 | divisor_log2(stride as u64) << 2 | u64::from(stride == 1) << 1 | fits(stride);
    }
    word
}

fn divisor_log2(n: u64) -> u64 {
    u64::from((n | MOST).trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::Scalar;

    #[test]
    fn facts_of_a_matrix() {
        let f = facts(&Layout::row_major(&[1024, 4000], Scalar::F32).unwrap(), 0x1008, 4);
        assert_eq!(f.align, 8);
        assert_eq!((f.extents[1].divisor, f.strides[0].divisor), (16, 16), "4000 = 16 · 250");
        assert_eq!((f.strides[0].equals, f.strides[1].equals), (None, Some(1)));
        assert!(f.span_fits_i32 && f.extents[0].fits_i32);
    }

    #[test]
    fn equal_bits_mean_equal_facts() {
        let shapes = [[1, 1], [3, 5], [16, 16], [2, 8], [1 << 20, 1 << 12], [1 << 33, 4], [0, 7], [6, 12]];
        let addresses = [0u64, 1, 4, 8, 16, 24, 0x100];
        let mut seen = Vec::new();
        for shape in shapes {
            for address in addresses {
                let layout = Layout::row_major(&shape, Scalar::F32).unwrap();
                seen.push((bits(&layout, address, 4), facts(&layout, address, 4)));
            }
        }
        for (b, f) in &seen {
            assert!(seen.iter().all(|(b2, f2)| (b == b2) == (f == f2)), "{b:#x} {f:?}");
        }
    }

    #[test]
    fn facts_of_the_largest_rank_fit_a_word() {
        const R: usize = MAX_VIEW_RANK;
        let mut seen = Vec::new();
        // Each axis in turn has each divisor, and is or is not too large for 32 bits.
        for axis in 0..R {
            for n in [1, 2, 4, 8, 16, 3, 1 << 33] {
                let mut layout = Layout::row_major(&[1; R], Scalar::F32).unwrap();
                layout.shape[axis] = n;
                seen.push((bits(&layout, 0, 4), facts(&layout, 0, 4)));
                layout.shape[axis] = 1;
                layout.strides[axis] = n;
                seen.push((bits(&layout, 0, 4), facts(&layout, 0, 4)));
                seen.push((bits(&layout, 4, 4), facts(&layout, 4, 4)));
            }
        }
        for (b, f) in &seen {
            assert!(seen.iter().all(|(b2, f2)| (b == b2) == (f == f2)), "{b:#x} {f:?}");
        }
    }
}
