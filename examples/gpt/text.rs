//! The text: what is trained on, and what is held back for the validation.

use crate::pairs::Tokens;
use kiln::Device;
use kiln::array::Array;
use kiln::array::nn::Key;

/// The tokens of a text in two parts.
pub struct Text {
    pub tokens: Tokens,
    train: Vec<i32>,
    validation: Vec<i32>,
}

impl Text {
    /// The tokens of a text, whose last tenth is held back. Each part has more than `length`
    /// tokens.
    pub fn new(text: &str, tokens: Tokens, length: usize) -> Result<Text, String> {
        let all: Vec<i32> = tokens.encode(text).into_iter().map(|token| token as i32).collect();
        let (train, validation) = all.split_at(all.len() - all.len() / 10);
        if validation.len() <= length {
            return Err(format!(
                "a text of {} tokens is too short for sequences of {length}: there must be {} at least",
                all.len(),
                10 * (length + 1)
            ));
        }
        Ok(Text { tokens, train: train.into(), validation: validation.into() })
    }

    /// The number of tokens that are trained on.
    pub fn len(&self) -> usize {
        self.train.len()
    }

    /// Sequences at random places, and the tokens that follow each of theirs: `[batch, length]`.
    pub fn batch(&self, device: &Device, key: Key, batch: usize, length: usize) -> [Array; 2] {
        let at = (0..batch).map(|row| key.fold(row as u64).index(self.train.len() - length));
        rows(device, &self.train, at, length)
    }

    /// Sequences of the part that is held back, evenly over it: `batches` of them.
    pub fn validation(
        &self,
        device: &Device,
        batches: usize,
        batch: usize,
        length: usize,
    ) -> Vec<[Array; 2]> {
        let (room, count) = (self.validation.len() - length, batches * batch);
        let of = |number: usize| {
            let at = (number * batch..(number + 1) * batch).map(|row| row * room / count);
            rows(device, &self.validation, at, length)
        };
        (0..batches).map(of).collect()
    }
}

fn rows(
    device: &Device,
    tokens: &[i32],
    at: impl Iterator<Item = usize> + Clone,
    length: usize,
) -> [Array; 2] {
    [0, 1].map(|shift| {
        let rows: Vec<i32> =
            at.clone().flat_map(|at| &tokens[at + shift..at + shift + length]).copied().collect();
        let count = rows.len() / length.max(1);
        Array::new(device, &rows, &[count, length])
    })
}
