//! What matrix units multiply.

use crate::register::Register;
use crate::trap::Trap;
use crate::value::{Data, dispatch};
use kiln_ir::{E4M3, E5M2, Scalar};

/// The low bits of an f32 that matrix units ignore: tf32 has 10 bits of significand.
const BELOW_TF32: u32 = (1 << 13) - 1;

/// The elements of a factor as matrix units see them: of f32 the upper 19 bits, those of one byte
/// as the type in which they are summed.
pub fn multiplied(factor: Data) -> Result<Data, Trap> {
    Ok(match factor.elem() {
        Scalar::F32 => {
            let cut = |x: &f32| f32::from_bits(x.to_bits() & !BELOW_TF32);
            Data::F32(f32::of(&factor)?.iter().map(cut).collect())
        }
        Scalar::E4M3 => Data::F32(E4M3::of(&factor)?.iter().map(|x| x.to_f32()).collect()),
        Scalar::E5M2 => Data::F32(E5M2::of(&factor)?.iter().map(|x| x.to_f32()).collect()),
        Scalar::I8 => Data::I32(i8::of(&factor)?.iter().map(|&x| x.into()).collect()),
        Scalar::U8 => Data::I32(u8::of(&factor)?.iter().map(|&x| x.into()).collect()),
        Scalar::I16 => Data::I32(i16::of(&factor)?.iter().map(|&x| x.into()).collect()),
        Scalar::U16 => Data::I32(u16::of(&factor)?.iter().map(|&x| x.into()).collect()),
        _ => factor,
    })
}

/// Matrices of equally many rows, each with its columns, as one.
pub fn side_by_side(parts: &[(&Data, usize)]) -> Result<Data, Trap> {
    let Some(elem) = parts.first().map(|(data, _)| data.elem()) else {
        return Err(Trap::Bug("no tiles side by side".into()));
    };
    let width = parts.iter().map(|(_, columns)| columns).sum();
    let mut out = Data::zeros(elem, parts.iter().map(|(data, _)| data.len()).sum());
    let mut first = 0;
    for &(part, columns) in parts {
        dispatch!(any elem, T => {
            let rows = T::of_mut(&mut out)?.chunks_exact_mut(width).zip(T::of(part)?.chunks_exact(columns));
            rows.for_each(|(to, from)| to[first..first + columns].copy_from_slice(from));
            Ok(())
        })?;
        first += columns;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_put_side_by_side() -> Result<(), Trap> {
        let (a, b) = (Data::I32(vec![1, 2, 5, 6]), Data::I32(vec![3, 7]));
        assert_eq!(side_by_side(&[(&a, 2), (&b, 1)])?, Data::I32(vec![1, 2, 3, 5, 6, 7]));
        Ok(())
    }

    #[test]
    fn tf32_is_cut_not_rounded() -> Result<(), Trap> {
        // 1 + 2^-10 is a tf32, and 1 + 2^-11 + 2^-12 is above the middle between it and 1.
        let (exact, between) = (1.0 + 2f32.powi(-10), 1.0 + 2f32.powi(-11) + 2f32.powi(-12));
        let cut = multiplied(Data::F32(vec![exact, between, -between, f32::INFINITY]))?;
        assert_eq!(cut, Data::F32(vec![exact, 1.0, -1.0, f32::INFINITY]));
        Ok(())
    }

    #[test]
    fn bytes_become_what_they_are_summed_in() -> Result<(), Trap> {
        assert_eq!(multiplied(Data::I8(vec![-128, 127]))?, Data::I32(vec![-128, 127]));
        assert_eq!(multiplied(Data::U8(vec![255]))?, Data::I32(vec![255]));
        let float = multiplied(Data::E5M2(vec![E5M2::from_f32(0.3)]))?;
        assert_eq!(float, Data::F32(vec![0.3125]));
        Ok(())
    }
}
