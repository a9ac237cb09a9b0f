//! What is known of a function after some results.

use super::element::Measured;
use super::functions::Function;

/// How far from the middle between two numbers, in units in the last place, an exact value must be
/// for its f64 to tell the nearer one.
const UNDECIDED: f64 = 4.0 / (1u64 << 29) as f64;

/// A result that is told apart from others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extreme {
    /// Its distance from the exact value in units in the last place; infinite where one of the two
    /// is NaN, or a zero has the wrong sign.
    pub error: f64,
    /// The arguments.
    pub arguments: [f64; 2],
    /// The result.
    pub got: f64,
    /// The exact value, as the nearest f64.
    pub exact: f64,
}

/// What is known of a function after some results.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// The number of results at arguments that the function makes a promise for. All but
    /// `worst_outside` is about them.
    pub results: u64,
    /// How many are the number nearest to the exact value.
    pub nearest: u64,
    /// How many may be: the exact value is known too roughly to tell.
    pub undecided: u64,
    /// The largest error of finite arguments and results that are normal numbers or zero.
    pub worst: Option<Extreme>,
    /// The largest error where an argument or the exact result is subnormal.
    pub worst_subnormal: Option<Extreme>,
    /// The largest error at arguments that the function makes no promise for.
    pub worst_outside: Option<Extreme>,
    /// How many results are NaN and should not be, or are not and should, or are a zero of the
    /// wrong sign.
    pub wrong: u64,
    /// The first of these.
    pub first_wrong: Option<Extreme>,
}

impl Tally {
    /// What is known of a function after its results at these arguments.
    pub fn of<T: Measured>(function: &Function, arguments: &[[T; 2]], results: &[T]) -> Tally {
        let mut tally = Tally::default();
        for (&arguments, &got) in arguments.iter().zip(results) {
            let [x, y] = arguments.map(T::value);
            tally.add(arguments, got, (function.exact)(x, y), (function.promises)(x, y));
        }
        tally
    }

    /// Takes a result. `promised` says whether the function makes a promise for its arguments.
    #[inline]
    pub fn add<T: Measured>(&mut self, arguments: [T; 2], got: T, exact: f64, promised: bool) {
        let value = got.value();
        let extreme = |error| Extreme { error, arguments: arguments.map(T::value), got: value, exact };
        let both_nan = value.is_nan() && exact.is_nan();
        let one_nan = value.is_nan() != exact.is_nan();
        let error = match (both_nan, one_nan) {
            (true, _) => 0.0,
            (_, true) => f64::INFINITY,
            _ => got.distance(exact),
        };
        if !promised {
            self.worst_outside = Some(larger(self.worst_outside, extreme(error)));
            return;
        }
        self.results += 1;
        if both_nan {
            self.nearest += 1;
            return;
        }
        let zero_of_other_sign = || value == 0.0 && exact.is_sign_negative() != value.is_sign_negative();
        if one_nan || zero_of_other_sign() {
            return self.is_wrong(extreme(f64::INFINITY));
        }
        if (error - 0.5).abs() < UNDECIDED && T::DIGITS < 32 {
            self.undecided += 1;
        } else if error < 0.5 {
            self.nearest += 1;
        }
        let is_subnormal = T::is_subnormal(exact) || arguments.iter().any(|x| T::is_subnormal(x.value()));
        let worst = if is_subnormal { &mut self.worst_subnormal } else { &mut self.worst };
        if worst.is_none_or(|worst| error > worst.error) {
            *worst = Some(extreme(error));
        }
    }

    fn is_wrong(&mut self, extreme: Extreme) {
        self.wrong += 1;
        self.first_wrong.get_or_insert(extreme);
    }

    /// Takes what is known of later results.
    pub fn merge(&mut self, later: &Tally) {
        self.results += later.results;
        self.nearest += later.nearest;
        self.undecided += later.undecided;
        self.wrong += later.wrong;
        for (mine, other) in [
            (&mut self.worst, later.worst),
            (&mut self.worst_subnormal, later.worst_subnormal),
            (&mut self.worst_outside, later.worst_outside),
        ] {
            *mine = other.map(|other| larger(*mine, other)).or(*mine);
        }
        self.first_wrong = match (self.first_wrong, later.first_wrong) {
            (Some(a), Some(b)) if b.order() < a.order() => Some(b),
            (a, b) => a.or(b),
        };
    }

    /// The share of results that are the nearest number, of those that are decided.
    pub fn share(&self) -> f64 {
        self.nearest as f64 / (self.results - self.undecided).max(1) as f64
    }

    /// The largest error for which the function makes a promise.
    pub fn error(&self) -> f64 {
        let promised = [self.worst, self.worst_subnormal];
        promised.iter().flatten().map(|extreme| extreme.error).fold(0.0, f64::max)
    }
}

impl Extreme {
    /// An order of results that does not depend on the order in which they came.
    fn order(&self) -> [u64; 2] {
        self.arguments.map(f64::to_bits)
    }
}

fn larger(known: Option<Extreme>, other: Extreme) -> Extreme {
    let keeps = |known: &Extreme| {
        known.error > other.error || known.error == other.error && known.order() <= other.order()
    };
    known.filter(keeps).unwrap_or(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_sorted_by_what_is_wrong_with_them() {
        let mut tally = Tally::default();
        let mut add = |x: f32, got: f32, exact: f64| tally.add([x; 2], got, exact, true);
        add(1.0, 1.0, 1.0);
        add(2.0, f32::from_bits(1.0f32.to_bits() + 3), 1.0);
        add(3.0, f32::NAN, 1.0);
        add(4.0, 0.0, -0.0);
        add(5.0, f32::NAN, f64::NAN);
        add(6.0, 1.0, 1.0 + f64::from(f32::EPSILON) / 2.0);
        add(1e-40, 1e-30, 1e-30);
        tally.add([7.0f32; 2], 9.0, 1.0, false);
        assert_eq!((tally.results, tally.nearest, tally.undecided, tally.wrong), (7, 3, 1, 2));
        assert_eq!(tally.worst.map(|worst| (worst.error, worst.arguments[0])), Some((3.0, 2.0)));
        assert_eq!(tally.first_wrong.map(|wrong| wrong.arguments[0]), Some(3.0));
        assert!(tally.worst_subnormal.is_some_and(|worst| worst.error < 0.5));
        assert_eq!(tally.worst_outside.map(|worst| worst.got), Some(9.0));
        assert_eq!(tally.error(), 3.0);
    }
}
