//! The elements of numbers that are affine functions of a lane's place in its block, and of
//! comparisons of such: functions that generated code calls where it needs them in memory.

use kiln_ir::CompareOp;

/// A number in each lane: `base + steps[0] * x + steps[1] * y + steps[2] * z`, which wraps. The
/// lanes are in the order of their places, x fastest.
#[repr(C)]
pub struct LaneNumbers {
    /// The number in the first lane.
    pub base: i64,
    /// What one place more adds on each axis.
    pub steps: [i64; 3],
    /// The number of places on each axis.
    pub extents: [i64; 3],
}

impl LaneNumbers {
    /// Calls `each` with the position and the place of every lane.
    #[inline(always)]
    fn for_each(&self, mut each: impl FnMut(usize, [i64; 3])) {
        let mut lane = 0;
        for z in 0..self.extents[2] {
            for y in 0..self.extents[1] {
                for x in 0..self.extents[0] {
                    each(lane, [x, y, z]);
                    lane += 1;
                }
            }
        }
    }

    /// The number at a place.
    #[inline(always)]
    fn at(&self, place: [i64; 3]) -> i64 {
        let steps = self.steps.iter().zip(place).map(|(&step, at)| step.wrapping_mul(at));
        steps.fold(self.base, i64::wrapping_add)
    }
}

/// Writes the number of each lane.
///
/// # Safety
/// `numbers` is readable, and `to` writable for as many elements as the extents say.
pub unsafe extern "C" fn write(to: *mut i64, numbers: *const LaneNumbers) {
    // SAFETY: the caller's promise.
    let numbers = unsafe { &*numbers };
    // SAFETY: a lane's position is below the product of the extents.
    numbers.for_each(|lane, place| unsafe { to.add(lane).write(numbers.at(place)) });
}

/// Sets each byte that is not 0 to whether a comparison of two numbers holds in the lane, with
/// `outcomes` as [`outcomes`] gives them.
///
/// # Safety
/// `left` and `right` are readable and have the same extents, and `mask` is valid for as many
/// bytes as those say.
pub unsafe extern "C" fn compare(
    mask: *mut u8,
    left: *const LaneNumbers,
    right: *const LaneNumbers,
    outcomes: u64,
) {
    // SAFETY: the caller's promise.
    let (left, right) = unsafe { (&*left, &*right) };
    left.for_each(|lane, place| {
        let outcome = left.at(place).cmp(&right.at(place)) as i8 + 1;
        // SAFETY: a lane's position is below the product of the extents.
        unsafe { *mask.add(lane) &= (outcomes >> outcome) as u8 & 1 };
    });
}

/// For which outcomes a comparison holds: bit 0 for less, bit 1 for equal, bit 2 for greater.
pub fn outcomes(op: CompareOp) -> u64 {
    match op {
        CompareOp::Lt => 0b001,
        CompareOp::Eq => 0b010,
        CompareOp::Le => 0b011,
        CompareOp::Gt => 0b100,
        CompareOp::Ne => 0b101,
        CompareOp::Ge => 0b110,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_comparisons_in_the_order_of_lanes() {
        let extents = [2, 3, 2];
        let left = LaneNumbers { base: i64::MAX - 3, steps: [1, -2, 5], extents };
        let right = LaneNumbers { base: 7, steps: [0, i64::MIN, 0], extents };
        let number = |n: &LaneNumbers, lane: i64| {
            let place = [lane % 2, lane / 2 % 3, lane / 6];
            let sum = (0..3).map(|a| i128::from(n.steps[a]) * i128::from(place[a])).sum::<i128>();
            (sum + i128::from(n.base)) as i64
        };
        let mut written = [0i64; 12];
        // SAFETY: the extents say 12 elements.
        unsafe { write(written.as_mut_ptr(), &left) };
        assert_eq!(written.to_vec(), (0..12).map(|l| number(&left, l)).collect::<Vec<_>>());
        for (op, holds) in [
            (CompareOp::Eq, i64::eq as fn(&i64, &i64) -> bool),
            (CompareOp::Ne, i64::ne),
            (CompareOp::Lt, i64::lt),
            (CompareOp::Le, i64::le),
            (CompareOp::Gt, i64::gt),
            (CompareOp::Ge, i64::ge),
        ] {
            let mut mask: Vec<u8> = (0..12).map(|l| (l != 4) as u8).collect();
            // SAFETY: as above.
            unsafe { compare(mask.as_mut_ptr(), &left, &right, outcomes(op)) };
            let want = |l: i64| l != 4 && holds(&number(&left, l), &number(&right, l));
            assert_eq!(mask, (0..12).map(|l| want(l) as u8).collect::<Vec<_>>(), "{op:?}");
        }
    }
}
