//! Tiles packed for products from registers: two 16-bit floats in a number.

use crate::numeric::Element;
use crate::value::{Data, Trap};
use half::{bf16, f16};
use kiln_ir::Scalar;

/// Two neighbours in each number, the first in its lower half.
pub fn pack(tile: &Data, elem: Scalar) -> Result<Data, Trap> {
    let bits = |x: f32| match elem {
        Scalar::BF16 => bf16::from_f32(x).to_bits(),
        _ => f16::from_f32(x).to_bits(),
    };
    let pairs = f32::of(tile)?.chunks_exact(2);
    Ok(Data::U32(pairs.map(|p| u32::from(bits(p[0])) | u32::from(bits(p[1])) << 16).collect()))
}

/// What was packed.
pub fn unpack(pairs: &Data, elem: Scalar) -> Result<Data, Trap> {
    let halves = u32::of(pairs)?.iter().flat_map(|&pair| [pair as u16, (pair >> 16) as u16]);
    Ok(match elem {
        Scalar::BF16 => Data::BF16(halves.map(bf16::from_bits).collect()),
        _ => Data::F16(halves.map(f16::from_bits).collect()),
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
    fn small_powers_are_zero() {
        let powers = exp2_flushed(&Data::F32(vec![0.0, -126.0, -126.5, -1e30, 3.0])).unwrap();
        assert_eq!(powers, Data::F32(vec![1.0, f32::MIN_POSITIVE, 0.0, 0.0, 8.0]));
    }
}
