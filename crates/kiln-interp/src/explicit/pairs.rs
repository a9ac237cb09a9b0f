//! Tiles packed for products from registers: two 16-bit floats, or so many bytes, in a number.

use crate::register::Register;
use crate::trap::Trap;
use crate::value::{Data, dispatch};
use half::{bf16, f16};
use kiln_ir::Scalar;
use kiln_ir::numeric::Element;

/// Two neighbors in each number, the first in its lower half.
pub fn pack(tile: &Data, elem: Scalar) -> Result<Data, Trap> {
    let bits = |x: f32| match elem {
        Scalar::BF16 => bf16::from_f32(x).to_bits(),
        _ => f16::from_f32(x).to_bits(),
    };
    let pairs = f32::of(tile)?.chunks_exact(2);
    Ok(Data::U32(pairs.map(|p| u32::from(bits(p[0])) | u32::from(bits(p[1])) << 16).collect()))
}

/// What was packed.
pub fn unpack(words: &Data, elem: Scalar) -> Result<Data, Trap> {
    let (words, bits) = (u32::of(words)?, 8 * elem.bytes() as usize);
    let mut out = Data::zeros(elem, words.len() * 32 / bits);
    dispatch!(any elem, T => {
        for (word, elements) in words.iter().zip(T::of_mut(&mut out)?.chunks_exact_mut(32 / bits)) {
            for (i, element) in elements.iter_mut().enumerate() {
                *element = T::of_bits(u64::from(*word) >> (i * bits));
            }
        }
        Ok(())
    })?;
    Ok(out)
}

/// Neighbors in numbers of four bytes, the first in the lowest.
pub fn words(tile: &Data) -> Result<Data, Trap> {
    let bits = 8 * tile.elem().bytes() as usize;
    dispatch!(any tile.elem(), T => {
        let word = |elements: &[T]| {
            elements.iter().enumerate().fold(0, |word, (i, x)| word | (x.bits() as u32) << (i * bits))
        };
        Ok(Data::U32(T::of(tile)?.chunks_exact(32 / bits).map(word).collect()))
    })
}

/// Powers of two, without those that are not normal numbers.
pub fn exp2_flushed(tile: &Data) -> Result<Data, Trap> {
    let powers = f32::of(tile)?.iter().map(|&x| libm::exp2(f64::from(x)) as f32);
    Ok(Data::F32(powers.map(|p| if p < f32::MIN_POSITIVE { 0.0 } else { p }).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_their_order() {
        let tile = Data::F32(vec![1.0, -2.0, 0.1, 65504.0]);
        for (elem, first) in [(Scalar::F16, 0xc000_3c00), (Scalar::BF16, 0xc000_3f80)] {
            let packed = pack(&tile, elem).unwrap();
            assert_eq!(u32::of(&packed).unwrap()[0], first);
            let halves = unpack(&packed, elem).unwrap();
            assert_eq!(halves.display(1), "-2");
            assert_eq!(halves.len(), 4);
        }
    }

    #[test]
    fn words_hold_their_first_element_lowest() {
        let tile = Data::I8(vec![1, -1, 2, 3, 4, 5, 6, -128]);
        let packed = words(&tile).unwrap();
        assert_eq!(packed, Data::U32(vec![0x0302_ff01, 0x8006_0504]));
        assert_eq!(unpack(&packed, Scalar::I8).unwrap(), tile);
        assert_eq!(words(&Data::F32(vec![1.0])).unwrap(), Data::U32(vec![0x3f80_0000]));
    }

    #[test]
    fn small_powers_are_zero() {
        let powers = exp2_flushed(&Data::F32(vec![0.0, -126.0, -126.5, -1e30, 3.0])).unwrap();
        assert_eq!(powers, Data::F32(vec![1.0, f32::MIN_POSITIVE, 0.0, 0.0, 8.0]));
    }
}
