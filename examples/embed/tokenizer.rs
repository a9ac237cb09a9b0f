//! Texts as WordPiece tokens, as uncased BERT models have them (Devlin and others, "BERT", 2019).

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// Words of more characters are unknown.
const LONGEST_WORD: usize = 100;

pub struct Tokenizer {
    numbers: HashMap<String, i32>,
    unknown: i32,
    begin: i32,
    end: i32,
}

impl Tokenizer {
    /// Reads a vocabulary: a token a line, by number.
    pub fn load(path: &Path) -> Result<Tokenizer, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let numbers: HashMap<String, i32> = text.lines().map(str::to_owned).zip(0..).collect();
        let number = |token: &str| {
            let lacks = || format!("{}: there is no token {token}", path.display());
            numbers.get(token).copied().ok_or_else(lacks)
        };
        let [unknown, begin, end] = [number("[UNK]")?, number("[CLS]")?, number("[SEP]")?];
        Ok(Tokenizer { numbers, unknown, begin, end })
    }

    /// The tokens of a text, `most` with those that mark its begin and end: what comes then is left
    /// out.
    pub fn tokens(&self, text: &str, most: usize) -> Vec<i32> {
        let mut tokens = vec![self.begin];
        for word in words(text) {
            self.push_word(&word, &mut tokens);
        }
        tokens.truncate(most.saturating_sub(1));
        tokens.push(self.end);
        tokens
    }

    /// The longest token that a word begins with, then the longest that the rest continues with,
    /// and so on; or that of unknown words.
    fn push_word(&self, word: &str, tokens: &mut Vec<i32>) {
        let known = tokens.len();
        let mut begin = 0;
        while begin < word.len() && word.chars().count() <= LONGEST_WORD {
            let mark = if begin > 0 { "##" } else { "" };
            let ends = word.char_indices().map(|(at, c)| at + c.len_utf8()).filter(|&end| end > begin);
            let longest = ends
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .find_map(|end| Some((end, *self.numbers.get(&format!("{mark}{}", &word[begin..end]))?)));
            let Some((end, number)) = longest else { break };
            tokens.push(number);
            begin = end;
        }
        if begin < word.len() {
            tokens.truncate(known);
            tokens.push(self.unknown);
        }
    }
}

/// The words of a text in lower case without accents and control characters; each punctuation mark
/// and each Chinese character is one.
fn words(text: &str) -> Vec<String> {
    let shown = text.chars().filter(|&c| is_space(c) || !is_control(c));
    let plain = shown.nfd().filter(|c| c.general_category() != GeneralCategory::NonspacingMark);
    let mut words = vec![String::new()];
    for c in plain.flat_map(char::to_lowercase) {
        if is_space(c) {
            words.push(String::new());
        } else if is_word_by_itself(c) {
            words.extend([c.to_string(), String::new()]);
        } else if let Some(last) = words.last_mut() {
            last.push(c);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_space(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r') || c.general_category_group() == GeneralCategoryGroup::Separator
}

fn is_control(c: char) -> bool {
    c == char::REPLACEMENT_CHARACTER || c.general_category_group() == GeneralCategoryGroup::Other
}

/// Punctuation, and Chinese characters, between which there are no spaces.
fn is_word_by_itself(c: char) -> bool {
    let chinese = [
        '\u{4e00}'..='\u{9fff}',
        '\u{3400}'..='\u{4dbf}',
        '\u{20000}'..='\u{2ceaf}',
        '\u{f900}'..='\u{faff}',
        '\u{2f800}'..='\u{2fa1f}',
    ];
    c.is_ascii_punctuation()
        || c.general_category_group() == GeneralCategoryGroup::Punctuation
        || chinese.iter().any(|range| range.contains(&c))
}
