//! Tokens of a text: its bytes, or pairs of these that occur often (byte-pair encoding, Sennrich
//! and others, "Neural Machine Translation of Rare Words with Subword Units", 2016).

use std::collections::{BTreeMap, HashMap};

/// A token of each byte comes first.
const BYTES: u32 = 256;

/// Which tokens there are: the bytes, and pairs of tokens in the order in which they were learned.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    pairs: Vec<(u32, u32)>,
    of_pair: HashMap<(u32, u32), u32>,
}

impl Tokens {
    /// The bytes alone.
    pub fn bytes() -> Tokens {
        Tokens::default()
    }

    /// The bytes and up to `count` pairs: each time the one that is most often in the text.
    pub fn learned(text: &str, count: usize) -> Tokens {
        let mut tokens = Tokens::default();
        let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
        pieces(text.as_bytes()).for_each(|piece| *counts.entry(piece).or_default() += 1);
        let mut words: Vec<(Vec<u32>, usize)> = counts
            .into_iter()
            .map(|(word, count)| (word.iter().map(|&b| b.into()).collect(), count))
            .collect();
        for _ in 0..count {
            let mut often: BTreeMap<(u32, u32), usize> = BTreeMap::new();
            for (word, count) in &words {
                word.windows(2).for_each(|two| *often.entry((two[0], two[1])).or_default() += count);
            }
            // Of several the first one, so that equal texts give equal tokens.
            let best = often.into_iter().max_by_key(|&(pair, count)| (count, std::cmp::Reverse(pair)));
            let Some((pair, 2..)) = best else { break };
            let token = tokens.count() as u32;
            words.iter_mut().for_each(|(word, _)| merge(word, pair, token));
            tokens.pairs.push(pair);
            tokens.of_pair.insert(pair, token);
        }
        tokens
    }

    /// The number of tokens that there are.
    pub fn count(&self) -> usize {
        BYTES as usize + self.pairs.len()
    }

    /// The tokens of a text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut known: HashMap<&[u8], Vec<u32>> = HashMap::new();
        let mut all = Vec::new();
        for piece in pieces(text.as_bytes()) {
            all.extend_from_slice(known.entry(piece).or_insert_with(|| self.encode_piece(piece)));
        }
        all
    }

    fn encode_piece(&self, piece: &[u8]) -> Vec<u32> {
        let mut word: Vec<u32> = piece.iter().map(|&byte| byte.into()).collect();
        // Pairs that were learned first are merged first.
        let next = |word: &[u32]| {
            word.windows(2).filter_map(|two| self.of_pair.get(&(two[0], two[1])).copied()).min()
        };
        while let Some(token) = next(&word) {
            merge(&mut word, self.pairs[(token - BYTES) as usize], token);
        }
        word
    }

    /// The text of tokens. What is no UTF-8 becomes U+FFFD, and a number of no token nothing.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut bytes = Vec::new();
        let mut pending: Vec<u32> = tokens.iter().rev().copied().collect();
        while let Some(token) = pending.pop() {
            match u8::try_from(token) {
                Ok(byte) => bytes.push(byte),
                Err(_) => {
                    let pair = self.pairs.get((token - BYTES) as usize);
                    pending.extend(pair.into_iter().flat_map(|&(first, second)| [second, first]));
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The parts of a text within which tokens are merged: words with the space before them, and single
/// other bytes.
fn pieces(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let space = usize::from(first == b' ');
        let letters =
            rest[space..].iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte >= 128).count();
        let (piece, after) = rest.split_at(if letters == 0 { 1 } else { space + letters });
        rest = after;
        Some(piece)
    })
}

/// Puts a token in the place of each pair.
fn merge(word: &mut Vec<u32>, pair: (u32, u32), token: u32) {
    let mut at = 0;
    while at + 1 < word.len() {
        if (word[at], word[at + 1]) == pair {
            word[at] = token;
            word.remove(at + 1);
        }
        at += 1;
    }
}
