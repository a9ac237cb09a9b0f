//! Operations and their regions.

use super::{ParseError, Parsed, Parser, Token};
use crate::async_copy::AsyncCopyOp;
use crate::cluster::ClusterOp;
use crate::explicit::ExplicitOp;
use crate::fragment::FragmentOp;
use crate::kernel::{Block, Loc, Value};
use crate::literal::Literal;
use crate::op::*;
use crate::parse::lexer::Name;
use crate::types::{Scalar, Shape, Space, Type};
use crate::verify::MAX_DEPTH;

/// A mnemonic's modifiers, taken from left to right.
pub(super) struct Modifiers {
    /// Where the mnemonic stands.
    at: usize,
    words: Vec<String>,
    next: usize,
}

impl Modifiers {
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let found = self.words.get(self.next).is_some_and(|w| w == name);
        self.next += found as usize;
        found
    }

    pub(super) fn reuse(&mut self) -> Reuse {
        let word = self.words.get(self.next).and_then(|word| Reuse::from_name(word));
        let hint = word.filter(|reuse| *reuse != Reuse::Normal);
        self.next += usize::from(hint.is_some());
        hint.unwrap_or_default()
    }
}

/// What has been read of an operation before its result types.
pub(super) struct Head {
    kind: Kind,
    operands: Vec<Value>,
    /// The regions to come: words before each, and names and types of its arguments (the names of
    /// the second region of `while` stand before its brace and are read there).
    regions: Vec<Region>,
}

enum Kind {
    Known(OpKind),
    /// A constant whose type is not known yet.
    Const(Token, usize),
}

struct Region {
    /// Stands before the region.
    word: Option<&'static str>,
    /// Names of the arguments, if they have been read.
    names: Option<Vec<(Name, usize)>>,
    types: Vec<Type>,
}

impl Head {
    pub(super) fn new(kind: OpKind, operands: Vec<Value>) -> Head {
        Head { kind: Kind::Known(kind), operands, regions: Vec::new() }
    }
}

