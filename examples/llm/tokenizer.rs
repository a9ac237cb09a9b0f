//! Text to tokens and back: byte-level byte-pair encoding (Sennrich, Haddow and Birch, 2016;
//! Radford et al., 2019), with the tokens and merges of a GGUF file.
//!
//! A text is cut into words by a pattern. The bytes of a word are its first tokens, of which the
//! pair that stands first in the list of merges becomes one, until no pair is in the list.

use kiln_files::Gguf;
use kiln_files::gguf::{Array, Value};
use regress::Regex;
use std::collections::HashMap;
use std::error::Error;

/// GPT-2's words; a digit is a word of its own before these are looked for.
const WORDS: &str = concat!(
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+",
    r"|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+"
);
/// What a file says of a token that is no text, such as the end of an answer.
const CONTROL: i32 = 3;

/// The tokens of a model.
pub struct Tokenizer {
    /// What each stands for.
    tokens: Vec<Vec<u8>>,
    /// The token of each byte, if there is one.
    of_byte: [Option<u32>; 256],
    /// Of two neighbors: their place in the list, and what they become.
    merges: HashMap<(u32, u32), (usize, u32)>,
    control: Vec<(String, u32)>,
    words: Regex,
    end: u32,
}

impl Tokenizer {
    /// The tokenizer of a model.
    ///
    /// # Errors
    /// If the file has none, or one of another kind, which is named.
    pub fn of(file: &Gguf) -> Result<Tokenizer, Box<dyn Error>> {
        let (model, words) = (file.text("tokenizer.ggml.model")?, file.text("tokenizer.ggml.pre")?);
        if (model, words) != ("gpt2", "smollm") {
            let path = file.path().display();
            return Err(format!(
                "{path} has a tokenizer `{model}` with words of `{words}`; only `gpt2` with `smollm` is known here"
            )
            .into());
        }
        let names = file.texts("tokenizer.ggml.tokens")?;
        let ids: HashMap<&str, u32> = names.iter().zip(0..).map(|(name, id)| (name.as_str(), id)).collect();
        let letters = letters();
        let byte_of: HashMap<char, u8> =
            letters.iter().zip(0..=255).map(|(&letter, byte)| (letter, byte)).collect();
        let bytes = |name: &String| -> Option<Vec<u8>> {
            name.chars().map(|letter| byte_of.get(&letter).copied()).collect()
        };
        // A token with other letters stands for its name.
        let tokens =
            names.iter().map(|name| bytes(name).unwrap_or_else(|| name.clone().into_bytes())).collect();

        let mut merges = HashMap::new();
        for (place, merge) in file.texts("tokenizer.ggml.merges")?.iter().enumerate() {
            let parts = merge.split_once(' ').and_then(|(left, right)| {
                Some((*ids.get(left)?, *ids.get(right)?, *ids.get(format!("{left}{right}").as_str())?))
            });
            let Some((left, right, whole)) = parts else {
                return Err(
                    format!("{}: merge {place}, `{merge}`, is of no tokens", file.path().display()).into()
                );
            };
            merges.entry((left, right)).or_insert((place, whole));
        }
        let control = match file.value("tokenizer.ggml.token_type") {
            Some(Value::Array(Array::I32(kinds))) => {
                let control = names.iter().zip(kinds).zip(0..).filter(|((_, kind), _)| **kind == CONTROL);
                control.map(|((name, _), id)| (name.clone(), id)).collect()
            }
            _ => Vec::new(),
        };
        let of_byte = std::array::from_fn(|byte| ids.get(letters[byte].to_string().as_str()).copied());
        let end = u32::try_from(file.unsigned("tokenizer.ggml.eos_token_id")?)?;
        Ok(Tokenizer { tokens, of_byte, merges, control, words: Regex::with_flags(WORDS, "u")?, end })
    }

    /// The token that ends an answer.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// What a token stands for: part of a text in UTF-8.
    pub fn bytes(&self, token: u32) -> &[u8] {
        self.tokens.get(token as usize).map_or(&[], Vec::as_slice)
    }

    /// The tokens of a text. Names of control tokens in it are text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        for piece in digits_apart(text) {
            for word in self.words.find_iter(piece) {
                self.merge(&piece[word.range()], &mut tokens);
            }
        }
        tokens
    }

    /// The tokens of a text, in which the names of control tokens stand for them.
    pub fn encode_with_control(&self, mut text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        // The first name in the text; of two that begin there, the longer.
        while let Some((at, name, token)) = self
            .control
            .iter()
            .filter_map(|(name, token)| Some((text.find(name)?, name, *token)))
            .min_by_key(|&(at, name, _)| (at, std::cmp::Reverse(name.len())))
        {
            tokens.extend(self.encode(&text[..at]));
            tokens.push(token);
            text = &text[at + name.len()..];
        }
        tokens.extend(self.encode(text));
        tokens
    }

    /// Appends the tokens of a word. A byte that has no token is left out.
    fn merge(&self, word: &str, tokens: &mut Vec<u32>) {
        let first = tokens.len();
        tokens.extend(word.bytes().filter_map(|byte| self.of_byte[usize::from(byte)]));
        while let Some((place, whole)) = self.best_pair(&tokens[first..]) {
            tokens[first + place] = whole;
            tokens.remove(first + place + 1);
        }
    }

    /// The pair of a word that is merged next, by the place of its first token.
    fn best_pair(&self, word: &[u32]) -> Option<(usize, u32)> {
        let pairs = word.windows(2).enumerate();
        let known = pairs.filter_map(|(at, pair)| self.merges.get(&(pair[0], pair[1])).map(|&m| (m, at)));
        known.min().map(|((_, whole), at)| (at, whole))
    }
}

/// A text cut before and after each digit, of any script.
fn digits_apart(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_numeric).flat_map(|piece| {
        let last = piece.char_indices().next_back().filter(|(_, letter)| letter.is_numeric());
        let (before, digit) = piece.split_at(last.map_or(piece.len(), |(at, _)| at));
        [before, digit].into_iter().filter(|part| !part.is_empty())
    })
}

/// The letter of each byte in the names of tokens: itself where it is printed, else one from 256
/// on.
fn letters() -> [char; 256] {
    let mut others = 256..;
    std::array::from_fn(|byte| {
        let printed = matches!(byte, 33..=126 | 161..=172 | 174..=255);
        let code = if printed { byte as u32 } else { others.next().unwrap_or(0) };
        char::from_u32(code).unwrap_or_default()
    })
}
