//! The head of a kernel.

use super::{Parsed, Parser, Token};
use crate::kernel::{Facts, IntFact, Level, Param};
use crate::parse::lexer::Name;
use crate::types::{Scalar, Shape, Space, Type};
use smallvec::SmallVec;

impl Parser {
    pub(super) fn kernel(&mut self) -> Parsed<()> {
        while self.take_word("file") {
            let file = self.text("the file's name")?;
            self.kernel.files.push(file);
        }
        self.keyword("kernel")?;
        self.mark('@')?;
        self.kernel.name = match self.peek() {
            Token::Text(_) => self.text("a name")?,
            _ => self.word("the kernel's name")?,
        };
        self.mark('(')?;
        self.list_until(')', Self::param)?;
        self.kernel.level = self.level()?;
        if self.take_word("registers") {
            self.kernel.hints.registers = Some(self.integer("a number of registers")?);
        }
        if self.take_word("stages") {
            self.kernel.hints.stages = Some(self.integer("a number of stages")?);
        }
        if self.take_word("cluster") {
            self.kernel.cluster = self.integer("a number of blocks")?;
        }
        self.kernel.contract = self.take_word("contract");
        if self.take_word("scratch") {
            self.kernel.scratch_bytes = self.integer("a number of bytes")?;
        }
        self.block(self.kernel.body)?;
        if *self.peek() == Token::End { Ok(()) } else { self.expected("the end") }
    }

    fn level(&mut self) -> Parsed<Level> {
        if self.take_word("tile") {
            let warps = if self.take_word("warps") { Some(self.integer("a number of warps")?) } else { None };
            return Ok(Level::Tile { warps });
        }
        if self.take_word("thread") {
            let at = self.at;
            let Ok(block) = self.extents()?.try_into() else {
                return self.expected_at(at, "three extents");
            };
            return Ok(Level::Thread { block });
        }
        self.expected("`tile` or `thread`")
    }

    fn param(&mut self) -> Parsed<()> {
        let (name, at) = self.new_name()?;
        let Name::Text(text) = name.clone() else {
            return self.expected_at(at, "a parameter's name");
        };
        self.mark(':')?;
        let mutable = self.take_word("mut");
        let ty = self.ty()?;
        let facts = if self.take_mark('{') { self.facts()? } else { Facts::default() };
        let value = self.kernel.add_param(Param { name: text, ty, mutable, facts });
        self.bind((name, at), value)
    }

    fn facts(&mut self) -> Parsed<Facts> {
        let mut facts = Facts::default();
        self.list_until('}', |p| {
            let at = p.at;
            let fact = p.word("a fact")?;
            p.mark('=')?;
            match fact.as_str() {
                "align" => facts.align = p.integer("an alignment in bytes")?,
                "extents" => facts.extents = p.int_facts()?,
                "strides" => facts.strides = p.int_facts()?,
                "value" => facts.value = p.int_fact()?,
                "span" => {
                    p.keyword("i32")?;
                    facts.span_fits_i32 = true;
                }
                _ => return p.expected_at(at, "`align`, `extents`, `strides`, `span` or `value`"),
            }
            Ok(())
        })?;
        Ok(facts)
    }

    fn int_facts(&mut self) -> Parsed<SmallVec<[IntFact; 4]>> {
        self.mark('[')?;
        Ok(self.list_until(']', Self::int_fact)?.into())
    }

    fn int_fact(&mut self) -> Parsed<IntFact> {
        let mut fact = IntFact::default();
        loop {
            if self.take_mark('=') {
                fact.equals = Some(self.integer("an integer")?);
            } else if self.take_word("i32") {
                fact.fits_i32 = true;
            } else if !self.take_word("_") {
                fact.divisor = self.integer("a divisor, `i32`, `=` or `_`")?;
            }
            if !self.take_mark('|') {
                return Ok(fact);
            }
        }
    }

    pub(super) fn ty(&mut self) -> Parsed<Type> {
        if !self.take_word("view") {
            let elem = self.elem()?;
            let shape =
                if *self.peek() == Token::Mark('[') { Shape::new(&self.extents()?) } else { Shape::scalar() };
            return Ok(Type::tile(elem, shape));
        }
        self.mark('<')?;
        let elem = self.elem()?;
        self.mark(',')?;
        let rank = self.integer("a rank")?;
        self.mark(',')?;
        let space = self.space()?;
        self.mark('>')?;
        Ok(Type::view(elem, rank, space))
    }

    pub(super) fn elem(&mut self) -> Parsed<Scalar> {
        let at = self.at;
        match Scalar::from_name(&self.word("a type")?) {
            Some(elem) => Ok(elem),
            None => self.expected_at(at, "a type"),
        }
    }

    pub(super) fn space(&mut self) -> Parsed<Space> {
        let at = self.at;
        match Space::from_name(&self.word("a space")?) {
            Some(space) => Ok(space),
            None => self.expected_at(at, "`global`, `shared` or `local`"),
        }
    }
}