impl Parser {
    /// A block in braces.
    pub(super) fn block(&mut self, block: Block) -> Parsed<()> {
        if self.depth > MAX_DEPTH {
            return self.expected(format!("regions that nest at most {MAX_DEPTH} deep"));
        }
        self.mark('{')?;
        self.depth += 1;
        while !self.take_mark('}') {
            self.operation(block)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn operation(&mut self, block: Block) -> Parsed<()> {
        let mut names = Vec::new();
        if matches!(self.peek(), Token::Value(_)) {
            names = self.separated(Self::new_name)?;
            self.mark('=')?;
        }
        let head = self.head()?;
        let types = if names.is_empty() {
            Vec::new()
        } else {
            self.mark(':')?;
            self.separated(Self::ty)?
        };
        if types.len() != names.len() {
            return self.expected(format!("{} result types, not {}", names.len(), types.len()));
        }
        let kind = match head.kind {
            Kind::Known(kind) => kind,
            Kind::Const(token, at) => match types.first() {
                Some(ty) => OpKind::Const(self.literal(&token, at, ty.elem())?),
                None => return self.expected_at(at, "a result for the constant"),
            },
        };
        let loc = self.location()?;
        let regions: Vec<Block> = head.regions.iter().map(|_| self.kernel.add_block()).collect();
        let op = self.kernel.append(block, kind, &head.operands, &types, &regions, loc);
        for (i, name) in names.into_iter().enumerate() {
            let result = self.kernel.op(op).results[i];
            self.bind(name, result)?;
        }
        head.regions.into_iter().zip(regions).try_for_each(|(region, block)| self.region(region, block))
    }

    fn region(&mut self, region: Region, block: Block) -> Parsed<()> {
        if let Some(word) = region.word {
            self.keyword(word)?;
        }
        let at = self.at;
        let names = match region.names {
            Some(names) => names,
            None => {
                self.mark('(')?;
                self.list_until(')', Self::new_name)?
            }
        };
        if names.len() != region.types.len() {
            return self.expected_at(at, format!("{} arguments", region.types.len()));
        }
        for (name, ty) in names.into_iter().zip(region.types) {
            self.bind_arg(name, block, ty)?;
        }
        self.block(block)
    }

    /// `@file:line:column`, if it is there.
    fn location(&mut self) -> Parsed<Loc> {
        if !self.take_mark('@') {
            return Ok(Loc::default());
        }
        let file = self.integer("a file's number")?;
        self.mark(':')?;
        let line = self.integer("a line")?;
        self.mark(':')?;
        let column = self.integer("a column")?;
        Ok(Loc { file, line, column })
    }

    fn head(&mut self) -> Parsed<Head> {
        use OpKind::*;
        let at = self.at;
        let word = self.word("an operation")?;
        let mut words = word.split('.').map(str::to_owned);
        let mnemonic = words.next().unwrap_or_default();
        let mut m = Modifiers { at, words: words.collect(), next: 0 };
        let head = match mnemonic.as_str() {
            "const" => {
                let (token, at) = (self.advance(), self.at - 1);
                Head { kind: Kind::Const(token, at), operands: Vec::new(), regions: Vec::new() }
            }
            "iota" => Head::new(Iota, vec![]),
            "program_id" => Head::new(ProgramId(self.launch_axis()?), vec![]),
            "num_programs" => Head::new(NumPrograms(self.launch_axis()?), vec![]),
            "thread_id" => Head::new(ThreadId(self.launch_axis()?), vec![]),
            "block_dim" => Head::new(BlockDim(self.launch_axis()?), vec![]),
            "select" => self.values_of(Select)?,
            "fma" => self.values_of(Fma)?,
            "cast" => self.values_of(Cast)?,
            "bitcast" => self.values_of(Bitcast)?,
            "broadcast" => self.values_of(Broadcast)?,
            "reshape" => self.values_of(Reshape)?,
            "dot" => {
                let all = [Precision::Tf32, Precision::Tf32x3, Precision::FastSums];
                let named = all.into_iter().find(|p| m.flag(p.name()));
                self.values_of(Dot(named.unwrap_or_default()))?
            }
            "address" => self.values_of(Address)?,
            "condition" => self.values_of(Condition)?,
            "check_bounds" => self.values_of(CheckBounds)?,
            "check_divisor" => self.values_of(CheckDivisor)?,
            "block_check_bounds" => self.values_of(BlockCheck(Check::Bounds))?,
            "block_check_divisor" => self.values_of(BlockCheck(Check::Divisor))?,
            "defer_bounds" => {
                let together = m.flag("together");
                self.values_of(DeferFault { check: Check::Bounds, together })?
            }
            "defer_divisor" => {
                let together = m.flag("together");
                self.values_of(DeferFault { check: Check::Divisor, together })?
            }
            "faulted" => Head::new(Faulted, vec![]),
            "transpose" => {
                let operand = self.value()?;
                Head::new(Transpose(Shape::new(&self.extents()?)), vec![operand])
            }
            "reduce" => {
                let op = self.modifier(&mut m, "a combination", ReduceOp::from_name)?;
                let (operand, axis) = self.along_axis()?;
                Head::new(Reduce { op, axis }, vec![operand])
            }
            "scan" => {
                let op = self.modifier(&mut m, "a combination", ReduceOp::from_name)?;
                let (reverse, exclusive) = (m.flag("reverse"), m.flag("exclusive"));
                let (operand, axis) = self.along_axis()?;
                Head::new(Scan { op, axis, reverse, exclusive }, vec![operand])
            }
            "extent" | "stride" => {
                let (operand, axis) = self.along_axis()?;
                Head::new(if mnemonic == "extent" { Extent(axis) } else { Stride(axis) }, vec![operand])
            }
            "alloc" => {
                let (space, elem) = (self.space()?, self.elem()?);
                Head::new(Alloc { space, elem, shape: Shape::new(&self.extents()?) }, vec![])
            }
            "barrier" => Head::new(Barrier, vec![]),
            "warp_barrier" => self.values_of(WarpBarrier)?,
            "grid_barrier" => Head::new(GridBarrier, vec![]),
            "cluster_barrier" | "cluster_store_quad" | "ptr_cluster_store_quad" => {
                self.cluster_head(&mnemonic, at)?
            }
            "cp_async" | "cp_async_commit" | "cp_async_wait" => self.async_copy_head(&mnemonic, at)?,
            "fence" => Head::new(Fence(self.modifier(&mut m, "a scope", Scope::from_name)?), vec![]),
            "shuffle" => {
                let mode = self.modifier(&mut m, "a shuffle mode", ShuffleMode::from_name)?;
                self.values_of(Shuffle(mode))?
            }
            "vote" => {
                let mode = self.modifier(&mut m, "a vote mode", VoteMode::from_name)?;
                self.values_of(Vote(mode))?
            }
            "block_uniform" => self.values_of(BlockUniform)?,
            "clock" => Head::new(Clock(self.modifier(&mut m, "a unit", ClockUnit::from_name)?), vec![]),
            "sleep" => self.values_of(Sleep)?,
            "if" => self.if_head()?,
            "for" => self.for_head()?,
            "while" => self.while_head()?,
            "yield" => self.yield_head(at)?,
            "fault_region" => {
                let mut head = self.values_of(FaultRegion)?;
                head.regions.push(Region { word: None, names: Some(vec![]), types: vec![] });
                head
            }
            "assert" | "block_assert" | "defer_assert" => {
                let mut operands = vec![self.value()?];
                self.mark(',')?;
                let message = self.message(&mut operands)?;
                let kind = match mnemonic.as_str() {
                    "assert" => Assert(message),
                    "block_assert" => BlockCheck(Check::Assert(message)),
                    _ => DeferFault { check: Check::Assert(message), together: m.flag("together") },
                };
                Head::new(kind, operands)
            }
            "print" | "inline_ptx" => {
                let mut operands = vec![];
                let message = self.message(&mut operands)?;
                let kind = if mnemonic == "print" { Print(message) } else { InlinePtx(message) };
                Head::new(kind, operands)
            }
            "scratch" => Head::new(Scratch { offset: self.integer("an offset in bytes")? }, vec![]),
            "load" | "store" | "gather" | "scatter" | "atomic" | "atomic_cas" => {
                self.view_access(&mnemonic, &mut m)?
            }
            "ordered_load" | "ordered_store" | "load_quad" | "store_quad" | "ptr_ordered_load"
            | "ptr_ordered_store" => self.ordered_access(&mnemonic, &mut m)?,
            "atomic_exchange_128" | "atomic_cas_128" | "ptr_atomic_exchange_128" | "ptr_atomic_cas_128" => {
                self.atomic_128(&mnemonic, &mut m)?
            }
            "view_load" | "view_store" | "view_atomic" | "view_atomic_cas" | "view_ordered_load"
            | "view_ordered_store" | "view_address" => self.linear_access(&mnemonic, &mut m)?,
            "ptr_load" | "ptr_store" | "ptr_atomic" | "ptr_atomic_cas" => {
                self.address_access(&mnemonic, &mut m)?
            }
            other => match element_wise(other) {
                Some(kind) => self.values_of(kind)?,
                None => match self.explicit_head(other, at)? {
                    Some(head) => head,
                    None => return self.expected_at(at, "an operation"),
                },
            },
        };
        match m.words.get(m.next) {
            Some(word) => self.expected_at(at, format!("no modifier `{word}`")),
            None => Ok(head),
        }
    }

    pub(super) fn modifier<T>(
        &self,
        m: &mut Modifiers,
        what: &str,
        from: impl Fn(&str) -> Option<T>,
    ) -> Parsed<T> {
        let found = m.words.get(m.next).and_then(|w| from(w));
        m.next += 1;
        match found {
            Some(value) => Ok(value),
            None => self.expected_at(m.at, format!("{what} as modifier")),
        }
    }

    fn values_of(&mut self, kind: OpKind) -> Parsed<Head> {
        Ok(Head::new(kind, self.separated(Self::value)?))
    }

    fn launch_axis(&mut self) -> Parsed<Axis> {
        let at = self.at;
        match Axis::from_name(&self.word("an axis")?) {
            Some(axis) => Ok(axis),
            None => self.expected_at(at, "`x`, `y` or `z`"),
        }
    }

    /// `value axis int`.
    fn along_axis(&mut self) -> Parsed<(Value, u32)> {
        let operand = self.value()?;
        self.keyword("axis")?;
        Ok((operand, self.integer("an axis")?))
    }

    /// `"text {}", value, …`; the values join the operands.
    fn message(&mut self, operands: &mut Vec<Value>) -> Parsed<Message> {
        let text = self.text("a message in quotes")?;
        while self.take_mark(',') {
            operands.push(self.value()?);
        }
        Ok(self.kernel.message(&text))
    }

    fn if_head(&mut self) -> Parsed<Head> {
        let mut head = Head::new(OpKind::If, vec![self.value()?]);
        for word in [None, Some("else")] {
            head.regions.push(Region { word, names: Some(vec![]), types: vec![] });
        }
        Ok(head)
    }

    fn for_head(&mut self) -> Parsed<Head> {
        let mut names = vec![self.new_name()?];
        self.mark('=')?;
        let mut operands = vec![self.value()?];
        self.keyword("to")?;
        operands.push(self.value()?);
        self.keyword("step")?;
        operands.push(self.value()?);
        if self.take_word("carry") {
            self.mark('(')?;
            self.bindings(&mut names, &mut operands)?;
        }
        let carried = operands[3..].iter();
        let types =
            std::iter::once(&operands[0]).chain(carried).map(|&v| self.kernel.ty(v).clone()).collect();
        let mut head = Head::new(OpKind::For, operands);
        head.regions.push(Region { word: None, names: Some(names), types });
        Ok(head)
    }

    fn while_head(&mut self) -> Parsed<Head> {
        let (mut names, mut operands) = (vec![], vec![]);
        self.mark('(')?;
        self.bindings(&mut names, &mut operands)?;
        let types: Vec<Type> = operands.iter().map(|&v| self.kernel.ty(v).clone()).collect();
        let mut head = Head::new(OpKind::While, operands);
        head.regions.push(Region { word: None, names: Some(names), types: types.clone() });
        head.regions.push(Region { word: Some("do"), names: None, types });
        Ok(head)
    }

    /// `name = value, …)`.
    fn bindings(&mut self, names: &mut Vec<(Name, usize)>, operands: &mut Vec<Value>) -> Parsed<()> {
        self.list_until(')', |p| {
            names.push(p.new_name()?);
            p.mark('=')?;
            operands.push(p.value()?);
            Ok(())
        })?;
        Ok(())
    }

    fn yield_head(&mut self, at: usize) -> Parsed<Head> {
        Ok(Head::new(OpKind::Yield, self.values_on_line(at)?))
    }

    /// The operands of `yield` and the like begin on its line; what follows on the next is another
    /// operation.
    fn values_on_line(&mut self, at: usize) -> Parsed<Vec<Value>> {
        let same_line = self.tokens[at].line == self.tokens[self.at].line;
        let some = same_line && matches!(self.peek(), Token::Value(_));
        if some { self.separated(Self::value) } else { Ok(vec![]) }
    }

    /// Operands, then numbers with a word before each.
    fn explicit_head(&mut self, mnemonic: &str, at: usize) -> Parsed<Option<Head>> {
        let known = ExplicitOp::read(mnemonic, |_, needed| Ok::<_, ParseError>(needed.then_some(0)))?;
        if known.is_none() {
            return self.fragment_head(mnemonic, at);
        }
        let operands = self.values_on_line(at)?;
        let op = ExplicitOp::read(mnemonic, |word, needed| {
            if !needed && !matches!(self.peek(), Token::Word(w) if w == word) {
                return Ok(None);
            }
            self.keyword(word)?;
            self.integer(word).map(Some)
        })?;
        Ok(op.map(|op| {
            let regions = if let ExplicitOp::Tasks(tasks) = &op { tasks.len() } else { 0 };
            let mut head = Head::new(OpKind::Explicit(op), operands);
            let region = || Region { word: None, names: Some(vec![]), types: vec![] };
            head.regions.extend(std::iter::repeat_with(region).take(regions));
            head
        }))
    }

    fn cluster_head(&mut self, mnemonic: &str, at: usize) -> Parsed<Head> {
        let op = ClusterOp::from_name(mnemonic).unwrap_or(ClusterOp::Barrier);
        Ok(Head::new(OpKind::Cluster(op), self.values_on_line(at)?))
    }

    fn async_copy_head(&mut self, mnemonic: &str, at: usize) -> Parsed<Head> {
        let operands = self.values_on_line(at)?;
        let op = AsyncCopyOp::read(mnemonic, |word| {
            self.keyword(word)?;
            self.integer(word)
        })?;
        Ok(Head::new(OpKind::AsyncCopy(op.unwrap_or(AsyncCopyOp::Commit)), operands))
    }

    /// As `explicit_head`, for operations of warps on fragments.
    fn fragment_head(&mut self, mnemonic: &str, at: usize) -> Parsed<Option<Head>> {
        if FragmentOp::read(mnemonic, |_| Ok::<_, ParseError>(0))?.is_none() {
            return Ok(None);
        }
        let operands = self.values_on_line(at)?;
        let op = FragmentOp::read(mnemonic, |word| {
            self.keyword(word)?;
            self.integer(word)
        })?;
        Ok(op.map(|op| Head::new(OpKind::Fragment(op), operands)))
    }

    /// An access through a view: `view[index, …] where mask …`.
    fn view_access(&mut self, mnemonic: &str, m: &mut Modifiers) -> Parsed<Head> {
        let op = match mnemonic {
            "atomic" => Some(self.modifier(m, "an atomic operation", AtomicOp::from_name)?),
            _ => None,
        };
        let scope = match mnemonic {
            "atomic" | "atomic_cas" => self.modifier(m, "a scope", Scope::from_name)?,
            _ => Scope::Device,
        };
        let bounds = match mnemonic {
            "load" | "store" => Bounds::Mask,
            _ => self.modifier(m, "`mask`, `check` or `trust`", Bounds::from_name)?,
        };
        let (reuse, disjoint) = match mnemonic {
            "load" => (m.reuse(), false),
            "store" => (m.reuse(), m.flag("disjoint")),
            _ => (Reuse::Normal, false),
        };
        let asynchronous = mnemonic == "scatter" && m.flag("async");
        let mut operands = vec![self.value()?];
        self.mark('[')?;
        operands.extend(self.list_until(']', Self::value)?);
        let maskable = matches!(mnemonic, "gather" | "scatter" | "atomic");
        let masked = maskable && self.predicate(&mut operands)?;
        if matches!(mnemonic, "load" | "gather") {
            self.keyword("pad")?;
        } else {
            self.mark('=')?;
        }
        operands.push(self.value()?);
        let kind = match (mnemonic, op) {
            ("load", _) => OpKind::Load(reuse),
            ("store", _) => OpKind::Store { reuse, disjoint },
            ("gather", _) => OpKind::Gather { bounds, masked },
            ("scatter", _) => OpKind::Scatter { bounds, masked, asynchronous },
            (_, Some(op)) => OpKind::Atomic { op, scope, bounds, masked },
            (_, None) => {
                self.desired(&mut operands)?;
                OpKind::AtomicCas { scope, bounds }
            }
        };
        Ok(Head::new(kind, operands))
    }

    /// An access by address: `address where predicate …`.
    fn address_access(&mut self, mnemonic: &str, m: &mut Modifiers) -> Parsed<Head> {
        let op = match mnemonic {
            "ptr_atomic" => Some(self.modifier(m, "an atomic operation", AtomicOp::from_name)?),
            _ => None,
        };
        let atomic = matches!(mnemonic, "ptr_atomic" | "ptr_atomic_cas");
        let scope = if atomic { self.modifier(m, "a scope", Scope::from_name)? } else { Scope::Device };
        let space = self.modifier(m, "a space", Space::from_name)?;
        let (lanes, reuse) = if atomic {
            (1, Reuse::Normal)
        } else {
            let lanes =
                self.modifier(m, "`x` and a number of lanes", |w| w.strip_prefix('x')?.parse().ok())?;
            (lanes, m.reuse())
        };
        let mut operands = vec![self.value()?];
        let predicated = self.predicate(&mut operands)?;
        if mnemonic != "ptr_load" {
            self.mark('=')?;
            operands.extend(self.separated(Self::value)?);
        }
        let kind = match (mnemonic, op) {
            ("ptr_load", _) => OpKind::PtrLoad { space, lanes, reuse, predicated },
            ("ptr_store", _) => OpKind::PtrStore { space, lanes, reuse, predicated },
            (_, Some(op)) => OpKind::PtrAtomic { space, op, scope, predicated },
            (_, None) => {
                self.desired(&mut operands)?;
                OpKind::PtrAtomicCas { space, scope, predicated }
            }
        };
        Ok(Head::new(kind, operands))
    }

    /// `where value`, if it is there.
    pub(super) fn predicate(&mut self, operands: &mut Vec<Value>) -> Parsed<bool> {
        let found = self.take_word("where");
        if found {
            operands.push(self.value()?);
        }
        Ok(found)
    }

    /// `-> value`.
    pub(super) fn desired(&mut self, operands: &mut Vec<Value>) -> Parsed<()> {
        if !self.take(&Token::Arrow) {
            return self.expected("`->`");
        }
        operands.push(self.value()?);
        Ok(())
    }

    fn literal(&self, token: &Token, at: usize, elem: Scalar) -> Parsed<Literal> {
        let literal = match token {
            Token::Word(text) | Token::Number(text) => literal(text, elem),
            _ => None,
        };
        match literal {
            Some(literal) => Ok(literal),
            None => self.expected_at(at, format!("a constant of type {elem}")),
        }
    }
}

fn element_wise(mnemonic: &str) -> Option<OpKind> {
    let unary = UnaryOp::from_name(mnemonic).map(OpKind::Unary);
    let binary = || BinaryOp::from_name(mnemonic).map(OpKind::Binary);
    unary.or_else(binary).or_else(|| CompareOp::from_name(mnemonic).map(OpKind::Compare))
}

/// A literal from the text that its `Display` writes.
fn literal(text: &str, elem: Scalar) -> Option<Literal> {
    match elem {
        Scalar::Bool => text.parse().ok().map(Literal::bool),
        _ if elem.is_int() => Literal::from_i128(elem, text.parse().ok()?),
        _ => match text.strip_prefix("0x") {
            Some(digits) => Some(Literal::from_bits(elem, u64::from_str_radix(digits, 16).ok()?)),
            None if elem == Scalar::F32 => text.parse().ok().map(Literal::f32),
            None => text.parse().ok().map(|v| Literal::from_f64(elem, v)),
        },
    }
}
