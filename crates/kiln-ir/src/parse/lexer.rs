//! Text into tokens.

use super::ParseError;
use std::fmt;

/// What a value is called: results are numbered, parameters named.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Name {
    Number(u32),
    Text(String),
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// `%0`, `%x`, `%"odd name"`.
    Value(Name),
    /// `kernel`, `reduce.sum`: a letter or `_`, then letters, digits, `_` and `.`.
    Word(String),
    /// `16`, `-1.5e-3`, `0x7fc0`, `-inf`: uninterpreted.
    Number(String),
    /// `"text"`, unescaped.
    Text(String),
    /// `->`.
    Arrow,
    /// Any other character of the grammar.
    Mark(char),
    /// The end of the text.
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Value(Name::Number(n)) => write!(f, "`%{n}`"),
            Token::Value(Name::Text(text)) => write!(f, "`%{text}`"),
            Token::Word(text) | Token::Number(text) => write!(f, "`{text}`"),
            Token::Text(text) => write!(f, "{text:?}"),
            Token::Arrow => f.write_str("`->`"),
            Token::Mark(mark) => write!(f, "`{mark}`"),
            Token::End => f.write_str("the end"),
        }
    }
}

/// A token and where it begins, from line 1 and column 1.
#[derive(Clone, Debug)]
pub(super) struct Spanned {
    pub(super) token: Token,
    pub(super) line: u32,
    pub(super) column: u32,
}

struct Lexer<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    line: u32,
    column: u32,
}

pub(super) fn tokens(text: &str) -> Result<Vec<Spanned>, ParseError> {
    let mut lexer = Lexer { rest: text.chars().peekable(), line: 1, column: 1 };
    let mut all = Vec::new();
    loop {
        lexer.skip_blank();
        let (line, column) = (lexer.line, lexer.column);
        let token = lexer.token().map_err(|(expected, found)| ParseError {
            line,
            column,
            expected: expected.into(),
            found,
        })?;
        let end = token == Token::End;
        all.push(Spanned { token, line, column });
        if end {
            return Ok(all);
        }
    }
}

/// What was expected and found.
type Mismatch = (&'static str, String);

impl Lexer<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(c)
    }

    /// White space and comments, which go from `;` to the end of the line.
    fn skip_blank(&mut self) {
        while let Some(c) = self.peek() {
            if c == ';' {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.next();
                }
            } else if c.is_whitespace() {
                self.next();
            } else {
                return;
            }
        }
    }

    fn token(&mut self) -> Result<Token, Mismatch> {
        let Some(c) = self.peek() else { return Ok(Token::End) };
        match c {
            '%' => {
                self.next();
                self.name().map(Token::Value)
            }
            '"' => self.text().map(Token::Text),
            '-' => {
                self.next();
                if self.peek() == Some('>') {
                    self.next();
                    return Ok(Token::Arrow);
                }
                Ok(Token::Number(self.number(String::from('-'))))
            }
            c if c.is_ascii_digit() => Ok(Token::Number(self.number(String::new()))),
            c if is_word_start(c) => Ok(Token::Word(self.word())),
            '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | ',' | ':' | '=' | '@' | '|' => {
                self.next();
                Ok(Token::Mark(c))
            }
            other => Err(("a token", format!("`{other}`"))),
        }
    }

    fn name(&mut self) -> Result<Name, Mismatch> {
        let expected = "a value's number or name after `%`";
        match self.peek() {
            Some('"') => self.text().map(Name::Text),
            Some(c) if is_word_start(c) => Ok(Name::Text(self.word())),
            Some(c) if c.is_ascii_digit() => {
                let digits = self.number(String::new());
                digits.parse().map(Name::Number).map_err(|_| (expected, format!("`{digits}`")))
            }
            Some(c) => Err((expected, format!("`{c}`"))),
            None => Err((expected, "the end".into())),
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek().filter(|&c| c.is_ascii_alphanumeric() || c == '_' || c == '.') {
            word.push(c);
            self.next();
        }
        word
    }

    /// Digits, letters and dots, and a sign behind the `e` of a decimal exponent.
    fn number(&mut self, mut number: String) -> String {
        while let Some(c) = self.peek() {
            let exponent = number.ends_with(['e', 'E']) && !number.contains('x') && !number.ends_with("-e");
            if !(c.is_ascii_alphanumeric() || c == '.' || exponent && (c == '-' || c == '+')) {
                break;
            }
            number.push(c);
            self.next();
        }
        number
    }

    /// A string with the escapes that `{:?}` writes.
    fn text(&mut self) -> Result<String, Mismatch> {
        const CLOSED: &str = "a closing `\"`";
        self.next();
        let mut text = String::new();
        loop {
            match self.next().ok_or((CLOSED, "the end".to_string()))? {
                '"' => return Ok(text),
                '\\' => text.push(self.escape()?),
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Mismatch> {
        const ESCAPE: &str = "an escape sequence of Rust";
        let escape = self.next().ok_or((ESCAPE, "the end".to_string()))?;
        match escape {
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            '0' => Ok('\0'),
            '"' | '\\' | '\'' => Ok(escape),
            'u' => {
                let mut digits = String::new();
                while let Some(c) = self.next().filter(|&c| c != '}') {
                    digits.push(c);
                }
                let code = u32::from_str_radix(digits.trim_start_matches('{'), 16).ok();
                code.and_then(char::from_u32).ok_or((ESCAPE, format!("`\\u{digits}}}`")))
            }
            other => Err((ESCAPE, format!("`\\{other}`"))),
        }
    }
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}
