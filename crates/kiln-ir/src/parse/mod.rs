//! The text format, read. The grammar stands in `print.rs`.
//!
//! | file | reads |
//! |---|---|
//! | `lexer.rs` | characters into tokens |
//! | `header.rs` | the head of a kernel: level, parameters, facts, types |
//! | `operation.rs` | operations and their regions |
//! | `linear.rs` | accesses at a linear index |
//! | `ordered.rs` | ordered accesses |
//!
//! The parser requires every result type and infers nothing, so that text can hold kernels that the
//! verifier refuses.

mod header;
mod lexer;
mod linear;
mod operation;
mod ordered;

use crate::kernel::{Block, Kernel, Level, Value};
use crate::types::Type;
use lexer::{Name, Spanned, Token};
use rustc_hash::FxHashMap;

/// Where text stops being a kernel.
///
/// ```
/// use kiln_ir::ParseError;
/// let error: ParseError = kiln_ir::parse("kernel @k() tile {\n  %0 = const 1 : i63\n}").unwrap_err();
/// assert_eq!((error.line, error.column, &error.found[..]), (2, 18, "`i63`"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// What would have been right.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

/// Reads a kernel from the text that its `Display` writes. From `;` to the end of a line is
/// comment.
///
/// The result need not be well-formed: see [`verify`](crate::verify).
///
/// ```
/// let text = "kernel @k(%n: i64) tile {\n  %0 = const 2 : i64\n  %1 = mul %n, %0 : i64\n}\n";
/// let kernel = kiln_ir::parse(text)?;
/// assert_eq!(kernel.to_string(), text);
/// let error = kiln_ir::parse("kernel @k() tile {\n  %1 = mul %n : i64\n}").unwrap_err();
/// assert_eq!(error.to_string(), "line 2, column 12: expected a value that is defined above, found `%n`");
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
///
/// # Errors
/// The first place where the text departs from the grammar.
pub fn parse(text: &str) -> Result<Kernel, ParseError> {
    let tokens = lexer::tokens(text)?;
    let kernel = Kernel::new("", Level::Tile { warps: None });
    let mut parser = Parser { tokens, at: 0, kernel, names: FxHashMap::default(), depth: 0 };
    parser.kernel()?;
    Ok(parser.kernel)
}

struct Parser {
    /// Ends in `Token::End`.
    tokens: Vec<Spanned>,
    at: usize,
    kernel: Kernel,
    names: FxHashMap<Name, Value>,
    /// How many regions the cursor stands in.
    depth: usize,
}

type Parsed<T> = Result<T, ParseError>;

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        if token != Token::End {
            self.at += 1;
        }
        token
    }

    /// The error that the token at the cursor is not what was expected.
    fn expected<T>(&self, what: impl Into<String>) -> Parsed<T> {
        self.expected_at(self.at, what)
    }

    fn expected_at<T>(&self, at: usize, what: impl Into<String>) -> Parsed<T> {
        let Spanned { token, line, column } = &self.tokens[at];
        Err(ParseError { line: *line, column: *column, expected: what.into(), found: token.to_string() })
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        if found {
            self.advance();
        }
        found
    }

    fn take_mark(&mut self, mark: char) -> bool {
        self.take(&Token::Mark(mark))
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(w) if w == word);
        if found {
            self.advance();
        }
        found
    }

    fn mark(&mut self, mark: char) -> Parsed<()> {
        if self.take_mark(mark) { Ok(()) } else { self.expected(format!("`{mark}`")) }
    }

    fn keyword(&mut self, word: &str) -> Parsed<()> {
        if self.take_word(word) { Ok(()) } else { self.expected(format!("`{word}`")) }
    }

    fn word(&mut self, what: &str) -> Parsed<String> {
        match self.peek().clone() {
            Token::Word(word) => {
                self.advance();
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    fn integer<T: std::str::FromStr>(&mut self, what: &str) -> Parsed<T> {
        let parsed = match self.peek() {
            Token::Number(digits) => digits.parse().ok(),
            _ => None,
        };
        match parsed {
            Some(number) => {
                self.advance();
                Ok(number)
            }
            None => self.expected(what),
        }
    }

    fn text(&mut self, what: &str) -> Parsed<String> {
        match self.peek().clone() {
            Token::Text(text) => {
                self.advance();
                Ok(text)
            }
            _ => self.expected(what),
        }
    }

    /// `item, item, …`, at least one.
    fn separated<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut all = vec![item(self)?];
        while self.take_mark(',') {
            all.push(item(self)?);
        }
        Ok(all)
    }

    /// `item, item, …` up to a closing mark, which is taken; may be empty.
    fn list_until<T>(&mut self, close: char, item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        if self.take_mark(close) {
            return Ok(Vec::new());
        }
        let all = self.separated(item)?;
        self.mark(close)?;
        Ok(all)
    }

    /// `[int, int, …]`.
    fn extents(&mut self) -> Parsed<Vec<u32>> {
        self.mark('[')?;
        self.list_until(']', |p| p.integer("an extent"))
    }

    /// A value that is defined above.
    fn value(&mut self) -> Parsed<Value> {
        let found = match self.peek() {
            Token::Value(name) => self.names.get(name).copied(),
            _ => return self.expected("a value"),
        };
        match found {
            Some(value) => {
                self.advance();
                Ok(value)
            }
            None => self.expected("a value that is defined above"),
        }
    }

    /// A name that a value is about to get, and where it stands.
    fn new_name(&mut self) -> Parsed<(Name, usize)> {
        match self.peek().clone() {
            Token::Value(name) => {
                self.advance();
                Ok((name, self.at - 1))
            }
            _ => self.expected("a new value"),
        }
    }

    fn bind(&mut self, (name, at): (Name, usize), value: Value) -> Parsed<()> {
        match self.names.insert(name, value) {
            None => Ok(()),
            Some(_) => self.expected_at(at, "a value that is not defined twice"),
        }
    }

    fn bind_arg(&mut self, name: (Name, usize), block: Block, ty: Type) -> Parsed<()> {
        let arg = self.kernel.add_arg(block, ty);
        self.bind(name, arg)
    }
}
