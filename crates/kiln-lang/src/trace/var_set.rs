//! A set of variables: a bit for each, since they are numbered from 0 on.

use super::item::Var;

const BITS: usize = u64::BITS as usize;

/// A set of variables, which are iterated over by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct VarSet {
    words: Vec<u64>,
}

impl VarSet {
    fn bit(var: Var) -> (usize, u64) {
        (var.0 as usize / BITS, 1 << (var.0 as usize % BITS))
    }

    /// Adds a variable.
    pub fn insert(&mut self, var: Var) {
        let (word, bit) = VarSet::bit(var);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// Removes a variable; returns whether it was in the set.
    pub fn remove(&mut self, var: Var) -> bool {
        let (word, bit) = VarSet::bit(var);
        let Some(word) = self.words.get_mut(word) else { return false };
        let had = *word & bit != 0;
        *word &= !bit;
        had
    }

    /// Adds all variables of another set; returns whether any was new.
    pub fn union(&mut self, other: &VarSet) -> bool {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        let mut grew = false;
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            grew |= *more & !*word != 0;
            *word |= more;
        }
        grew
    }

    /// Removes the variables for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(Var) -> bool) {
        let gone: Vec<Var> = self.iter().filter(|var| !keep(*var)).collect();
        for var in gone {
            self.remove(var);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The variables that are in another set too.
    pub fn and<'a>(&'a self, other: &'a VarSet) -> impl Iterator<Item = Var> + 'a {
        Self::each(self.words.iter().zip(&other.words).map(|(a, b)| a & b))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Var> + '_ {
        Self::each(self.words.iter().copied())
    }

    fn each(words: impl Iterator<Item = u64>) -> impl Iterator<Item = Var> {
        words.enumerate().flat_map(|(at, word)| {
            std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)))
                .take_while(|word| *word != 0)
                .map(move |word| Var((at * BITS) as u32 + word.trailing_zeros()))
        })
    }
}

impl FromIterator<Var> for VarSet {
    fn from_iter<I: IntoIterator<Item = Var>>(vars: I) -> VarSet {
        let mut set = VarSet::default();
        vars.into_iter().for_each(|var| set.insert(var));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u32]) -> VarSet {
        numbers.iter().map(|&number| Var(number)).collect()
    }

    fn numbers(set: impl Iterator<Item = Var>) -> Vec<u32> {
        set.map(|var| var.0).collect()
    }

    #[test]
    fn what_a_set_holds() {
        let mut a = set(&[200, 3, 63, 64, 3]);
        assert_eq!(numbers(a.iter()), [3, 63, 64, 200]);
        assert!(a.remove(Var(64)) && !a.remove(Var(64)) && !a.remove(Var(100_000)));
        assert_eq!(numbers(a.and(&set(&[3, 64, 200, 900]))), [3, 200]);
        assert!(a.union(&set(&[1000])) && !a.union(&set(&[3, 1000])) && !set(&[]).union(&set(&[])));
        a.retain(|var| var.0 > 63);
        assert_eq!(numbers(a.iter()), [200, 1000]);
        a.retain(|_| false);
        assert!(a.is_empty() && set(&[]).is_empty() && !set(&[0]).is_empty());
    }
}
