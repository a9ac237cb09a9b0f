//! The configurations that are to be tried.

/// A list of configurations: an array, a `Vec`, or a tuple of two to four of those, of which every
/// combination is meant.
///
/// ```
/// use kiln_runtime::tune::Space;
///
/// assert_eq!(([64, 128], [true, false]).configs(), [(64, true), (64, false), (128, true), (128, false)]);
/// let powers: Vec<usize> = (4..7).map(|n| 1 << n).collect();
/// assert_eq!(powers.configs(), [16, 32, 64]);
/// ```
pub trait Space {
    /// One configuration.
    type Config;

    /// All of them. Where nothing is measured the first is taken.
    fn configs(self) -> Vec<Self::Config>;
}

impl<T, const N: usize> Space for [T; N] {
    type Config = T;

    fn configs(self) -> Vec<T> {
        self.into()
    }
}

impl<T> Space for Vec<T> {
    type Config = T;

    fn configs(self) -> Vec<T> {
        self
    }
}

/// Each of `left` with each of `right`.
fn pairs<A: Clone, B: Clone>(left: Vec<A>, right: &[B]) -> Vec<(A, B)> {
    left.into_iter().flat_map(|a| right.iter().map(move |b| (a.clone(), b.clone()))).collect()
}

impl<A: Space, B: Space> Space for (A, B)
where
    A::Config: Clone,
    B::Config: Clone,
{
    type Config = (A::Config, B::Config);

    fn configs(self) -> Vec<Self::Config> {
        pairs(self.0.configs(), &self.1.configs())
    }
}

impl<A: Space, B: Space, C: Space> Space for (A, B, C)
where
    A::Config: Clone,
    B::Config: Clone,
    C::Config: Clone,
{
    type Config = (A::Config, B::Config, C::Config);

    fn configs(self) -> Vec<Self::Config> {
        let all = pairs((self.0, self.1).configs(), &self.2.configs());
        all.into_iter().map(|((a, b), c)| (a, b, c)).collect()
    }
}

impl<A: Space, B: Space, C: Space, D: Space> Space for (A, B, C, D)
where
    A::Config: Clone,
    B::Config: Clone,
    C::Config: Clone,
    D::Config: Clone,
{
    type Config = (A::Config, B::Config, C::Config, D::Config);

    fn configs(self) -> Vec<Self::Config> {
        let all = pairs((self.0, self.1, self.2).configs(), &self.3.configs());
        all.into_iter().map(|((a, b, c), d)| (a, b, c, d)).collect()
    }
}

/// An extent as a class of shapes has it: up to 16 as it is, else rounded up to a power of two or
/// to a quarter, a half or three quarters of the way to the next. For [keys](crate::Tune::run).
///
/// ```
/// use kiln_runtime::tune::extent_class;
/// assert_eq!([7, 1000, 1024, 1025].map(extent_class), [7, 1024, 1024, 1280]);
/// ```
pub fn extent_class(extent: usize) -> usize {
    if extent <= 16 {
        return extent;
    }
    let step = 1 << ((extent - 1).ilog2() - 2);
    extent.checked_next_multiple_of(step).unwrap_or(extent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_quarters_of_octaves() {
        for (extent, expected) in [
            (0, 0),
            (1, 1),
            (16, 16),
            (17, 20),
            (20, 20),
            (21, 24),
            (32, 32),
            (33, 40),
            (4096, 4096),
            (4097, 5120),
        ] {
            assert_eq!(extent_class(extent), expected, "{extent}");
        }
        for extent in 17..5000 {
            let rounded = extent_class(extent);
            assert!(rounded >= extent && rounded < extent + extent.div_ceil(4));
            assert_eq!(extent_class(rounded), rounded);
        }
        assert_eq!(extent_class(usize::MAX), usize::MAX);
    }

    #[test]
    fn combinations_are_in_the_order_of_the_lists() {
        let all = ([1, 2], vec!['a'], [false, true], [0u8; 1]).configs();
        assert_eq!(all, [(1, 'a', false, 0), (1, 'a', true, 0), (2, 'a', false, 0), (2, 'a', true, 0)]);
        assert_eq!(([1, 2, 3], [0u8; 0]).configs(), []);
    }
}
